import { describe, expect, test } from "bun:test";
import { hostname } from "node:os";
import { coreOptions } from "../../src/config/core-options.ts";
import { loadConfig } from "../../src/config/load.ts";
import type { Config, ConfigValue } from "../../src/config/types.ts";
import { changedOptions } from "../../src/server/reload.ts";
import { addressOf, checkExposure, readSettings } from "../../src/server/settings.ts";
import { rejection } from "./kit.ts";

const load = (environment: Record<string, string>): Promise<Config> =>
  loadConfig({
    flags: new Map(),
    environment,
    defaultFile: null,
    skipDeniedFile: false,
    core: coreOptions(environment),
    sections: [],
    directory: "/",
  });

describe("settings", () => {
  test("are read from the options that the core declares, by default safe ones", async () => {
    expect(readSettings(await load({}))).toEqual({
      name: hostname(),
      listen: "127.0.0.1:4050",
      http: { host: "127.0.0.1", port: 4080 },
      dataDirectory: expect.stringMatching(/lockd$/),
      insecure: false,
      clients: [],
      traceMessages: false,
      readyFd: null,
      log: { level: "info", format: expect.stringMatching(/^(text|json)$/), file: null },
    });
  });

  test("follow what is given", async () => {
    const config = await load({
      LOCKD_NAME: "n2",
      LOCKD_LISTEN: "[::1]:0",
      LOCKD_HTTP: "off",
      LOCKD_DATA: "/data",
      LOCKD_INSECURE: "true",
      LOCKD_TRACE_MESSAGES: "true",
      LOCKD_LOG_LEVEL: "debug",
      LOCKD_LOG_FORMAT: "text",
      LOCKD_LOG_FILE: "/log",
    });
    expect(readSettings(config)).toEqual({
      name: "n2",
      listen: "[::1]:0",
      http: null,
      dataDirectory: "/data",
      insecure: true,
      clients: [],
      traceMessages: true,
      readyFd: null,
      log: { level: "debug", format: "text", file: "/log" },
    });
  });
});

describe("exposure", () => {
  const check = (listen: string, http: string | null, insecure: boolean) =>
    checkExposure({ listen, http: http === null ? null : addressOf(http), insecure }, { methods: [], tls: null });

  test.each(["127.0.0.1:1", "[::1]:1", "localhost:1"])("%s stays on this machine", async (address) => {
    expect(await check(address, address, false)).toEqual([]);
  });

  test.each(["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "nowhere.invalid:1"])("%s is refused without --insecure, naming option and address", async (address) => {
    const host = addressOf(address).host;
    for (const error of [await rejection(check(address, null, false)), await rejection(check("127.0.0.1:1", address, false))]) {
      expect(error).toMatchObject({ code: "config", message: expect.stringContaining(host), hint: expect.stringContaining("--insecure") });
    }
    expect(String(await rejection(check("127.0.0.1:1", address, false)))).toContain("--http");
    expect(await check(address, address, true)).toEqual(["listen", "http"]);
  });
});

describe("changed options", () => {
  const values = (record: Record<string, ConfigValue["value"]>, kind: "default" | "flag" = "default"): Map<string, ConfigValue> =>
    new Map(Object.entries(record).map(([name, value]) => [name, { value, origin: kind === "flag" ? { kind, flag: `--${name}` } : { kind } }]));

  test("are told by value, over core and sections, sorted", () => {
    const before: Config = { file: null, core: values({ name: "a", list: ["x"], same: 1 }), sections: new Map([["lock", values({ max: 1 })], ["old", values({ x: 1 })]]) };
    const after: Config = { file: "/f", core: values({ name: "b", list: ["x", "y"], same: 1 }, "flag"), sections: new Map([["lock", values({ max: 2 })], ["new", values({ y: null })]]) };
    expect(changedOptions(before, after)).toEqual(["list", "lock.max", "name", "new.y", "old.x"]);
    expect(changedOptions(before, before)).toEqual([]);
  });
});

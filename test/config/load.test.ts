import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { coreOptions } from "../../src/config/core-options.ts";
import { dataDirectory } from "../../src/config/data-directory.ts";
import { flagValues, type GivenFlag, loadConfig, type LoadRequest } from "../../src/config/load.ts";
import { ConfigReader } from "../../src/config/reader.ts";
import { configTemplate } from "../../src/config/template.ts";
import type { OptionSpec, SectionSpec } from "../../src/config/types.ts";
import { LockdError } from "../../src/errors.ts";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "lockd-config-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const core: readonly OptionSpec[] = [
  { name: "config", type: "path", help: "", noFile: true },
  { name: "listen", type: "address", help: "", default: "127.0.0.1:4050" },
  { name: "grace", type: "duration", minMs: 500, maxMs: 60_000, help: "", default: 5000 },
  { name: "connect", type: "list", of: "address", help: "", default: ["127.0.0.1:4050"] },
  { name: "data", type: "path", help: "", default: () => "/computed" },
  { name: "verbose", type: "boolean", help: "" },
  { name: "fd", type: "integer", min: 1, max: 9, help: "", noEnvironment: true, noFile: true },
  { name: "password", type: "string", help: "", noFlag: true },
];
const lock: SectionSpec = { name: "lock", options: [{ name: "tickets-max", type: "integer", min: 1, max: 100, help: "", default: 10 }] };

const flag = (name: string, ...texts: string[]): [string, GivenFlag] => [name, { flag: `--${name}`, texts }];

function load(changes: Partial<LoadRequest> = {}): ReturnType<typeof loadConfig> {
  return loadConfig({ flags: new Map(), environment: {}, defaultFile: null, skipDeniedFile: false, core, sections: [lock], directory: "/work", ...changes });
}

function file(text: string | Uint8Array, name = "lockd.toml"): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

/** The error that the promise must end in. */
async function failure(promise: Promise<unknown>): Promise<LockdError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof LockdError) return error;
    throw error;
  }
  throw new Error("it was accepted");
}

describe("precedence", () => {
  test("a flag beats the environment, which beats the file, which beats the default, and origins are kept", async () => {
    const path = file('grace = "1s"\nlisten = "a:1"\nconnect = ["a:1"]\n');
    const config = await load({
      defaultFile: path,
      environment: { LOCKD_LISTEN: "b:2", LOCKD_CONNECT: "b:2" },
      flags: new Map([flag("connect", "c:3,d:4", "e:5")]),
    });
    expect(config.file).toBe(path);
    expect(config.core.get("connect")).toEqual({ value: ["c:3", "d:4", "e:5"], origin: { kind: "flag", flag: "--connect" } });
    expect(config.core.get("listen")).toEqual({ value: "b:2", origin: { kind: "environment", variable: "LOCKD_LISTEN" } });
    expect(config.core.get("grace")).toEqual({ value: 1000, origin: { kind: "file", path, line: 1 } });
    expect(config.core.get("data")).toEqual({ value: "/computed", origin: { kind: "default" } });
    expect(config.core.get("verbose")?.value).toBe(false);
    expect(config.core.get("fd")?.value).toBeNull();
    expect(config.sections.get("lock")?.get("tickets-max")).toEqual({ value: 10, origin: { kind: "default" } });
  });

  test("a reader gives typed values, says what was given, and takes a wrong name or type for a defect", async () => {
    const reader = new ConfigReader((await load({ flags: new Map([flag("grace", "1s")]) })).core);
    expect([reader.number("grace"), reader.string("listen"), reader.list("connect").length, reader.boolean("verbose"), reader.numberOrNull("fd"), reader.stringOrNull("password")]).toEqual([1000, "127.0.0.1:4050", 1, false, null, null]);
    expect([reader.given("grace"), reader.given("listen")]).toEqual([true, false]);
    expect(() => reader.string("grace")).toThrow("assertion failed");
    expect(() => reader.string("nothing")).toThrow("assertion failed");
  });
});

describe("the file", () => {
  test("gives sections and paths relative to its own folder", async () => {
    const path = file('data = "state"\n[lock]\ntickets-max = 7\n');
    const config = await load({ defaultFile: path });
    expect(config.core.get("data")?.value).toBe(join(folder, "state"));
    expect(config.sections.get("lock")?.get("tickets-max")).toEqual({ value: 7, origin: { kind: "file", path, line: 3 } });
  });

  const mistakes: readonly (readonly [name: string, text: string, message: RegExp, hint: string | null])[] = [
    ["an unknown key", "\nlisten = \"a:1\"\nlissten = 3\n", /lockd\.toml:3: unknown key "lissten"$/, "did you mean listen?"],
    ["an unknown key in a section", "[lock]\nticket-max = 1\n", /lockd\.toml:2: unknown key "ticket-max" in \[lock\]$/, "did you mean tickets-max?"],
    ["an unknown section", "[locks]\n", /:1: unknown key "locks"$/, "did you mean lock?"],
    ["a plugin's key at the top level", "tickets-max = 1\n", /:1: unknown key "tickets-max"$/, "tickets-max belongs under [lock]"],
    ["a section that is a value", "lock = 3\n", /:1: unknown key "lock"$/, "did you mean lock?"],
    ["an option of flags only", "fd = 3\n", /unknown key "fd"$/, null],
    ["a bad value", 'grace = "1h"\n', /lockd\.toml:1: grace: "1h" is out of range \(accepted: 500ms to 1m/, null],
    ["a value of a wrong type", "listen = 4050\n", /:1: listen: a number is not accepted \(accepted: host:port/, null],
    ["broken TOML", 'listen = "a:1"\ngrace = \n', /lockd\.toml:2:\d+: /, null],
    ["a key given twice", 'grace = 1\ngrace = 2\n', /lockd\.toml:2:\d+: /, null],
    ["a hostile key", "__proto__ = 1\n", /unknown key "__proto__"$/, null],
    ["a key with control characters", '"a\\u001bb" = 1\n', /unknown key "a\\u\{1b\}b"$/, null],
  ];
  for (const [name, text, message, hint] of mistakes) {
    test(`with ${name} is a configuration error that says where and what`, async () => {
      const error = await failure(load({ defaultFile: file(text) }));
      expect(error.message).toMatch(message);
      expect(error.message).not.toContain("\n");
      expect(error.exitCode).toBe(78);
      if (hint !== null) expect(error.hint).toBe(hint);
    });
  }

  test("that is named must exist; the default one need not", async () => {
    const missing = join(folder, "missing.toml");
    expect((await load({ defaultFile: missing })).file).toBeNull();
    for (const changes of [{ flags: new Map([flag("config", missing)]) }, { environment: { LOCKD_CONFIG: missing } }]) {
      const error = await failure(load(changes));
      expect(error.message).toBe(`read configuration ${missing}: no such file`);
      expect(error.exitCode).toBe(78);
    }
  });

  test("that is a directory, too large or not UTF-8 is refused", async () => {
    expect((await failure(load({ defaultFile: folder }))).message).toEndWith("is a directory");
    expect((await failure(load({ defaultFile: file(new Uint8Array([0x61, 0x3d, 0x22, 0xff, 0x22])) }))).message).toEndWith("not UTF-8");
    expect((await failure(load({ defaultFile: file("#".repeat(1024 * 1024 + 1)) }))).message).toContain("larger than");
  });

  test("that this user may not read is passed over by client commands only, and only the default one", async () => {
    const path = file('listen = "a:1"\n', "denied.toml");
    chmodSync(path, 0);
    const isRoot = process.getuid?.() === 0;
    if (isRoot) process.seteuid?.(65_534);
    try {
      const passed = await load({ defaultFile: path, skipDeniedFile: true });
      expect([passed.file, passed.core.get("listen")?.origin.kind]).toEqual([null, "default"]);
      for (const changes of [{ defaultFile: path }, { flags: new Map([flag("config", path)]), skipDeniedFile: true }]) {
        expect((await failure(load(changes))).message).toBe(`read configuration ${path}: permission denied`);
      }
    } finally {
      if (isRoot) process.seteuid?.(0);
    }
  });

  test("leaves the sections of plugins that are not loaded alone", async () => {
    const others = { names: ["sync"], options: async () => [] };
    const path = file("[sync]\nwhatever = 1\n[[sync.session]]\n");
    expect((await load({ defaultFile: path, others })).file).toBe(path);
    expect((await failure(load({ defaultFile: path }))).message).toContain('unknown key "sync"');
  });
});

describe("the environment", () => {
  test("with an unknown LOCKD_ variable is a configuration error with a suggestion", async () => {
    const error = await failure(load({ environment: { LOCKD_LISTN: "a:1" } }));
    expect([error.message, error.hint, error.exitCode]).toEqual(["read environment: unknown variable LOCKD_LISTN", "did you mean LOCKD_LISTEN?", 78]);
    expect((await failure(load({ environment: { LOCKD_FD: "3" } }))).exitCode).toBe(78);
  });

  test("may hold what exec gives to its child, and variables of others", async () => {
    const environment = { LOCKD_OBJECT: "x", LOCKD_TOKEN: "1", LOCKD_HANDLE: "h", LOCKD_DEADLINE: "9", OTHER: "y", lockd_x: "z" };
    expect((await load({ environment })).file).toBeNull();
  });

  test("may hold the address that install.sh took lockd from", async () => {
    expect((await load({ environment: { LOCKD_DOWNLOAD_URL: "http://127.0.0.1:1/" } })).file).toBeNull();
  });

  test("asks plugins that are not loaded only when a variable is not known otherwise", async () => {
    let asked = 0;
    const others = {
      names: ["sync"],
      options: async (): Promise<readonly OptionSpec[]> => {
        asked += 1;
        return [{ name: "jobs", type: "integer", min: 1, max: 9, help: "" }];
      },
    };
    await load({ environment: { LOCKD_LISTEN: "a:1" }, others });
    expect(asked).toBe(0);
    await load({ environment: { LOCKD_JOBS: "2" }, others });
    expect(asked).toBe(1);
    expect((await failure(load({ environment: { LOCKD_JOBZ: "2" }, others }))).hint).toBe("did you mean LOCKD_JOBS?");
  });

  test("with a bad value is 78 even when a flag overrides it, and an empty variable counts as not set", async () => {
    const flags = new Map([flag("grace", "1s")]);
    const error = await failure(load({ environment: { LOCKD_GRACE: "soon" }, flags }));
    expect(error.message).toStartWith('read environment: LOCKD_GRACE: "soon" is not a duration');
    expect(error.exitCode).toBe(78);
    expect((await load({ environment: { LOCKD_GRACE: "" } })).core.get("grace")?.origin.kind).toBe("default");
  });

  test("may carry a secret, which no message repeats", async () => {
    const secret: OptionSpec = { name: "password", type: "string", pattern: /^[a-z]+$/, help: "", noFlag: true };
    const error = await failure(load({ core: [secret], environment: { LOCKD_PASSWORD: "Hunter2" } }));
    expect(error.message).not.toContain("Hunter2");
    expect((await load({ core: [secret], environment: { LOCKD_PASSWORD: "hunter" } })).core.get("password")?.value).toBe("hunter");
  });
});

test("a bad flag is a usage error that names the flag", async () => {
  const error = await failure(load({ flags: new Map([flag("grace", "0")]) }));
  expect(error.message).toStartWith('--grace: "0" is out of range');
  expect(error.exitCode).toBe(64);
});

test("two options of one name are a defect", async () => {
  const twice: SectionSpec = { name: "x", options: [{ name: "listen", type: "boolean", help: "" }] };
  expect(load({ sections: [twice] })).rejects.toThrow("option names are unique");
});

describe("the template", () => {
  const options = coreOptions({ HOME: "/home/u" });

  test("is valid when every commented option is put to use, and changes no value", async () => {
    const text = configTemplate(options, [lock]).replaceAll(/^#([a-z])/gm, "$1");
    const path = file(text, "template.toml");
    const request = { core: options, sections: [lock], environment: { HOME: "/home/u" } };
    const [read, plain] = [await load({ ...request, defaultFile: path }), await load(request)];
    const values = (config: typeof read): unknown => [...config.core].concat([...(config.sections.get("lock") ?? [])]).map(([name, { value }]) => [name, value]);
    expect(values(read)).toEqual(values(plain));
    const fromFile = [...read.core.values()].filter(({ origin }) => origin.kind === "file").length;
    expect(fromFile).toBe(options.filter((spec) => spec.noFile !== true).length);
  });

  test("as it stands configures nothing, names every option and says where else it can be set", async () => {
    const text = configTemplate(options, [lock]);
    const config = await load({ core: options, defaultFile: file(text, "template.toml") });
    expect([...config.core.values()].every(({ origin }) => origin.kind === "default")).toBe(true);
    for (const spec of options.filter((option) => option.noFile !== true)) expect(text).toContain(`#${spec.name} = `);
    expect(text).toContain("# also: LOCKD_LOG_LEVEL, --log-level");
    expect(text).toContain("[lock]");
  });
});

test("the data directory follows the user: root has one, others the XDG state", () => {
  const path = (environment: Record<string, string>): unknown => {
    const spec = coreOptions(environment).find((option) => option.name === "data");
    return typeof spec?.default === "function" ? spec.default() : undefined;
  };
  const homeOf = (uid: number) => readFileSync("/etc/passwd", "utf8").split("\n").map((line) => line.split(":")).find((fields) => fields[2] === String(uid))?.[5];
  const asUser = <T>(body: () => T, uid: number): T => {
    const original = process.getuid;
    process.getuid = () => uid;
    try {
      return body();
    } finally {
      if (original !== undefined) process.getuid = original;
    }
  };
  asUser(() => {
    expect(path({ XDG_STATE_HOME: "/s", HOME: "/h" })).toBe("/s/lockd");
    expect(path({ XDG_STATE_HOME: "relative", HOME: "/h" })).toBe("/h/.local/state/lockd");
    expect(path({ HOME: "/h" })).toBe("/h/.local/state/lockd");
  }, 1000);
  // without HOME it is the home that /etc/passwd names, and nobody's is none
  asUser(() => expect(path({})).toBe(`${homeOf(65534)}/.local/state/lockd`), 65534);
  asUser(() => {
    for (const environment of [{}, { HOME: "" }, { HOME: "relative" }]) expect(path(environment)).toBeNull();
    const values = new ConfigReader(flagValues(coreOptions({}), new Map(), "/"));
    expect(() => dataDirectory(values)).toThrow(expect.objectContaining({ code: "config", exitCode: 78, hint: expect.stringContaining("--data") }));
  }, 3_999_999_999);
});

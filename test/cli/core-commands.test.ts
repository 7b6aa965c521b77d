import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { command, fakePlugin, run } from "./kit.ts";

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "lockd-cli-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const config = [{ name: "tickets-max", type: "integer", min: 1, max: 100, default: 10, help: "tickets" }] as const;
const password = { name: "password", type: "string", help: "a secret", noFlag: true } as const;
const lock = (): ReturnType<typeof fakePlugin> => fakePlugin([command({ name: "go" })], { name: "lock", config: [...config, password] });
const lines = (text: string): unknown[] => text.trimEnd().split("\n").map((line): unknown => JSON.parse(line));

describe("lockd config init", () => {
  test("prints a file that lockd config check accepts", async () => {
    const printed = await run(["config", "init"], { plugins: [lock()] });
    expect([printed.code, printed.stderr]).toEqual([0, ""]);
    expect(printed.stdout).toContain("[lock]");
    expect(await run(["config", "init", "-"], { plugins: [lock()] })).toEqual(printed);
    const path = join(folder, "printed.toml");
    writeFileSync(path, printed.stdout);
    expect((await run(["config", "check", "--config", path], { plugins: [lock()] })).code).toBe(0);
  });

  test("creates a file for its owner only, and never overwrites one", async () => {
    const path = join(folder, "created.toml");
    expect(await run(["config", "init", path])).toEqual({ code: 0, stdout: "", stderr: `lockd: created ${path}\n` });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    writeFileSync(path, "mine");
    expect(await run(["config", "init", path])).toMatchObject({ code: 78, stderr: expect.stringContaining("it exists") });
    expect(readFileSync(path, "utf8")).toBe("mine");
    expect(await run(["config", "init", join(folder, "no", "x.toml")])).toMatchObject({ code: 78, stderr: expect.stringContaining("ENOENT") });
  });
});

describe("lockd config check", () => {
  test("says ok and what was read", async () => {
    const path = join(folder, "check.toml");
    writeFileSync(path, 'listen = "127.0.0.1:1"\n[lock]\ntickets-max = 5\n');
    const ended = await run(["config", "check", "--config", path, "--http", "off"], { plugins: [lock()] });
    expect(ended.stdout).toMatch(new RegExp(`^ok: read ${path}, 4 of \\d+ options given\\n$`));
    const json = await run(["config", "check", "--json"], { plugins: [lock()] });
    expect(JSON.parse(json.stdout)).toEqual({ ok: true, file: null, given: 1 });
    expect((await run(["config", "check"])).stdout).toStartWith("ok: no configuration file");
  });

  test("is 78 for any mistake, also in the section of a plugin", async () => {
    const path = join(folder, "wrong.toml");
    for (const text of ["x = 1", "[lock]\ntickets-max = 0", "[lock]\ntickets = 1", "[sync]\n", "listen ="]) {
      writeFileSync(path, text);
      const ended = await run(["config", "check", "--config", path], { plugins: [lock()] });
      expect([ended.code, ended.stdout]).toEqual([78, ""]);
      expect(ended.stderr).toContain(path);
    }
  });
});

describe("lockd config show", () => {
  test("shows each value with its origin, and no secret", async () => {
    const path = join(folder, "show.toml");
    writeFileSync(path, 'listen = "127.0.0.1:1"\n[lock]\npassword = "hunter2"\n');
    const options = { plugins: [lock()], environment: { LOCKD_LOG_LEVEL: "warn" } };
    const words = ["config", "show", "--config", path, "--http=off", "--connect=a:1,b:2"];
    const text = await run(words, options);
    expect(text.stdout).toMatch(/^OPTION +VALUE +ORIGIN\n/);
    expect(text.stdout).toMatch(new RegExp(`^listen +127\\.0\\.0\\.1:1 +${path}:1$`, "m"));
    expect(text.stdout).toMatch(/^log-level +warn +LOCKD_LOG_LEVEL$/m);
    expect(text.stdout).toMatch(/^http +off +--http$/m);
    expect(text.stdout).toMatch(/^connect +a:1,b:2 +--connect$/m);
    expect(text.stdout).toMatch(/^lock\.tickets-max +10 +default$/m);
    expect(text.stdout).toMatch(new RegExp(`^lock\\.password +\\(hidden\\) +${path}:3$`, "m"));
    expect(text.stdout).not.toMatch(/^(json|ready-fd) /m);

    const json = lines((await run([...words, "--json"], options)).stdout);
    expect(json).toContainEqual({ section: null, name: "listen", value: "127.0.0.1:1", origin: { kind: "file", path, line: 1 } });
    expect(json).toContainEqual({ section: null, name: "http", value: null, origin: { kind: "flag", flag: "--http" } });
    expect(json).toContainEqual({ section: "lock", name: "tickets-max", value: 10, origin: { kind: "default" } });
    expect(json).toContainEqual({ section: "lock", name: "password", value: "(hidden)", origin: { kind: "file", path, line: 3 } });
    expect(JSON.stringify(json) + text.stdout).not.toContain("hunter2");
  });
});

describe("lockd plugins", () => {
  test("lists name, version, origin, needs and visible commands", async () => {
    const sync = fakePlugin([command({ name: "sync" }), command({ name: "quiet", hidden: true })], { name: "sync", version: "2.0.0", requires: { lockd: "^1", plugins: ["lock"] } });
    const text = await run(["plugins"], { plugins: [lock(), sync] });
    expect(text.stdout).toBe("NAME  VERSION  ORIGIN   NEEDS  COMMANDS\nlock  1.0.0    bundled  -      go\nsync  2.0.0    bundled  lock   sync\n");
    const json = lines((await run(["plugins", "--json"], { plugins: [lock(), sync] })).stdout);
    expect(json).toEqual([
      { name: "lock", version: "1.0.0", origin: "bundled", commands: ["go"], dependencies: [] },
      { name: "sync", version: "2.0.0", origin: "bundled", commands: ["sync"], dependencies: ["lock"] },
    ]);
    expect((await run(["plugins"])).stdout).toBe("no plugins\n");
    expect(await run(["plugins", "--json"])).toEqual({ code: 0, stdout: "", stderr: "" });
  });
});

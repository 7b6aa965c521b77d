import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Database } from "bun:sqlite";
import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LOCKD, lockd, TestServer, temporaryDirectory } from "./kit.ts";

const files = temporaryDirectory("start");
let running: TestServer;

beforeAll(async () => {
  running = await TestServer.start({ directory: join(files.path, "running") });
});
afterAll(async () => {
  await running.kill();
  files.remove();
});

const QUIET = ["--listen", "127.0.0.1:0", "--http", "off"];
const serve = (...flags: readonly string[]) => lockd(["serve", ...flags]);

/** The server ended with `code` without becoming ready; its error is one line, and a second that says what to do unless the first does. */
function refused(finished: { code: number; stdout: string; stderr: string }, code: number): { error: string; hint: string } {
  expect([finished.code, finished.stdout, finished.stderr.includes('"ready"')]).toEqual([code, "", false]);
  const [error = "", hint = "", ...more] = finished.stderr.split("\n").filter((line) => line !== "" && !line.startsWith("{"));
  expect(error).toStartWith("lockd: ");
  expect(hint).toMatch(/^(?:  \S.*)?$/);
  expect(more).toEqual([]);
  return { error, hint };
}

describe("serve refuses to start", () => {
  test("on a port in use: 78, naming the address", async () => {
    const { error } = refused(await serve("--listen", running.address, "--http", "off", "--data", join(files.path, "port")), 78);
    expect(error).toContain(`${running.address}: address already in use`);
  });

  test("with a HTTP port in use: 78, naming the address", async () => {
    const finished = await serve("--listen", "127.0.0.1:0", "--http", running.address, "--data", join(files.path, "http"));
    expect(refused(finished, 78).error).toContain(running.address);
  });

  test("on an address that is not of this machine, or has no name: 78", async () => {
    for (const address of ["192.0.2.1:4050", "no-such-host.invalid:4050"]) {
      const { error, hint } = refused(await serve("--listen", address, "--http", "off", "--insecure", "--data", join(files.path, "address")), 78);
      expect(error).toContain(address);
      expect(hint).toContain("address of this machine");
    }
  });

  test("on an address that others reach without --insecure: 78, saying how to allow it", async () => {
    const { error, hint } = refused(await serve("--listen", "0.0.0.0:0", "--http", "off", "--data", join(files.path, "open")), 78);
    expect(error).toContain("0.0.0.0");
    expect(hint).toContain("--insecure");
  });

  test("in the data directory of a running server: 78, naming directory and process; that server is undisturbed", async () => {
    const { error } = refused(await serve(...QUIET, "--data", running.directory), 78);
    expect(error).toContain(running.directory);
    expect(error).toContain(String(running.process.pid));
    const link = join(files.path, "link");
    symlinkSync(running.directory, link);
    refused(await serve(...QUIET, "--data", link), 78);
    expect((await running.run(["status"])).code).toBe(0);
  });

  test("on a data directory of another format version: 65, naming both versions, and leaves it as it is", async () => {
    const directory = join(files.path, "version");
    const server = await TestServer.start({ directory });
    expect(await server.stop()).toBe(0);
    const database = new Database(join(directory, "lockd.sqlite"));
    const version: unknown = database.query("PRAGMA user_version").values()[0]?.[0];
    database.run("PRAGMA user_version = 9999");
    database.close();
    const { error } = refused(await serve(...QUIET, "--data", directory), 65);
    expect(error).toContain("9999");
    expect(error).toContain(directory);
    const again = new Database(join(directory, "lockd.sqlite"));
    expect(again.query("PRAGMA user_version").values()[0]?.[0]).toBe(9999);
    again.run(`PRAGMA user_version = ${Number(version)}`);
    again.close();
    await (await TestServer.start({ directory })).kill();
  });

  test("on a data directory whose store is something else: 65", async () => {
    const directory = join(files.path, "foreign");
    mkdirSync(directory);
    writeFileSync(join(directory, "lockd.sqlite"), "this is a letter, not a database. ".repeat(200));
    expect(refused(await serve(...QUIET, "--data", directory), 65).error).toContain(directory);
    const other = join(files.path, "other");
    mkdirSync(other);
    const database = new Database(join(other, "lockd.sqlite"));
    database.run("CREATE TABLE cats (name TEXT)");
    database.close();
    expect(refused(await serve(...QUIET, "--data", other), 65).error).toContain(other);
  });

  test("on a read-only file system: 78, naming the directory, new or used before", async () => {
    const directory = join(files.path, "read-only");
    await (await TestServer.start({ directory: join(directory, "used") })).stop();
    const before = readdirSync(directory);
    // for root, whom modes do not stop: a mount in a namespace of its own, which is gone with the process
    const root = process.getuid?.() === 0;
    const script = root ? 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"' : 'exec "$@"';
    if (!root) for (const path of [directory, join(directory, "used")]) chmodSync(path, 0o500);
    for (const data of [join(directory, "new"), join(directory, "used")]) {
      const child = Bun.spawn([...(root ? ["unshare", "-m"] : []), "sh", "-c", script, directory, LOCKD, "serve", ...QUIET, "--data", data], { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
      const [code, stdout, stderr] = await Promise.all([child.exited, new Response(child.stdout).text(), new Response(child.stderr).text()]);
      expect(refused({ code, stdout, stderr }, 78).error).toContain(data);
    }
    expect(readdirSync(directory)).toEqual(before);
    for (const path of [directory, join(directory, "used")]) chmodSync(path, 0o700);
  });

  test("on a data directory that is a file: 78", async () => {
    const file = join(files.path, "file");
    writeFileSync(file, "");
    expect(refused(await serve(...QUIET, "--data", file), 78).error).toContain(file);
    expect(refused(await serve(...QUIET, "--data", join(file, "below")), 78).error).toContain(file);
  });
});

describe("a bad command line or configuration", () => {
  test("an unknown flag, command, word or value: 64 in one line with what to do instead", async () => {
    const cases: readonly (readonly [readonly string[], string])[] = [
      [["serve", "--lisen", "127.0.0.1:0"], "--listen"],
      [["serve", "surplus"], "surplus"],
      [["serve", "--listen", "nonsense"], "host:port"],
      [["serve", "--listen"], "needs a value"],
      [["serve", "--log-level", "loud"], "trace, debug, info, warn, error, silent"],
      [["serve", "--ready-fd", "-1"], "--ready-fd"],
      [["serv"], "serve"],
      [["lock", "x", "--wiat", "1s"], "--wait"],
      [["list", "--json=maybe"], "--json"],
      [["list", "--connect", "a,b"], "host:port"],
      [["status", "more"], "more"],
      [["exec", "x"], "--"],
      [[], "which command"],
    ];
    for (const [argv, said] of cases) {
      const { code, stdout, stderr } = await lockd(argv);
      expect([argv, code, stdout]).toEqual([argv, 64, ""]);
      expect(stderr).toContain(said);
    }
    const { code, stderr } = await lockd(["lock", "--nonsense", "--json"]);
    expect(code).toBe(64);
    const error: { error: { code: string; message: string; retryable: boolean } } = JSON.parse(stderr);
    expect(error.error).toMatchObject({ code: "usage", retryable: false });
  });

  test("a configuration file with a mistake, or none where one is named: 78, naming file and place", async () => {
    const file = join(files.path, "lockd.toml");
    const cases: readonly (readonly [string, string])[] = [
      ["listen = ", "1"],
      ['listne = "127.0.0.1:0"', "listne"],
      ['listen = "nowhere"', "host:port"],
      ["listen = 5", "listen"],
      ["[lock]\nobjects-max = 0", "objects-max"],
      ["[lokc]\nobjects-max = 5", "lokc"],
    ];
    for (const [text, said] of cases) {
      writeFileSync(file, `${text}\n`);
      const { error } = refused(await serve(...QUIET, "--config", file, "--data", join(files.path, "config")), 78);
      expect(error).toContain(file);
      expect(error).toContain(said);
    }
    const missing = join(files.path, "missing.toml");
    expect(refused(await serve(...QUIET, "--config", missing), 78).error).toContain(missing);
  });

  test("an unknown or bad LOCKD_ variable: 78, but not those that exec sets", async () => {
    expect(refused(await lockd(["serve", ...QUIET], { env: { LOCKD_LISTEM: "x" } }), 78).error).toContain("LOCKD_LISTEM");
    expect(refused(await lockd(["serve", ...QUIET], { env: { LOCKD_LOG_LEVEL: "loud" } }), 78).error).toContain("LOCKD_LOG_LEVEL");
    const nested = { LOCKD_OBJECT: "x", LOCKD_TOKEN: "1", LOCKD_HANDLE: "h".repeat(25), LOCKD_DEADLINE: "5" };
    expect((await running.run(["status"], { env: nested })).code).toBe(0);
  });
});

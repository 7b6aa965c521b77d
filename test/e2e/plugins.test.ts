import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { eventually, lockd, temporaryDirectory, TestServer } from "./kit.ts";
import { commandText, pluginText, plugins, sentence, write } from "./plugins-kit.ts";

const directory = temporaryDirectory("plugins");
const AUDIT = join(directory.path, "audit");
/** What is written here says that a plugin's code ran. */
const TRACE = join(directory.path, "trace");
const traced = (name: string): string => `import { appendFileSync } from "node:fs";\nappendFileSync(${JSON.stringify(join(directory.path, "trace"))}, ${JSON.stringify(`${name}\n`)});`;
const loads = async (): Promise<string[]> => {
  const text = (await Bun.file(TRACE).exists()) ? await Bun.file(TRACE).text() : "";
  rmSync(TRACE, { force: true });
  return text.split("\n").filter((line) => line !== "");
};
let home = 0;
const folder = (): string => {
  const path = join(directory.path, String((home += 1)));
  mkdirSync(path, { mode: 0o755 });
  return path;
};
const lines = (text: string): unknown[] => text.split("\n").filter((line) => line !== "").map((line): unknown => JSON.parse(line));

beforeAll(() => {
  // a checkout may be writable by its group: what is loaded here belongs to the test alone
  cpSync(resolve(import.meta.dir, "../../examples/plugins/audit"), AUDIT, { recursive: true });
  Bun.spawnSync(["chmod", "-R", "go-w", AUDIT]);
});
afterAll(directory.remove);

describe("the worked plugin", () => {
  const servers: TestServer[] = [];
  const start = async (data: string, flags: readonly string[] = []): Promise<TestServer> => {
    const server = await TestServer.start({ directory: data, http: "127.0.0.1:0", flags: [`--plugin=${AUDIT}`, ...flags] });
    servers.push(server);
    return server;
  };
  afterAll(async () => {
    for (const server of servers) await server.kill();
  });
  const entries = async (server: TestServer, ...argv: string[]): Promise<unknown[]> => {
    const { code, stdout, stderr } = await server.run(["audit", ...argv, "--json"], { env: { LOCKD_PLUGIN: AUDIT } });
    expect([code, stderr]).toEqual([0, ""]);
    return lines(stdout);
  };

  test("counts the locks of others: by its command, its message, its route and its metrics; also over a restart", async () => {
    const data = join(directory.path, "data");
    let server = await start(data);
    for (const object of ["job/a", "job/a", "other"]) expect((await server.run(["exec", object, "--", "true"])).code).toBe(0);
    // events arrive when they are durable, which is before the command has ended
    expect(await entries(server)).toMatchObject([{ object: "job/a", granted: 2, lost: 0 }, { object: "other", granted: 1, lost: 0 }]);
    expect(await entries(server, "job/")).toMatchObject([{ object: "job/a" }]);
    const [handle = "", token = ""] = (await server.run(["lock", "job/b", "--duration=1m", "--unlock-duration=500ms"])).stdout.trim().split(" ");
    expect(handle).not.toBe("");
    expect((await server.run(["release", "job/b", "--force", "--token", token])).code).toBe(0);
    await eventually("the forced release is counted", async () => (await entries(server, "--lost")).length > 0);
    expect(await entries(server, "-l")).toMatchObject([{ object: "job/b", granted: 1, lost: 1 }]);

    const base = `http://${server.ready.http}`;
    expect(await (await fetch(`${base}/audit`)).json()).toMatchObject({ objects: 3 });
    expect(await (await fetch(`${base}/metrics`)).text()).toContain("\nlockd_audit_objects 3\n");
    const before = await entries(server);
    expect(await server.stop()).toBe(0);
    server = await start(data);
    expect(await entries(server)).toEqual(before);
    expect((await server.run(["exec", "other", "--", "true"])).code).toBe(0);
    expect(await entries(server, "other")).toMatchObject([{ object: "other", granted: 2 }]);
    // killed, it goes on where its counts end
    await server.kill();
    server = await start(data);
    expect(await entries(server, "other")).toMatchObject([{ object: "other", granted: 2 }]);
    server.signal("SIGUSR1");
    await eventually("it describes its state", () => server.log.some((line) => line.includes("3 objects counted through event")));
  });

  test("shows text, and asks with the credentials of its client: who may not list an object sees no counts", async () => {
    const home = folder();
    const secrets = ["a", "b"].map((name) => write(home, name, `token-of-${name}-0123456789`));
    const [a = "", b = ""] = secrets;
    const config = write(home, "lockd.toml", `plugin = ["${AUDIT}"]\n${["a", "b"].map((name) => `[[auth.client]]\nname = "${name}"\ntoken-file = "${name}"\nallow = [{ prefix = "${name}/", actions = ["lock", "list"] }]\n`).join("")}`);
    const server = await start(join(home, "data"), ["--config", config]);
    expect(await server.run(["exec", "a/x", "--token-file", a, "--", "true"])).toMatchObject({ code: 0 });
    const audit = (token: string) => server.run(["audit", "--token-file", token], { env: { LOCKD_PLUGIN: AUDIT } });
    expect((await audit(a)).stdout).toStartWith('"a/x" locked 1 times, ');
    expect(await audit(b)).toEqual({ code: 0, stdout: "", stderr: "" });
  });

  test("is taken up at the next start only: SIGHUP says so, and takes up the rest", async () => {
    const home = folder();
    const config = write(home, "lockd.toml", `plugin = ["${AUDIT}"]\n`);
    const server = await TestServer.start({ directory: join(home, "data"), flags: ["--config", config] });
    servers.push(server);
    write(home, "lockd.toml", 'log-level = "debug"\n');
    server.signal("SIGHUP");
    await eventually("it says that it has to be restarted", () => server.log.some((line) => line.includes('"restart-needed"') && line.includes('"plugin"')));
    expect(server.log.find((line) => line.includes('"reloaded"'))).toContain("log-level from info to debug");
  });

  test("refuses bad requests by its own parser, and its command tells when the server lacks the plugin", async () => {
    const server = await start(folder());
    const caller = write(folder(), "caller.ts", pluginText("caller", `commands: [{ name: "call", summary: "c", options: [...clientOptions], load: async () => ({ run: async (context) => {
      const client = await context.connect({ program: "caller" });
      for (const [type, body] of [["AUDIT", { prefix: 5 }], ["AUDIT", { prefix: "x".repeat(1025) }], ["NOSUCH", {}], ["LOCK", {}], ["audit", {}]]) {
        await client.request(type, body).catch((error) => context.out.write(error.code + ": " + error.message + "\\n"));
      }
      await client.close();
      return 7;
    } }) }]`, 'import { clientOptions } from "lockd:api";'));
    const called = await server.run(["call", `--plugin=${caller}`]);
    expect(called).toMatchObject({ code: 7, stderr: "" });
    expect(called.stdout.split("\n")).toEqual([
      "invalid: read message: prefix is not accepted, expected a text of at most 1024 bytes",
      "invalid: read message: prefix is not accepted, expected a text of at most 1024 bytes",
      "protocol: ask NOSUCH: the server does not know this request",
      'invalid: ask "LOCK": it is not the type of a plugin\'s message',
      'invalid: ask "audit": it is not the type of a plugin\'s message',
      "",
    ]);
    const plain = await TestServer.start({ directory: folder() });
    servers.push(plain);
    const lost = await plain.run(["audit"], { env: { LOCKD_PLUGIN: AUDIT } });
    expect(lost).toEqual({ code: 1, stdout: "", stderr: "lockd: ask AUDIT: the server does not know this request\n  the plugin that serves it has to be loaded there\n" });
  });
});

describe("the commands of an external plugin", () => {
  test("are listed by help, explained by their own, run, and suggested for a mistyped word", async () => {
    const env = { LOCKD_PLUGIN: AUDIT };
    expect((await lockd(["--help"], { env })).stdout).toMatch(/^ {2}audit {7}show how often/m);
    expect((await lockd(["--help", "--plugin", AUDIT])).stdout).toMatch(/^ {2}audit {7}show how often/m);
    expect((await lockd(["--help"])).stdout).not.toContain("audit");
    for (const argv of [["audit", "--help"], ["help", "audit"]]) {
      const { code, stdout } = await lockd(argv, { env });
      expect([code, stdout.split("\n")[0]]).toEqual([0, "lockd audit: show how often and how long objects were locked"]);
      expect(stdout).toContain("-l, --lost");
    }
    expect(await lockd(["audot"], { env })).toMatchObject({ code: 64, stderr: 'lockd: unknown command "audot"\n  did you mean audit?\n' });
    expect(await lockd(["audit"])).toMatchObject({ code: 64, stderr: expect.stringContaining('unknown command "audit"') });
  });

  test("are found by flag, variable and file, in each way a flag may be written", async () => {
    const home = folder();
    const path = write(home, "go.ts", pluginText("go", `commands: [${commandText("go")}]`));
    const config = write(home, "lockd.toml", 'plugin = ["go.ts"]\n');
    const ran = { code: 0, stdout: "done\n", stderr: "" };
    expect(await lockd(["go", "--plugin", path])).toEqual(ran);
    expect(await lockd(["go", `--plugin=${path}`])).toEqual(ran);
    expect(await lockd(["go", "--plugin", "./go.ts"], { cwd: home })).toEqual(ran);
    expect(await lockd(["go"], { env: { LOCKD_PLUGIN: `${path},${AUDIT}` } })).toEqual(ran);
    expect(await lockd(["go", "--plugin", AUDIT, "--plugin", path])).toEqual(ran);
    expect(await lockd(["go", "--config", config])).toEqual(ran);
    expect(await lockd(["go"], { env: { LOCKD_CONFIG: config } })).toEqual(ran);
    // the flag overrides the file, as for every option
    expect(await lockd(["go", "--config", config, "--plugin", AUDIT])).toMatchObject({ code: 64 });
    expect(await lockd(["go", "--plugin"])).toMatchObject({ code: 64 });
    expect(await lockd(["go", "--", "--plugin", path])).toMatchObject({ code: 64, stderr: expect.stringContaining('unknown command "go"') });
  });

  test("help is given also when a plugin does not load, with the reason", async () => {
    const { code, stdout, stderr } = await lockd(["--help", "--plugin", "/nowhere/x.ts"]);
    expect([code, stderr]).toEqual([0, "lockd: load plugin /nowhere/x.ts: no such file or folder\n"]);
    expect(stdout).toContain("Usage: lockd COMMAND");
  });

  test("must return an exit code, and what they throw is told like errors of lockd", async () => {
    const command = (name: string, body: string): string => `{ name: "${name}", summary: "s", load: async () => ({ run: async () => { ${body} } }) }`;
    const text = `commands: [${command("nothing", "")}, ${command("big", "return 256;")}, ${command("known", 'throw new LockdError("notfound", "find x: it is not there", { hint: "look elsewhere" });')}, ${command("odd", 'throw new TypeError("odd");')}, { name: "bare", summary: "s", load: async () => ({}) }]`;
    const path = write(folder(), "x.ts", pluginText("x", text));
    const run = (name: string) => lockd([name, "--plugin", path]);
    expect(await run("nothing")).toEqual({ code: 1, stdout: "", stderr: "lockd: nothing: its code returned no exit code from 0 to 255\n" });
    expect(await run("big")).toMatchObject({ code: 1, stderr: expect.stringContaining("no exit code") });
    expect(await run("known")).toEqual({ code: 66, stdout: "", stderr: "lockd: find x: it is not there\n  look elsewhere\n" });
    expect(await run("odd")).toEqual({ code: 1, stdout: "", stderr: "lockd: odd\n  this was not expected; --log-level debug shows where\n" });
    expect(await run("bare")).toEqual({ code: 1, stdout: "", stderr: "lockd: bare: the plugin x gave no code to run for it\n" });
  });
});

describe("the options of an external plugin", () => {
  test("work in file, environment and flag, with their origin, and are part of the written configuration", async () => {
    const config = write(folder(), "lockd.toml", `plugin = ["${AUDIT}"]\n[audit]\naudit-objects-max = 5\n`);
    const show = async (argv: readonly string[], env: Record<string, string> = {}): Promise<unknown> =>
      lines((await lockd(["config", "show", "--json", "--config", config, ...argv], { env })).stdout).find((row) => JSON.stringify(row).includes("audit-objects-max"));
    expect(await show([])).toMatchObject({ section: "audit", value: 5, origin: { kind: "file", path: config } });
    expect(await show([], { LOCKD_AUDIT_OBJECTS_MAX: "6" })).toMatchObject({ value: 6, origin: { kind: "environment" } });
    expect((await lockd(["config", "init", "--plugin", AUDIT])).stdout).toContain("[audit]\n\n# objects that are counted");
    const bad = write(folder(), "lockd.toml", `plugin = ["${AUDIT}"]\n[audit]\naudit-objects-max = 0\n`);
    expect(await lockd(["config", "check", "--config", bad])).toMatchObject({ code: 78, stderr: expect.stringContaining(`${bad}:3: audit-objects-max`) });
    expect(await lockd(["config", "check"], { env: { LOCKD_AUDIT_OBJECTS_MAX: "x", LOCKD_PLUGIN: AUDIT } })).toMatchObject({ code: 78 });
    expect(await lockd(["list"], { env: { LOCKD_AUDIT_OBJECTS_MAX: "6" } })).toMatchObject({ code: 78, stderr: expect.stringContaining("unknown variable LOCKD_AUDIT_OBJECTS_MAX") });
  });

  test("may be flags of its commands", async () => {
    const text = pluginText("x", `config: [{ name: "speed", help: "h", type: "integer", min: 1, max: 9, default: 3 }], commands: [{ name: "go", summary: "s", options: ["speed"], load: async () => ({ run: async ({ values, out }) => { await out.write(String(values.number("speed"))); return 0; } }) }]`);
    const path = write(folder(), "x.ts", text);
    const go = async (argv: readonly string[], env: Record<string, string> = {}) => (await lockd(["go", "--plugin", path, ...argv], { env })).stdout;
    expect([await go([]), await go([], { LOCKD_SPEED: "4" }), await go(["--speed", "5"], { LOCKD_SPEED: "4" })]).toEqual(["3", "4", "5"]);
    expect(await lockd(["go", "--plugin", path, "--speed", "10"])).toMatchObject({ code: 64 });
  });
});

describe("an external plugin is loaded only where it is needed", () => {
  test("not by a bundled command, even when the file has its section or it does not load at all", async () => {
    const path = write(folder(), "x.ts", pluginText("x", `commands: [${commandText("go")}]`, traced("x")));
    const config = write(folder(), "lockd.toml", `plugin = ["${path}"]\nconnect = ["127.0.0.1:1"]\n[x]\nanything = 1\n`);
    expect(await lockd(["list", "--config", config])).toMatchObject({ code: 69 });
    expect(await lockd(["list", "--plugin", path, "--connect", "127.0.0.1:1"])).toMatchObject({ code: 69 });
    expect(await lockd(["list", "--help", "--plugin", path])).toMatchObject({ code: 0 });
    expect(await lockd(["--version"], { env: { LOCKD_PLUGIN: path } })).toMatchObject({ code: 0 });
    expect(await loads()).toEqual([]);
    expect(await lockd(["list"], { env: { LOCKD_PLUGIN: "/nowhere", LOCKD_CONNECT: "127.0.0.1:1" } })).toMatchObject({ code: 69 });
    expect(await lockd(["go", "--plugin", path])).toMatchObject({ code: 0 });
    expect(await loads()).toEqual(["x"]);
  });

  test("an unknown section is an error where no plugin is named, and where plugins are loaded", async () => {
    const plain = write(folder(), "lockd.toml", "[x]\nanything = 1\n");
    expect(await lockd(["list", "--config", plain])).toMatchObject({ code: 78, stderr: expect.stringContaining('unknown key "x"') });
    const named = write(folder(), "lockd.toml", `plugin = ["${AUDIT}"]\n[x]\nanything = 1\n`);
    expect(await lockd(["config", "check", "--config", named])).toMatchObject({ code: 78, stderr: expect.stringContaining('unknown key "x"') });
    expect(await lockd(["serve", "--config", named, "--listen=127.0.0.1:0", "--http=off", `--data=${folder()}`])).toMatchObject({ code: 78 });
  });
});

describe("what may be loaded", () => {
  test("a JavaScript file, a module of node, several files in a folder, data beside them", async () => {
    const js = write(folder(), "x.mjs", `export default { name: "plain", version: "1.0.0", requires: { lockd: ">=1 <2" }, commands: [${commandText("plain")}] };\n`);
    expect(await lockd(["plain", "--plugin", js])).toMatchObject({ code: 0, stdout: "done\n" });
    const home = folder();
    write(home, "words/list.json", '["a", "b"]');
    write(home, "lib/words.ts", 'import list from "../words/list.json";\nimport { basename } from "node:path";\nexport const words = (): string => basename("/x/" + list.join("+"));\n');
    write(home, "index.ts", pluginText("many", 'commands: [{ name: "many", summary: "s", load: () => import("./lib/command.js") }]'));
    write(home, "lib/command.ts", 'import { words } from "./words.ts";\nenum Code { Fine = 3 }\nexport async function run({ out }): Promise<number> { await out.write(words()); return Code.Fine; }\n');
    expect(await lockd(["many", "--plugin", home])).toEqual({ code: 3, stdout: "a+b", stderr: "" });
  });

  test("errors of lockd:api are lockd's own, also from a command's file", async () => {
    const home = folder();
    write(home, "index.js", pluginText("same", 'commands: [{ name: "same", summary: "s", load: () => import("./command.js") }]'));
    write(home, "command.js", 'import { API_VERSION, LockdError, readInteger } from "lockd:api";\nexport async function run() { try { readInteger({}, "a", { min: 1, max: 2 }); } catch (error) { if (error instanceof LockdError) throw new LockdError("lost", error.message + " " + API_VERSION); } return 0; }\n');
    expect(await lockd(["same", "--plugin", home])).toMatchObject({ code: 76, stderr: "lockd: read message: a is missing, expected a whole number from 1 to 2 1.0.0\n" });
  });
});

test("the guide's first plugin does what the guide says", async () => {
  const page = await Bun.file(resolve(import.meta.dir, "../../docs/plugins.md")).text();
  const [, text = ""] = /^```ts\n(\/\/ hello\.ts\n.*?)^```$/ms.exec(page) ?? [];
  const [, script = ""] = /```sh\n([^`]*)```/.exec(page) ?? [];
  const home = folder();
  write(home, "hello.ts", text);
  const [run = "", list = ""] = script.split("\n");
  expect([run, list]).toEqual(["lockd hello world --plugin ./hello.ts", "lockd plugins --plugin ./hello.ts"]);
  const shell = async (line: string) => lockd(line.split(" ").slice(1), { cwd: home });
  expect(await shell(run)).toEqual({ code: 0, stdout: "Hello world\n", stderr: "" });
  expect(await shell(`${run} --json`)).toEqual({ code: 0, stdout: '{"name":"world"}\n', stderr: "" });
  expect((await shell(list)).stdout).toMatch(new RegExp(`^hello +1\\.0\\.0 +${home}/hello\\.ts +- +hello$`, "m"));
});

describe("lockd plugins", () => {
  test("shows origin, needs and commands of each, bundled ones first, and the digest of external ones in JSON", async () => {
    const { stdout } = await lockd(["plugins", "--json", "--plugin", AUDIT]);
    expect(lines(stdout)).toEqual([
      expect.objectContaining({ name: "lock", origin: "bundled", dependencies: [] }),
      { name: "audit", version: "1.0.0", origin: AUDIT, commands: ["audit"], dependencies: ["lock"], sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    ]);
    expect(stdout.split("\n")[0]).not.toContain("sha256");
    const table = (await plugins(AUDIT)).stdout.split("\n").find((line) => line.startsWith("audit"));
    expect(table?.split(/\s+/)).toEqual(["audit", "1.0.0", AUDIT, "lock", "audit"]);
  });

  test("shows the digests that sha256sum computes, of a file and of a folder", async () => {
    const digest = async (path: string): Promise<unknown> => lines((await lockd(["plugins", "--json", "--plugin", path])).stdout).at(-1);
    const file = write(folder(), "x.ts", pluginText("x"));
    const sum = (script: string, cwd: string): string => Bun.spawnSync(["sh", "-c", script], { cwd }).stdout.toString().slice(0, 64);
    expect(await digest(file)).toMatchObject({ sha256: sum(`sha256sum '${file}'`, "/") });
    const home = folder();
    for (const name of ["index.ts", "b/é.ts", "b/a.ts", "B.txt", "b.txt", "-x", ".hidden", ".git/config"]) write(home, name, name === "index.ts" ? pluginText("y") : name);
    // the line that docs/plugins.md gives
    const page = await Bun.file(resolve(import.meta.dir, "../../docs/plugins.md")).text();
    const line = /^ {4}(find \. .*sha256sum)$/m.exec(page)?.[1] ?? "false";
    expect(await digest(home)).toMatchObject({ sha256: sum(line, home) });
    expect(readdirSync(home)).toContain(".hidden");
  });
});

describe("a pin", () => {
  const pinOf = async (path: string): Promise<string> => {
    const [row] = lines((await lockd(["plugins", "--json", "--plugin", path])).stdout).slice(-1);
    return /"sha256":"([0-9a-f]{64})"/.exec(JSON.stringify(row))?.[1] ?? "";
  };

  test("lets the plugin load as long as its file is the same, and nothing of another one runs", async () => {
    const path = write(folder(), "x.ts", pluginText("x", `commands: [${commandText("go")}]`, traced("x")));
    const pin = await pinOf(path);
    const config = write(folder(), "lockd.toml", `plugin = ["${path}#sha256=${pin}"]\n`);
    expect(await lockd(["go", "--config", config])).toMatchObject({ code: 0 });
    expect(await lockd(["go", "--plugin", `${path}#sha256=${pin.toUpperCase()}`])).toMatchObject({ code: 0 });
    await loads();
    writeFileSync(path, `${await Bun.file(path).text()} `);
    const ended = await lockd(["go", "--config", config]);
    expect(sentence(ended)).toBe(`load plugin ${path}: its sha256 is ${new Bun.CryptoHasher("sha256").update(await Bun.file(path).bytes()).digest("hex")}, not the pinned ${pin}`);
    expect([ended.code, await loads()]).toEqual([78, []]);
  });

  test("of a folder covers every file, its name, and files that are added", async () => {
    const home = folder();
    write(home, "index.ts", pluginText("x"));
    const other = write(home, "lib/data.txt", "1");
    const pinned = `${home}#sha256=${await pinOf(home)}`;
    expect((await plugins(pinned)).code).toBe(0);
    write(home, "lib/data.txt", "2");
    expect((await plugins(pinned)).code).toBe(78);
    write(home, "lib/data.txt", "1");
    expect((await plugins(pinned)).code).toBe(0);
    write(home, "lib/more.txt", "");
    expect((await plugins(pinned)).code).toBe(78);
    rmSync(join(home, "lib/more.txt"));
    rmSync(other);
    write(home, "lib/date.txt", "1");
    expect((await plugins(pinned)).code).toBe(78);
  });

  test("that is none is refused", async () => {
    const path = write(folder(), "x.ts", pluginText("x"));
    for (const pin of ["", "12", `${"0".repeat(63)}g`, `${"0".repeat(64)}#sha256=${"0".repeat(64)}`]) {
      const ended = await plugins(`${path}#sha256=${pin}`);
      expect([ended.code, sentence(ended)]).toEqual([78, `load plugin ${path}: its pin is not #sha256= and 64 hex digits`]);
    }
  });
});

test("a folder that a plugin was developed in, or with odd names, is refused in a sentence", async () => {
  const home = folder();
  expect(sentence(await plugins(home))).toBe(`load plugin ${home}: the folder has neither index.ts nor index.js`);
  write(home, "index.ts", pluginText("x"));
  const odd = write(home, "a\nb.ts", "");
  expect(sentence(await plugins(home))).toContain('the name "a\\nb.ts" of one of its files');
  rmSync(odd);
  for (let count = 0; count < 1001; count += 1) writeFileSync(join(home, `${count}.txt`), "");
  expect(sentence(await plugins(home))).toBe(`load plugin ${home}: the folder has more than 1000 files or 64 MiB`);
});

import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { lockd, temporaryDirectory } from "./kit.ts";
import { commandText, pluginText, plugins, sentence, serve, write } from "./plugins-kit.ts";

const directory = temporaryDirectory("plugins-errors");
afterAll(directory.remove);
let folders = 0;
const folder = (): string => {
  const path = join(directory.path, String((folders += 1)));
  mkdirSync(path, { mode: 0o755 });
  return path;
};

/** Refused with 78 and a sentence that begins with the plugin, named by `NAME (PATH)` or by its path alone. */
async function refused(text: string, reason: string, options: { name?: string; file?: string } = {}): Promise<void> {
  const path = write(folder(), options.file ?? "x.ts", text);
  const ended = await plugins(path);
  const label = options.name === undefined ? path : `${options.name} (${path})`;
  expect(sentence(ended)).toBe(`load plugin ${label}: ${reason.replaceAll("PATH", path)}`);
  expect([ended.code, ended.stdout]).toEqual([78, ""]);
}

describe("exit code 78 and one sentence that names the plugin and its path, for a file that", () => {
  test("is not there", async () => {
    const path = join(folder(), "none.ts");
    const ended = await plugins(path);
    expect([ended.code, sentence(ended)]).toEqual([78, `load plugin ${path}: no such file or folder`]);
  });
  test("is no code", () => refused("hello", "a plugin is a file ending in .ts, .mts, .js, .mjs, or a folder with index.ts or index.js", { file: "x.txt" }));
  test("has a syntax error", () => refused("export default {\n  name: 'x',,\n};", 'syntax error at PATH:2:13: Expected identifier but found ","'));
  test("imports a package", () => refused('import x from "leftpad"; export default x;', 'its import of "leftpad" leads nowhere'));
  test("imports a file beside it, which no pin would cover", async () => {
    const path = write(folder(), "x.ts", 'import { y } from "./y.ts"; export default y;');
    write(join(path, ".."), "y.ts", "export const y = 1;");
    expect(sentence(await plugins(path))).toBe(`load plugin ${path}: ${path} imports ./y.ts, which is not part of the plugin`);
  });
  test("imports what lockd:api does not have", () =>
    refused('import { nothing } from "lockd:api"; export default nothing;', "it cannot be linked: Export named 'nothing' not found in module 'lockd:api'."));
  test("throws while it is loaded", () => refused('throw new Error("no luck");', "it throws while it is loaded: no luck"));
  test("throws a text while it is loaded", () => refused('throw "just so";', "it throws while it is loaded: just so"));
  test("has no default export", () => refused("export const plugin = {};", "it has no default export"));
  test("exports something else", () => refused("export default 5;", "its default export is not a plugin"));
  test("exports an object without a name", () => refused("export default { version: '1.0.0' };", "its default export is not a plugin: name is missing"));
  test("states no version", () => refused("export default { name: 'x', requires: { lockd: '^1' } };", "its default export is not a plugin: version is missing"));
  test("states a version that is none", () => refused(pluginText("x", 'version: "new"'), 'its version "new" is not of the form 1.2.3', { name: "x" }));
  test("has a name that is none", () => refused(pluginText("X_1"), "a name is lower-case letters, digits and single dashes, 40 at most", { name: '"X_1"' }));
  test("is for another version of the interface, whatever else that has", () =>
    refused(pluginText("x", 'requires: { lockd: "^2" }, things: []'), "it works with plugin interface ^2, and this lockd has 1.0.0", { name: "x" }));
  test("states no range of versions", () =>
    refused(pluginText("x", 'requires: { lockd: "new" }'), 'requires.lockd "new" is not a range: accepted are ranges such as ^1, ^1.2, >=1 <2, 1.2 and 1.2.3', { name: "x" }));
  test("has a field that the interface does not have", () => refused(pluginText("x", "comands: []"), "comands is no field of the interface", { name: "x" }));
  test("has a command without a summary", () =>
    refused(pluginText("x", 'commands: [{ name: "go", load: async () => ({}) }]'), "commands.0.summary is missing", { name: "x" }));
  test("has an option of an unknown type", () =>
    refused(pluginText("x", 'config: [{ name: "a", help: "b", type: "colour" }]'),
      'config.0.type is not accepted, expected ("string" | "choice" | "boolean" | "integer" | "duration" | "address" | "list" | "size" | "tables" | "path")', { name: "x" }));
  test("requires a plugin that is not loaded", () => refused(pluginText("x", 'requires: { lockd: "^1", plugins: ["raft9"] }'), 'it requires plugin "raft9", which is not loaded', { name: "x" }));
  test("has the name of a bundled plugin", () => refused(pluginText("lock"), "another plugin of this name is loaded already: lock", { name: "lock" }));
  test("has the name of a key of the configuration", () =>
    refused(pluginText("listen"), "listen is a key of lockd's own in the configuration, which its section [listen] would take", { name: "listen" }));
  test("has a command of lockd itself", () => refused(pluginText("x", `commands: [${commandText("config")}]`), "the command config: lockd has one of that name itself", { name: "x" }));
  test("has a command of a bundled plugin", () => refused(pluginText("x", `commands: [${commandText("exec")}]`), "the command exec: plugin lock has one of that name", { name: "x" }));
  test("has one command twice", () => refused(pluginText("x", `commands: [${commandText("go")}, ${commandText("go")}]`), "the command go: it declares it twice", { name: "x" }));
  test("has an option of lockd itself", () =>
    refused(pluginText("x", 'config: [{ name: "listen", help: "h", type: "string" }]'), "the option listen: lockd has one of that name itself", { name: "x" }));
  test("has an option of a bundled plugin", () =>
    refused(pluginText("x", 'config: [{ name: "history-max", help: "h", type: "string" }]'), "the option history-max: plugin lock has one of that name", { name: "x" }));
  test("has an option whose variable exec sets", () =>
    refused(pluginText("x", 'config: [{ name: "token", help: "h", type: "string" }]'), "the option token: its variable LOCKD_TOKEN is one that lockd sets for others", { name: "x" }));
  test("has a flag that every command has", () =>
    refused(pluginText("x", `commands: [${commandText("go", 'flags: [{ name: "plugin", help: "h", type: "string" }]')}]`), "the command go: the flag --plugin has another meaning already", { name: "x" }));
  test("has a flag letter twice", () =>
    refused(pluginText("x", `commands: [${commandText("go", 'flags: [{ name: "a", short: "a", help: "h", type: "boolean" }, { name: "b", short: "a", help: "h", type: "boolean" }]')}]`),
      "the command go: the flag -a has another meaning already", { name: "x" }));
  test("takes an option that nobody declares", () =>
    refused(pluginText("x", `commands: [${commandText("go", 'options: ["speed"]')}]`), "the command go: it takes the option speed, which neither lockd nor the plugin has", { name: "x" }));
});

describe("two external plugins", () => {
  test("of one name are refused, naming both", async () => {
    const [a, b] = [write(folder(), "a.ts", pluginText("twin")), write(folder(), "b.ts", pluginText("twin"))];
    const ended = await plugins(a, b);
    expect([ended.code, sentence(ended)]).toEqual([78, `load plugin twin (${b}): another plugin of this name is loaded already: twin (${a})`]);
  });

  test("that require each other are refused, with the circle", async () => {
    const need = (name: string, other: string): string => write(folder(), `${name}.ts`, pluginText(name, `requires: { lockd: "^1", plugins: ["${other}"] }`));
    const [a, b] = [need("a", "b"), need("b", "a")];
    const ended = await plugins(a, b);
    expect([ended.code, sentence(ended)]).toEqual([78, `load plugin a (${a}): the plugins require each other: a → b → a`]);
  });

  test("with the same command or option are refused, naming both", async () => {
    const a = write(folder(), "a.ts", pluginText("a", `commands: [${commandText("go")}], config: [{ name: "speed", help: "h", type: "string" }]`));
    const b = write(folder(), "b.ts", pluginText("b", `commands: [${commandText("go")}]`));
    const c = write(folder(), "c.ts", pluginText("c", 'config: [{ name: "speed", help: "h", type: "string" }]'));
    expect(sentence(await plugins(a, b))).toBe(`load plugin b (${b}): the command go: plugin a (${a}) has one of that name`);
    expect(sentence(await plugins(a, c))).toBe(`load plugin c (${c}): the option speed: plugin a (${a}) has one of that name`);
  });

  test("that are the same file are refused", async () => {
    const path = write(folder(), "a.ts", pluginText("a"));
    expect(sentence(await plugins(path, path))).toBe(`load plugin ${path}: it is named twice`);
  });
});

describe("a server does not start, says why with 78, and leaves its data usable, when a plugin", () => {
  const cases: readonly (readonly [what: string, body: string, reason: string])[] = [
    ["throws in setup", 'setup() { throw new Error("no luck"); }', "set up plugin x (PATH): no luck"],
    ["rejects in setup", 'setup: () => Promise.reject(new TypeError("no luck"))', "set up plugin x (PATH): no luck"],
    ["throws a text in setup", 'setup() { throw "just so"; }', "set up plugin x (PATH): just so"],
    ["returns nonsense from setup", "setup: () => 5", "set up plugin x (PATH): its setup returned no object with start, stop or describe"],
    ["returns a start that is no function", "setup: () => ({ start: true })", "set up plugin x (PATH): what its setup returned has a start that is no function"],
    ["throws in start", 'setup: () => ({ start() { throw new Error("no luck"); } })', "start plugin x (PATH): no luck"],
    ["rejects in start", 'setup: () => ({ start: async () => { await 0; throw new LockdError("config", "read its file: it is empty", { hint: "fill it" }); } })', "start plugin x (PATH): read its file: it is empty"],
    ["wants a message of a bundled plugin", 'setup(host) { host.messages.on("LOCK", (body) => body, () => {}); return {}; }', "set up plugin x (PATH): register message LOCK: plugin x and plugin lock both want it"],
    ["wants a message of the core", 'setup(host) { host.messages.on("PING", (body) => body, () => {}); return {}; }', "set up plugin x (PATH): register message PING: plugin x and the core both want it"],
    ["wants a message that no frame can carry", 'setup(host) { host.messages.on("audit-it", (body) => body, () => {}); return {}; }',
      'set up plugin x (PATH): register message "audit-it": plugin x wants it, and it is not upper-case letters and digits, 32 at most'],
    ["wants a route of the core", 'setup(host) { host.http.route("GET", "/metrics", () => new Response()); return {}; }', "set up plugin x (PATH): add HTTP route GET /metrics: x and lockd both serve it"],
    ["uses a service that it does not require", 'setup(host) { host.use("lock"); return {}; }', "set up plugin x (PATH): use service of plugin lock: plugin x does not name it in requires.plugins"],
    ["uses a service that is not offered", 'requires: { lockd: "^1", plugins: ["y"] }, setup(host) { host.use("y"); return {}; }', "set up plugin x (PATH): use service of plugin y: it provides none, and plugin x needs it"],
  ];
  for (const [what, body, reason] of cases) {
    test(what, async () => {
      const home = folder();
      const path = write(home, "x.ts", pluginText("x", body));
      const other = write(home, "y.ts", pluginText("y"));
      const ended = await serve(home, path, other);
      expect([ended.code, sentence(ended)]).toEqual([78, reason.replaceAll("PATH", path)]);
      const check = await lockd(["store", "check", "--data", join(home, "data")]);
      expect(check).toMatchObject({ code: 0 });
    });
  }

  test.concurrent("has a setup that never ends: given up after its limit", async () => {
    const home = folder();
    const path = write(home, "x.ts", pluginText("x", "setup: () => new Promise(() => {})"));
    const ended = await serve(home, path);
    expect([ended.code, sentence(ended)]).toEqual([78, `set up plugin x (${path}): it did not end within 10000 ms`]);
  });

  test.concurrent("waits for ever at its top level: given up after its limit", async () => {
    const path = write(folder(), "x.ts", `${pluginText("x")}\nawait new Promise((resolve) => { globalThis.never = [resolve, setInterval(() => {}, 1000)]; });`);
    const ended = await plugins(path);
    expect([ended.code, sentence(ended)]).toEqual([78, `load plugin ${path}: it is not loaded after 10 s: its top level waits for something`]);
  });
});

describe("who could have written the code:", () => {
  test("a file that others may write is refused, and loaded once they may not", async () => {
    const path = write(folder(), "x.ts", pluginText("x"));
    for (const mode of [0o664, 0o646]) {
      chmodSync(path, mode);
      const ended = await plugins(path);
      expect([ended.code, sentence(ended)]).toEqual([78, `load plugin ${path}: ${path} can be written by others than its owner`]);
    }
    chmodSync(path, 0o644);
    expect((await plugins(path)).code).toBe(0);
  });

  test("a folder above it that others may write is refused; one such as /tmp, where only owners delete, is not", async () => {
    const home = folder();
    const path = write(home, "a/b/x.ts", pluginText("x"));
    chmodSync(join(home, "a"), 0o777);
    expect(sentence(await plugins(path))).toBe(`load plugin ${path}: ${join(home, "a")} can be written by others than its owner`);
    chmodSync(join(home, "a"), 0o1777);
    expect((await plugins(path)).code).toBe(0);
  });

  test("any file of a folder counts", async () => {
    const home = folder();
    write(home, "index.ts", pluginText("x"));
    const data = write(home, "lists/data.json", "[]");
    chmodSync(data, 0o666);
    expect(sentence(await plugins(home))).toBe(`load plugin ${home}: ${data} can be written by others than its owner`);
  });

  test("a link is followed, and what it leads to judged", async () => {
    const home = folder();
    const real = write(home, "real/x.ts", pluginText("x"));
    const link = join(home, "x.ts");
    symlinkSync("real/x.ts", link);
    expect((await plugins(link)).stdout).toContain(link);
    chmodSync(join(home, "real"), 0o777);
    const ended = await plugins(link);
    expect([ended.code, sentence(ended)]).toEqual([78, `load plugin ${link}: ${join(home, "real")} can be written by others than its owner`]);
    expect(real).toStartWith(join(home, "real"));
  });
});

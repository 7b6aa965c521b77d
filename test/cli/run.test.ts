import { describe, expect, test } from "bun:test";
import type { CommandSpec } from "../../src/cli/types.ts";
import { AssertionError, LockdError } from "../../src/errors.ts";
import { command, contextOf, fakePlugin, run } from "./kit.ts";

const withCommand = (spec: CommandSpec): { plugins: ReturnType<typeof fakePlugin>[] } => ({ plugins: [fakePlugin([spec])] });

describe("the exit code", () => {
  test("is what the command returns", async () => {
    for (const code of [0, 1, 42, 255]) expect((await run(["go"], withCommand(command({}, () => code)))).code).toBe(code);
  });

  test("of a LockdError is its own, with message and hint on stderr", async () => {
    const codes: readonly (readonly [ConstructorParameters<typeof LockdError>[0], number])[] = [
      ["failed", 1], ["unknown", 1], ["usage", 64], ["invalid", 64], ["corrupt", 65], ["notfound", 66], ["notheld", 66], ["unavailable", 69],
      ["duplicate", 73], ["overflow", 73], ["precondition", 73], ["timedout", 75], ["deadlock", 75], ["lost", 76], ["denied", 77], ["config", 78],
    ];
    for (const [code, exit] of codes) {
      const fail = command({}, () => {
        throw new LockdError(code, "open x: it is so", { hint: "do y" });
      });
      expect(await run(["go"], withCommand(fail))).toEqual({ code: exit, stdout: "", stderr: "lockd: open x: it is so\n  do y\n" });
    }
  });

  test("of an unexpected error is 1; its stack is shown with --log-level debug only", async () => {
    const fail = command({}, () => {
      throw new TypeError("x is not a function");
    });
    const plain = await run(["go"], withCommand(fail));
    expect(plain).toEqual({ code: 1, stdout: "", stderr: "lockd: x is not a function\n  this was not expected; --log-level debug shows where\n" });
    for (const changes of [{ words: ["--log-level", "debug"] }, { words: ["--log-level=trace"] }, { words: [], environment: { LOCKD_LOG_LEVEL: "debug" } }]) {
      const ended = await run(["go", ...changes.words], { ...withCommand(fail), environment: changes.environment ?? {} });
      expect(ended.code).toBe(1);
      expect(ended.stderr).toContain("run.test.ts");
    }
  });

  test("of a broken invariant is 1 and it is called a defect; of a thrown text too", async () => {
    const defect = await run(["go"], withCommand(command({}, () => Promise.reject(new AssertionError("a holds")))));
    expect([defect.code, defect.stderr]).toEqual([1, "lockd: assertion failed: a holds\n  this is a defect of lockd; --log-level debug shows where\n"]);
    const text = await run(["go"], withCommand(command({}, () => Promise.reject("just text"))));
    expect([text.code, text.stderr.split("\n")[0]]).toEqual([1, "lockd: just text"]);
  });

  test("of a module that cannot be loaded is 1, with the reason", async () => {
    const broken: CommandSpec = { name: "go", summary: "", load: () => Promise.reject(new Error("cannot find it")) };
    expect(await run(["go"], withCommand(broken))).toMatchObject({ code: 1, stderr: expect.stringContaining("cannot find it") });
  });
});

describe("with --json", () => {
  const json = { options: ["json"] };
  const parse = (text: string): unknown => {
    expect(text.endsWith("\n")).toBe(true);
    expect(text.trimEnd().includes("\n")).toBe(false);
    return JSON.parse(text);
  };

  test("an error is one object on stderr, wherever it happens, and stdout is empty", async () => {
    const fail = command(json, () => Promise.reject(new LockdError("unavailable", "reach a:1\nand b:2", { hint: "start it" })));
    const ended = await run(["go", "--json"], withCommand(fail));
    expect([ended.code, ended.stdout]).toEqual([69, ""]);
    expect(parse(ended.stderr)).toEqual({ error: { code: "unavailable", message: "reach a:1\nand b:2", hint: "start it", retryable: true } });
    const usage = await run(["go", "--json", "--nope"], withCommand(fail));
    expect(parse(usage.stderr)).toMatchObject({ error: { code: "usage", retryable: false } });
    const unknown = await run(["nope", "--json"], withCommand(fail));
    expect(parse(unknown.stderr)).toMatchObject({ error: { code: "usage" } });
    const incomplete = await run(["config", "--json"]);
    expect(parse(incomplete.stderr)).toMatchObject({ error: { code: "usage" } });
    const bug = await run(["go", "--json", "--log-level=debug"], withCommand(command(json, () => Promise.reject(new Error("oh")))));
    expect(parse(bug.stderr)).toMatchObject({ error: { code: "failed", message: "oh", stack: expect.stringContaining("run.test.ts") } });
  });

  test("notes are silent, warnings are objects, results are one object a line", async () => {
    const talk = command(json, async ({ out }) => {
      out.note("a note");
      out.warn("a warning");
      await out.result({ a: 1 }, "text");
      await out.result({ a: 2 }, "text");
      return 0;
    });
    const ended = await run(["go", "--json"], withCommand(talk));
    expect(ended).toEqual({ code: 0, stdout: '{"a":1}\n{"a":2}\n', stderr: '{"warning":{"message":"a warning"}}\n' });
    expect(await run(["go"], withCommand(talk))).toEqual({ code: 0, stdout: "text\ntext\n", stderr: "lockd: a note\nlockd: warning: a warning\n" });
  });
});

test("nothing that a message quotes can move the cursor or forge a line", async () => {
  const fail = command({}, ({ out }) => {
    out.warn("\u001b[2J\r\u0007");
    throw new LockdError("failed", "list \u001b[31mred\u202e");
  });
  expect((await run(["go"], withCommand(fail))).stderr).toBe("lockd: warning: \\u{1b}[2J\\r\\u{7}\nlockd: list \\u{1b}[31mred\\u{202e}\n");
});

describe("finding a command", () => {
  const sub = command({ name: "inner" });
  const outer: CommandSpec = { name: "outer", summary: "", subcommands: [sub, command({ name: "other" })] };

  test("loads the plugin that brings it and no other", async () => {
    const [mine, theirs] = [fakePlugin([command({})], { name: "mine" }), fakePlugin([command({ name: "stay" })], { name: "theirs" })];
    expect((await run(["go"], { plugins: [mine, theirs] })).code).toBe(0);
    expect([mine.loads > 0, theirs.loads]).toEqual([true, 0]);
  });

  test("loads no module of another command", async () => {
    const never: CommandSpec = { name: "never", summary: "", load: () => Promise.reject(new Error("loaded")) };
    expect((await run(["go"], { plugins: [fakePlugin([command({}), never])] })).code).toBe(0);
  });

  test("that is unknown suggests the nearest one", async () => {
    const options = withCommand(command({ name: "release" }));
    expect(await run(["relaese"], options)).toEqual({ code: 64, stdout: "", stderr: 'lockd: unknown command "relaese"\n  did you mean release?\n' });
    expect((await run(["plugin"], options)).stderr).toContain("did you mean plugins?");
    expect((await run(["qqqqqqq"], options)).stderr).toContain("`lockd --help` lists all commands");
    expect((await run([""], options)).code).toBe(64);
    expect((await run(["\u001b[31m"], options)).stderr).toContain('unknown command "\\u{1b}[31m"');
    expect((await run(["__proto__"], options)).code).toBe(64);
  });

  test("that asks for the version in the words of other programs is told lockd's", async () => {
    for (const word of ["version", "-V", "-v", "-version"]) {
      expect(await run([word], withCommand(command({})))).toMatchObject({ code: 64, stderr: expect.stringContaining("\n  `lockd --version` prints the version\n") });
    }
    expect(await run(["version"], withCommand(command({ name: "version" })))).toMatchObject({ code: 0 });
  });

  test("refuses flags before its name", async () => {
    expect(await run(["--json", "go"], withCommand(command({})))).toMatchObject({ code: 64, stderr: expect.stringContaining("before the command") });
    expect((await run(["--version", "x"])).code).toBe(64);
    expect((await run(["--help", "x"])).code).toBe(64);
  });

  test("goes on to its subcommand, and names those there are", async () => {
    expect((await run(["outer", "inner"], withCommand(outer))).code).toBe(0);
    expect((await run(["outer", "iner"], withCommand(outer))).stderr).toBe('lockd: outer: unknown subcommand "iner"\n  did you mean inner?\n');
    expect((await run(["outer", "zzzzz"], withCommand(outer))).stderr).toContain("accepted: inner, other");
    const bare = await run(["outer"], withCommand(outer));
    expect([bare.code, bare.stdout, bare.stderr.includes("which subcommand?")]).toEqual([64, "", true]);
  });

  test("that also runs by itself takes a word for a subcommand first", async () => {
    const ran: string[] = [];
    const both = command(
      { name: "both", positionals: [{ name: "DIR", help: "", arity: "any" }], subcommands: [command({ name: "status" }, () => void ran.push("status"))] },
      ({ positionals }) => void ran.push(...positionals),
    );
    await run(["both", "status"], withCommand(both));
    await run(["both", "./status"], withCommand(both));
    expect(ran).toEqual(["status", "./status"]);
  });
});

describe("what a command gets", () => {
  test("are the core options that it names, from flag, environment and default, and its plugin's", async () => {
    const config = [{ name: "things-max", type: "integer", min: 1, max: 9, default: 3, help: "" }] as const;
    let seen: unknown = null;
    const go = command({ options: ["connect", "things-max"] }, ({ values }) => {
      seen = [values.list("connect"), values.origin("connect"), values.number("things-max"), values.origin("things-max")];
      return 0;
    });
    const ended = await run(["go", "--things-max=5"], { plugins: [fakePlugin([go], { config })], environment: { LOCKD_CONNECT: "a:1,b:2" } });
    expect(ended.stderr).toBe("");
    expect(seen).toEqual([["a:1", "b:2"], { kind: "environment", variable: "LOCKD_CONNECT" }, 5, { kind: "flag", flag: "--things-max" }]);
  });

  test("is not what it does not name: such a flag is unknown, such a value a defect", async () => {
    expect((await run(["go", "--connect=a:1"], withCommand(command({})))).code).toBe(64);
    const peek = await run(["go"], withCommand(command({}, ({ values }) => values.list("connect").length)));
    expect(peek).toMatchObject({ code: 1, stderr: expect.stringContaining("defect of lockd") });
    expect((await run(["go"], withCommand(command({ options: ["conect"] })))).stderr).toContain("command go takes the declared option conect");
  });

  test("is checked before its code is loaded: a bad variable or file is 78", async () => {
    const never: CommandSpec = { name: "go", summary: "", load: () => Promise.reject(new Error("loaded")) };
    expect(await run(["go"], { ...withCommand(never), environment: { LOCKD_LISTN: "x" } })).toMatchObject({ code: 78 });
    expect(await run(["go"], { ...withCommand(never), environment: { LOCKD_LISTEN: "x" } })).toMatchObject({ code: 78 });
    expect(await run(["go", "--config", "/nonexistent/x.toml"], withCommand(never))).toMatchObject({ code: 78 });
  });

  test("is a way to run a server with all plugins, their configuration, and a fresh one to reload", async () => {
    const config = [{ name: "things-max", type: "integer", min: 1, max: 9, default: 3, help: "" }] as const;
    const go = command({ options: ["listen", "things-max"] }, ({ runServer }) => runServer("serve"));
    const started: unknown[] = [];
    const ended = await run(["go", "--listen=[::1]:0", "--things-max", "4"], {
      plugins: [fakePlugin([go], { config }), fakePlugin([], { name: "other" })],
      startServer: async ({ mode, plugins, config: full, software, loadConfig }) => {
        const again = await loadConfig();
        started.push(mode, plugins.map((plugin) => plugin.name), full.core.get("listen")?.value, full.core.get("http")?.value);
        started.push(full.sections.get("fake")?.get("things-max")?.value, [...full.sections.keys()], software, again !== full && Bun.deepEquals(again, full));
        return 7;
      },
    });
    expect(ended).toEqual({ code: 7, stdout: "", stderr: "" });
    expect(started).toEqual(["serve", ["fake", "other"], "[::1]:0", "127.0.0.1:4080", 4, ["auth", "fake", "other"], "1.2.3", true]);
  });

  test("includes the environment as it is", async () => {
    const environment = { LOCKD_HANDLE: "h", OTHER: "x" };
    expect((await contextOf({}, [], { environment })).environment).toEqual(environment);
  });
});

describe("the list of plugins in the executable", () => {
  test("that promises a command which the plugin does not bring is a defect", async () => {
    const wrong = { ...fakePlugin([command({})]), commandNames: ["go", "gone"] };
    expect((await run(["go"], { plugins: [wrong] })).stderr).toContain("plugin fake is listed with its commands (go)");
    const renamed = { ...fakePlugin([command({})]), name: "other" };
    expect((await run(["go"], { plugins: [renamed] })).stderr).toContain("plugin other is listed under its own name");
  });

  test("that gives one command to two plugins is a defect", async () => {
    const ended = await run(["go"], { plugins: [fakePlugin([command({})]), fakePlugin([command({})], { name: "second" })] });
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining("each command has one plugin") });
  });
});

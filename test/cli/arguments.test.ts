import { describe, expect, test } from "bun:test";
import type { CommandSpec, FlagSpec } from "../../src/cli/types.ts";
import { command, contextOf, type Ended, fakePlugin, run } from "./kit.ts";

const flags: readonly FlagSpec[] = [
  { name: "wait", type: "duration", minMs: 0, maxMs: 604_800_000, help: "", short: "w" },
  { name: "count", type: "integer", min: -5, max: 5, help: "", short: "n" },
  { name: "label", type: "list", of: "string", help: "" },
  { name: "renew", type: "boolean", help: "", default: true },
  { name: "shared", type: "boolean", help: "", short: "s" },
  { name: "verbose", type: "boolean", help: "", short: "v" },
  { name: "text", type: "string", help: "", short: "t" },
  { name: "secret", type: "string", help: "", noFlag: true },
];
const some: Partial<CommandSpec> = { flags, positionals: [{ name: "OBJECT", help: "", arity: "any" }] };

const refuse = (spec: Partial<CommandSpec>, ...words: string[]): Promise<Ended> => run(["go", ...words], { plugins: [fakePlugin([command(spec)])] });

/** Runs and expects usage, exit code 64; returns stderr. */
async function usage(spec: Partial<CommandSpec>, ...words: string[]): Promise<string> {
  const ended = await refuse(spec, ...words);
  expect([ended.code, ended.stdout]).toEqual([64, ""]);
  return ended.stderr;
}

describe("a flag", () => {
  test("takes its value after a space or an equals sign, before and after positionals", async () => {
    for (const words of [["--wait", "5s", "a"], ["--wait=5s", "a"], ["a", "--wait", "5s"], ["-w", "5s", "a"], ["-w5s", "a"], ["-w=5s", "a"]]) {
      const { values, positionals } = await contextOf(some, words);
      expect([values.number("wait"), positionals]).toEqual([5000, ["a"]]);
      expect(values.origin("wait").kind).toBe("flag");
    }
  });

  test("that was not given has its default, and the reader can tell", async () => {
    const { values } = await contextOf(some, []);
    expect([values.numberOrNull("wait"), values.boolean("renew"), values.boolean("shared"), values.list("label"), values.given("wait")]).toEqual([null, true, false, [], false]);
  });

  test("may have an empty value, or one with equals signs in it", async () => {
    expect((await contextOf(some, ["--text="])).values.string("text")).toBe("");
    expect((await contextOf(some, ["--text", ""])).values.string("text")).toBe("");
    expect((await contextOf(some, ["--text=a=b=--c"])).values.string("text")).toBe("a=b=--c");
  });

  test("that is a list may be repeated, and split by commas", async () => {
    expect((await contextOf(some, ["--label", "a", "x", "--label=b,c"])).values.list("label")).toEqual(["a", "b", "c"]);
    expect(await usage(some, "--label=a,")).toContain("an element is empty");
  });

  test("that is a boolean needs no value, may have one, and has --no- when it is on by default", async () => {
    expect((await contextOf(some, ["--shared", "true"])).positionals).toEqual(["true"]);
    expect((await contextOf(some, ["--shared=false"])).values.boolean("shared")).toBe(false);
    expect((await contextOf(some, ["--no-renew"])).values.boolean("renew")).toBe(false);
    expect(await usage(some, "--no-shared")).toContain("unknown flag --no-shared");
    expect(await usage(some, "--no-renew=true")).toContain("--no-renew takes no value");
    expect(await usage(some, "--shared=maybe")).toContain('"maybe" is neither true nor false');
  });

  test("of one letter may stand with others in one word", async () => {
    const { values } = await contextOf(some, ["-svw", "5s"]);
    expect([values.boolean("shared"), values.boolean("verbose"), values.number("wait")]).toEqual([true, true, 5000]);
    expect(await usage(some, "-sx")).toContain("go: unknown flag -x");
  });

  test("whose value begins with a dash needs the equals sign", async () => {
    expect((await contextOf(some, ["--count=-3"])).values.number("count")).toBe(-3);
    expect(await usage(some, "--count", "-3")).toBe("lockd: go: --count needs a value, and -3 looks like a flag\n  write --count=VALUE if it is one\n");
    expect((await contextOf(some, ["--text", "-"])).values.string("text")).toBe("-");
    expect(await usage(some, "--text", "--shared")).toContain("--text needs a value, and --shared looks like a flag");
    expect(await usage(some, "--text", "--", "x")).toContain("--text needs a value");
  });

  test("without its value is named", async () => {
    expect(await usage(some, "--wait")).toBe("lockd: go: --wait needs a value\n");
    expect(await usage(some, "-w")).toBe("lockd: go: -w needs a value\n");
  });

  test("given twice is an error, under whatever name", async () => {
    expect(await usage(some, "--wait=1s", "--wait", "1s")).toContain("--wait is given twice");
    expect(await usage(some, "--wait=1s", "-w", "1s")).toContain("--wait is given again as -w");
    expect(await usage(some, "--renew", "--no-renew")).toContain("--renew is given again as --no-renew");
    expect(await usage(some, "--shared", "--shared")).toContain("--shared is given twice");
  });

  test("out of range says what is accepted", async () => {
    expect(await usage(some, "--wait=26d")).toBe('lockd: --wait: "26d" is out of range (accepted: 0s to 7d, such as 250ms, 10s, 5m, 2h, 1d, or a number of seconds)\n');
    expect(await usage(some, "-w", "NaN")).toStartWith('lockd: -w: "NaN" is not a duration');
  });

  test("that is unknown is refused with the nearest one", async () => {
    expect(await usage(some, "--wiat=1s")).toBe("lockd: go: unknown flag --wiat\n  did you mean --wait?\n");
    expect(await usage(some, "--no-renw")).toContain("did you mean --no-renew?");
    expect(await usage(some, "--hlep")).toContain("did you mean --help?");
    expect(await usage(some, "--zzzzzzzz")).toBe("lockd: go: unknown flag --zzzzzzzz\n  `lockd go --help` lists its flags\n");
    expect(await usage(some, "-x")).toContain("unknown flag -x");
    expect(await usage(some, "--__proto__=1")).toContain("unknown flag --__proto__");
    expect(await usage(some, "--=x")).toContain("unknown flag --\n");
    for (const word of ["-55", "-1s", "-abcdefgh"]) {
      const message = await usage(some, word);
      expect(message).toContain(`unknown flag ${word.slice(0, 2)}\n`);
      expect(message).toContain("put the word after `--`");
      expect(message).not.toContain(word);
    }
    expect(await usage(some, "--\u001b[2J")).toContain('unknown flag "--\\u{1b}[2J"');
  });

  test("that would reveal a secret does not exist", async () => {
    expect(await usage(some, "--secret=x")).toContain("unknown flag --secret");
    expect(await usage(some, "--secrt=x")).not.toContain("did you mean --secret");
  });
});

describe("positionals", () => {
  const one: Partial<CommandSpec> = { positionals: [{ name: "OBJECT", help: "", arity: "one" }, { name: "FILE", help: "", arity: "optional" }] };

  test("that are missing or surplus are named", async () => {
    expect((await contextOf(one, ["a", "b"])).positionals).toEqual(["a", "b"]);
    expect((await contextOf(one, ["a"])).positionals).toEqual(["a"]);
    expect(await usage(one)).toContain("go: OBJECT is missing");
    expect(await usage(one, "a", "b", "c\n")).toContain('go: surplus argument "c\\n"');
    expect(await usage({}, "a")).toContain('go: surplus argument "a"');
    expect(await usage({ positionals: [{ name: "OBJECT", help: "", arity: "some" }] })).toContain("go: OBJECT is missing");
    expect((await contextOf({ positionals: [{ name: "OBJECT", help: "", arity: "some" }] }, ["a", "b", "c"])).positionals).toEqual(["a", "b", "c"]);
  });

  test("may be empty, a single dash, or begin with a dash after two dashes", async () => {
    expect((await contextOf(one, ["", "-"])).positionals).toEqual(["", "-"]);
    expect((await contextOf(one, ["--", "-x", "--help"])).positionals).toEqual(["-x", "--help"]);
    expect((await contextOf(one, ["--", "a", "--"])).positionals).toEqual(["a", "--"]);
  });
});

describe("a child command", () => {
  const exec: Partial<CommandSpec> = { ...some, childCommand: "required", positionals: [{ name: "OBJECT", help: "", arity: "some" }] };

  test("gets everything after the first two dashes, whatever it looks like", async () => {
    const words = ["sh", "-c", 'echo "$@"', "--", "--help", "-h", "--wait", "é\n\t", "", "--", "-"];
    const { child, positionals } = await contextOf(exec, ["x", "--shared", "--", ...words]);
    expect([child, positionals]).toEqual([words, ["x"]]);
  });

  test("that is missing is named, with the form to use", async () => {
    for (const words of [["x"], ["x", "--"], ["x", "echo", "hi"]]) expect(await usage(exec, ...words)).toContain("go: no command to run\n  put it last, after a word of two dashes");
    expect(await usage(exec, "--", "true")).toContain("go: OBJECT is missing");
  });

  test("does not lend its --json or --help to lockd", async () => {
    const ended = await refuse(exec, "--", "cmd", "--json", "--help");
    expect([ended.code, ended.stderr.startsWith("lockd: ")]).toEqual([64, true]);
  });
});

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { bashPiece, readBashLine } from "../../src/cli/completion/bash-words.ts";
import { completionScripts } from "../../src/cli/completion/scripts.ts";
import type { CommandSpec } from "../../src/cli/types.ts";
import { command, fakePlugin, run } from "./kit.ts";

const BREAKS = " \t\n\"'@><=;|&(:";

const exec = command({
  name: "exec",
  positionals: [{ name: "OBJECT", help: "what is locked", arity: "some" }],
  flags: [
    { name: "wait", short: "w", type: "duration", minMs: 0, maxMs: 1000, word: "forever", help: "how long", default: null },
    { name: "on-lost", type: "choice", choices: ["term", "kill"], default: "term", help: "what to do" },
    { name: "renew", type: "boolean", default: true, help: "renew the lock" },
    { name: "host", type: "list", of: "string", help: "hosts" },
    { name: "out", type: "path", valueName: "DIR", help: "where to", default: null },
    { name: "secret", type: "string", help: "never a flag", noFlag: true },
  ],
  childCommand: "required",
});
const save = command({ name: "save", positionals: [{ name: "FILE", help: "where", arity: "one" }, { name: "COLOUR", help: "which", arity: "optional", complete: ["red", "green"] }] });
const hidden: CommandSpec = { ...command({ name: "excluded" }), hidden: true };
const plugins = [fakePlugin([exec, save, hidden])];

/** What is proposed for a line; the last word is the one at the cursor. */
async function proposed(...words: readonly string[]): Promise<{ kind: string; words: readonly string[] }> {
  const { code, stdout, stderr } = await run(["__complete", "zsh", "--", ...words], { plugins });
  expect([code, stderr]).toEqual([0, ""]);
  const [kind = "", ...texts] = stdout.split("\0").slice(0, -1);
  return { kind, words: texts.filter((_, index) => index % 2 === 0) };
}
const words = async (...line: readonly string[]) => (await proposed(...line)).words;

describe("what is proposed", () => {
  test("first are visible commands, help, and with a dash its flags", async () => {
    expect(await words("")).toEqual(["exec", "save", "config", "plugins", "store", "tls", "doctor", "completion", "man", "help"]);
    expect(await words("ex")).toEqual(["exec"]);
    expect(await words("--")).toEqual(["--help", "--version"]);
    expect(await words("nonsense", "")).toEqual([]);
  });

  test("for a group are its subcommands, also behind help", async () => {
    expect(await words("store", "")).toEqual(["check", "backup", "restore"]);
    expect(await words("help", "store", "b")).toEqual(["backup"]);
    expect(await words("help", "s")).toEqual(["save", "store"]);
    expect(await words("store", "-")).toEqual(["--help"]);
  });

  test("for a dash are the flags that may still be given", async () => {
    const all = ["--wait", "--on-lost", "--no-renew", "--host", "--out", "--config", "--log-level", "--plugin", "--help"];
    expect(await words("exec", "-")).toEqual(all);
    expect(await words("exec", "x", "-")).toEqual(["--", ...all]);
    expect(await words("exec", "-w", "5s", "--no-renew", "--host", "a", "--on-lost=kill", "-")).toEqual(["--host", "--out", "--config", "--log-level", "--plugin", "--help"]);
  });

  test("for a flag are its values, in the next word or the same", async () => {
    expect(await words("exec", "--on-lost", "")).toEqual(["term", "kill"]);
    expect(await words("exec", "--on-lost=k")).toEqual(["--on-lost=kill"]);
    expect(await words("exec", "--wait", "f")).toEqual(["forever"]);
    expect(await words("exec", "-w", "")).toEqual(["forever"]);
    expect(await words("exec", "--renew=")).toEqual(["--renew=true", "--renew=false"]);
    expect(await words("exec", "--log-level", "d")).toEqual(["debug"]);
    expect(await words("exec", "--unknown=")).toEqual([]);
    expect(await proposed("exec", "--config", "")).toEqual({ kind: "files", words: [] });
    expect(await proposed("exec", "--config=/etc")).toEqual({ kind: "files", words: [] });
    expect(await proposed("exec", "--out", "")).toEqual({ kind: "directories", words: [] });
  });

  test("for arguments is what they are, and flags when there can be no more of them", async () => {
    expect(await proposed("save", "")).toEqual({ kind: "files", words: [] });
    expect(await words("save", "file", "")).toEqual(["red", "green"]);
    expect(await words("save", "--log-level", "info", "file", "g")).toEqual(["green"]);
    expect(await words("save", "file", "red", "")).toEqual(["--config", "--log-level", "--plugin", "--help"]);
    expect(await proposed("save", "--", "")).toEqual({ kind: "files", words: [] });
    expect(await words("exec", "")).toEqual([]);
  });

  test("behind -- of a child command is that command's business", async () => {
    expect(await proposed("exec", "x", "--", "")).toEqual({ kind: "child", words: [] });
    expect(await proposed("exec", "x", "--", "ls", "--on-lost", "")).toEqual({ kind: "child", words: [] });
  });

  test("is known although the configuration is wrong", async () => {
    const ended = await run(["__complete", "zsh", "--", "exe"], { plugins, environment: { LOCKD_NOPE: "1" } });
    expect([ended.code, ended.stderr, ended.stdout]).toEqual([0, "", "words\0exec\0exec  -- does a thing\0"]);
  });
});

describe("bash's line", () => {
  test.each([
    ["lockd why ", ["lockd", "why"], "", 0],
    ["lockd  why\tx", ["lockd", "why"], "x", 0],
    ["lockd why my\\ jo", ["lockd", "why"], "my jo", 0],
    ["lockd why 'a b' c", ["lockd", "why", "a b"], "c", 0],
    ['lockd why "a \\"b', ["lockd", "why"], 'a "b', 0],
    ["lockd why '' x", ["lockd", "why", ""], "x", 0],
    ["lockd why a$'\\n'b c", ["lockd", "why", "a\nb"], "c", 0],
    ["lockd why db:pro", ["lockd", "why"], "db:pro", 3],
    ["lockd why db\\:pro", ["lockd", "why"], "db:pro", 0],
    ["lockd serve --http=o", ["lockd", "serve"], "--http=o", 7],
  ] as const)("%j is cut into words as the shell does", (text, before, current, kept) => {
    expect(readBashLine(text, BREAKS)).toMatchObject({ before: [...before], current, kept });
  });

  test.each(["lockd why $(id", "lockd why `id", 'lockd why "$(id', "lockd why $HOME x", "lockd why $'a", "lockd why a\\"])("%j is left alone: only the shell knows its value", (text) => {
    expect(readBashLine(text, BREAKS)).toBeNull();
  });

  test("gets pieces that bash reads back as the very word, however the beginning was quoted", async () => {
    const name = fc.string({ unit: fc.constantFrom(..."ab \n\t'\"\\$`!*?[]{}()<>|&;#~:=@%^éß\u0001"), minLength: 1, maxLength: 12 });
    const samples = fc.sample(name, { numRuns: 400, seed: 7 });
    const lines = samples.flatMap((word) => [
      bashPiece(word, { kept: 0, quoting: "none" }),
      `"${bashPiece(word, { kept: 0, quoting: "double" })}"`,
      `'${bashPiece(word, { kept: 0, quoting: "single" })}'`,
    ]);
    const child = Bun.spawn(["bash", "-s"], { stdin: new TextEncoder().encode(`printf '%s\\0' ${lines.join(" ")}\n`), stdout: "pipe", env: { PATH: process.env["PATH"] ?? "", LANG: "C.UTF-8" } });
    const read = (await new Response(child.stdout).text()).split("\0").slice(0, -1);
    expect(read).toEqual(samples.flatMap((word) => [word, word, word]));
  });

  test("gets only the piece behind what readline keeps", () => {
    expect(bashPiece("db:prod two", { kept: 3, quoting: "none" })).toBe("prod\\ two");
  });
});

describe("lockd completion", () => {
  test.each([...completionScripts.keys()])("prints a script that %s finds no fault with", async (shell) => {
    const { code, stdout } = await run(["completion", shell]);
    expect(code).toBe(0);
    const child = Bun.spawn([shell, "-n", "/dev/stdin"], { stdin: new TextEncoder().encode(stdout), stdout: "pipe", stderr: "pipe" });
    const [exit, said] = await Promise.all([child.exited, new Response(child.stderr).text()]);
    expect([exit, said]).toEqual([0, ""]);
  });

  test("refuses another shell and names those that it knows", async () => {
    const ended = await run(["completion", "tcsh"]);
    expect(ended).toEqual({ code: 64, stdout: "", stderr: 'lockd: completion: "tcsh" is no shell that is known\n  accepted: bash, zsh, fish\n' });
  });
});

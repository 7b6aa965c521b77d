import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { refuseBadArguments } from "../../src/cli/utf8-arguments.ts";
import { cleanEnvironment, shell, sourceCommand } from "./kit.ts";

/** Exit codes of the contract that a command line without a child command may end with. */
const CONTRACT = new Set([0, 1, 64, 65, 66, 69, 73, 75, 76, 77, 78]);

describe("the process", () => {
  test("prints its version alone on a line", async () => {
    const ended = await shell("lockd --version");
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    expect(ended.stdout).toMatch(/^lockd \d+\.\d+\.\d+\n$/);
  });

  test("gives help on stdout with 0, and without a command on stderr with 64", async () => {
    expect(await shell("lockd --help")).toMatchObject({ code: 0, stderr: "", stdout: expect.stringContaining("Usage: lockd COMMAND") });
    expect(await shell("lockd")).toMatchObject({ code: 64, stdout: "" });
    expect((await shell("lockd config show --help 2>/dev/null")).stdout).not.toContain("\u001b");
  });

  test("refuses an argument that is not UTF-8, before or after --, and takes every one that is", async () => {
    for (const words of [`plugins $'a\\xff'`, `x '' -- $'\\xc3'`, `$'--name=\\xed\\xa0\\x80'`, `'' $'\\xff' ''`]) {
      const ended = await shell(`lockd ${words}`);
      expect([ended.code, ended.stdout]).toEqual([64, ""]);
      expect(ended.stderr).toMatch(/^lockd: read command line: argument \d is not UTF-8\n/);
    }
    // U+FFFD itself is a character like others
    expect((await shell("lockd plugins $'\\xef\\xbf\\xbd'")).stderr).toContain('surplus argument "\ufffd"');
    expect((await shell("lockd plugins 'é😀'")).stderr).toContain('surplus argument "é😀"');
  });

  test("ends quietly when the reader of its output is gone", async () => {
    const ended = await shell("set +m; { sleep 0.2; lockd config init; echo $? >&2; } | true");
    expect(ended.stderr).toBe("141\n");
  });

  test("says so when its output cannot be written", async () => {
    const ended = await shell("lockd config init > /dev/full");
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/^lockd: write standard output: .*no space/i);
  });

  test("adds to a file that others write to as well", async () => {
    const ended = await shell('f=$(mktemp); { echo a; lockd --version; echo b; lockd plugins; echo c; } > "$f"; cat "$f"; rm "$f"');
    expect(ended.stdout).toMatch(/^a\nlockd .*\nb\n[^]*\nc\n$/);
  });

  test("uses no colour where NO_COLOR is set or nobody would see it", async () => {
    const script = `const { wantsColour } = await import(${JSON.stringify(new URL("../../src/cli/terminal-output.ts", import.meta.url).pathname)}); console.log(String(wantsColour(process.env)));`;
    const onTerminal = async (environment: Record<string, string>): Promise<string> => {
      let text = "";
      const child = Bun.spawn([process.execPath, "-e", script], {
        env: cleanEnvironment({ TERM: "xterm", ...environment }),
        terminal: { data: (_terminal, data) => void (text += new TextDecoder().decode(data)) },
      });
      await child.exited;
      child.terminal?.close();
      return text.trim();
    };
    expect(await onTerminal({})).toBe("true");
    expect(await onTerminal({ NO_COLOR: "" })).toBe("true");
    expect(await onTerminal({ NO_COLOR: "1" })).toBe("false");
    expect(await onTerminal({ TERM: "dumb" })).toBe("false");
    const piped = Bun.spawnSync([process.execPath, "-e", script], { env: cleanEnvironment({ TERM: "xterm" }) });
    expect(piped.stdout.toString().trim()).toBe("false");
  });

  test("proves itself whole: every command loads and every worker starts", async () => {
    const ended = await shell("lockd __smoke");
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    expect(ended.stdout).toMatch(/^lockd \d+\.\d+\.\d+ ok: \d+ commands, \d+ workers\n$/);
  });

  test("reports what a command forgot to await, by the same rules", async () => {
    const script = (body: string): string => `
      const { runProgram } = await import(${JSON.stringify(new URL("../../src/cli/run.ts", import.meta.url).pathname)});
      const { LockdError } = await import(${JSON.stringify(new URL("../../src/errors.ts", import.meta.url).pathname)});
      const go = { name: "go", summary: "", load: async () => ({ run: async () => { ${body}; await new Promise((resolve) => setTimeout(resolve, 10_000)); return 0; } }) };
      const plugin = { name: "fake", version: "1.0.0", requires: { lockd: "^1" }, commands: [go] };
      process.exit(await runProgram({ args: ["go"], environment: {}, software: "1", defaultFile: null, plugins: [{ name: "fake", commandNames: ["go"], load: async () => plugin }], startServer: async () => 0 }));`;
    const cases: readonly (readonly [body: string, code: number, stderr: string])[] = [
      ['void Promise.reject(new LockdError("lost", "hold x: lost"))', 76, "lockd: hold x: lost\n"],
      ['setTimeout(() => { throw new Error("oh"); }, 1)', 1, "lockd: oh\n  this was not expected; --log-level debug shows where\n"],
    ];
    for (const [body, code, stderr] of cases) {
      const child = Bun.spawn([process.execPath, "-e", script(body)], { env: cleanEnvironment(), stdout: "pipe", stderr: "pipe", timeout: 20_000 });
      expect([await child.exited, await new Response(child.stderr).text()]).toEqual([code, stderr]);
    }
  });

  test("never crashes or hangs on a command line, and ends with a code of the contract", async () => {
    const word = fc.oneof(
      fc.constantFrom("config", "plugins", "show", "check", "init", "help", "--", "-", "", "--json", "--help", "-h", "--version", "--config", "--config=/nonexistent", "--listen", "--listen=x:1", "--log-level", "debug", "--no-json", "--=", "-5", "-abc", "=", "__proto__"),
      fc.string({ unit: "grapheme", maxLength: 12 }).filter((text) => !text.includes("\0")),
    );
    const line = fc.array(word, { maxLength: 6 }).filter((words) => words[0] !== "config" || words[1] !== "init");
    const lines = fc.sample(line, { numRuns: 40, seed: 7 });
    for (const words of lines) {
      const child = Bun.spawn(sourceCommand(...words), { env: cleanEnvironment(), stdin: "ignore", stdout: "pipe", stderr: "pipe", timeout: 20_000 });
      const [code, stdout, stderr] = await Promise.all([child.exited, new Response(child.stdout).text(), new Response(child.stderr).text()]);
      if (!CONTRACT.has(code) || child.signalCode !== null) throw new Error(`${JSON.stringify(words)} ended with ${child.signalCode ?? code}: ${stderr}`);
      expect(`${stdout}${stderr}`).not.toBe("");
      expect(stderr).not.toContain("at <anonymous>");
    }
  }, 60_000);
});

describe("reading one's own arguments again", () => {
  const bytes = (...words: (string | number[])[]): Uint8Array =>
    Buffer.concat(words.map((word) => Buffer.concat([typeof word === "string" ? Buffer.from(word) : Buffer.from(word), Buffer.from([0])])));

  test("costs nothing when no argument is suspect", () => {
    let reads = 0;
    refuseBadArguments(["a", "é"], () => {
      reads += 1;
      return bytes();
    });
    expect(reads).toBe(0);
  });

  test("looks at the last words only: what comes before is the runtime's", () => {
    expect(() => refuseBadArguments(["\ufffd"], () => bytes([0xff], "lockd", "\ufffd"))).not.toThrow();
    expect(() => refuseBadArguments(["a", "\ufffd", ""], () => bytes("lockd", "a", [0xff], ""))).toThrow("argument 2 is not UTF-8");
    expect(() => refuseBadArguments(["\ufffd"], () => bytes("lockd", [0x80]).subarray(0, -1))).toThrow("argument 1 is not UTF-8");
  });

  test("refuses what it cannot tell", () => {
    const unreadable = (): Uint8Array => {
      throw new Error("no /proc");
    };
    expect(() => refuseBadArguments(["\ufffd"], unreadable)).toThrow("no /proc");
  });
});

import { expect, test } from "bun:test";
import fc from "fast-check";
import type { CommandSpec } from "../../src/cli/types.ts";
import { command, fakePlugin, run } from "./kit.ts";

const everything: Partial<CommandSpec> = {
  flags: [
    { name: "wait", short: "w", type: "duration", minMs: 0, maxMs: 1e9, word: "forever", help: "" },
    { name: "count", short: "n", type: "integer", min: -5, max: 5, help: "" },
    { name: "size", type: "size", min: 0, max: 1e9, help: "" },
    { name: "label", type: "list", of: "string", help: "" },
    { name: "renew", type: "boolean", default: true, help: "" },
    { name: "shared", short: "s", type: "boolean", help: "" },
    { name: "mode", type: "choice", choices: ["a", "b"], help: "" },
  ],
  options: ["connect", "listen", "data", "json"],
  positionals: [{ name: "OBJECT", help: "", arity: "one" }, { name: "MORE", help: "", arity: "any" }],
};

const word = fc.oneof(
  fc.constantFrom("--wait", "-w", "-n", "-s", "--count=-3", "--count", "--size=4KiB", "--label", "--label=a,b", "--no-renew", "--renew=0", "--mode=a", "--connect", "a:1", "--json", "--", "-", "", "5s", "-snw", "--data=x", "sub"),
  fc.tuple(fc.constantFrom("-", "--", "--wait=", "--connect=", "--no-"), fc.string({ unit: "grapheme" })).map((parts) => parts.join("")),
  fc.string({ unit: "binary" }),
);

const words = fc.array(word, { maxLength: 8 });
// half of the lines have what any of them needs, so that enough of them run
const line = fc.oneof(words, words.map((middle) => ["x", ...middle.slice(0, 2), "--", "y"]));

for (const childCommand of ["none", "required"] as const) {
  test(`every command line runs the command or is refused with 64, child command ${childCommand}`, async () => {
    let ran = 0;
    const go = command({ ...everything, childCommand }, ({ positionals, child, values }) => {
      ran += 1;
      expect(positionals.length).toBeGreaterThan(0);
      expect(child.length > 0).toBe(childCommand === "required");
      expect(["default", "flag"]).toContain(values.origin("wait").kind);
      return 0;
    });
    const plugins = [fakePlugin([go])];
    await fc.assert(
      fc.asyncProperty(line, async (words) => {
        const before = ran;
        const { code, stdout, stderr } = await run(["go", ...words], { plugins });
        const help = stdout.startsWith("lockd go: ");
        expect([ran - before, code]).toEqual(ran > before ? [1, 0] : [0, help ? 0 : 64]);
        // one line for the message and at most one for the hint, whatever was typed
        expect(stderr.split("\n").length).toBeLessThanOrEqual(3);
        expect(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/.test(stderr)).toBe(false);
      }),
      { numRuns: 1500 },
    );
    expect(ran).toBeGreaterThan(20);
  });

  test(`what stands behind -- arrives word by word, child command ${childCommand}`, async () => {
    let seen: readonly string[] = [];
    const go = command({ ...everything, childCommand }, ({ positionals, child }) => {
      seen = childCommand === "required" ? child : positionals.slice(1);
      return 0;
    });
    const plugins = [fakePlugin([go])];
    await fc.assert(
      fc.asyncProperty(fc.array(word, { minLength: 1, maxLength: 10 }), async (words) => {
        await run(["go", "x", "--", ...words], { plugins });
        expect(seen).toEqual(words);
      }),
      { numRuns: 300 },
    );
  });
}

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { formatDuration, formatIso, printable, table } from "../../src/cli/format.ts";
import { nearest } from "../../src/suggest.ts";
import { quoted } from "../../src/text.ts";

describe("a table", () => {
  test("is aligned, and no line ends in spaces", () => {
    expect(table([["NAME", "STATE", "N"], ["a", "locked", "1"], ["long-name", "", "22"], ["x", "y", ""]])).toBe("NAME       STATE   N\na          locked  1\nlong-name          22\nx          y\n");
    expect(table([])).toBe("");
  });

  test("counts columns of the terminal, not characters", () => {
    expect(table([["日本", "a"], ["xyz", "b"], ["😀", "c"], ["e\u0301", "d"]])).toBe("日本  a\nxyz   b\n😀    c\ne\u0301     d\n");
  });

  test("shows hostile names on one line each, and different names differently", () => {
    const names = ["a\nb", "a\\nb", "a\r", "\u001b[31m", "\u202egnp", "a\u2028b", "\u0085", "\ud800", "a\tb"];
    const text = table(names.map((name) => [name]));
    expect(text).toBe("a\\nb\na\\\\nb\na\\r\n\\u{1b}[31m\n\\u{202e}gnp\na\\u{2028}b\n\\u{85}\n\\u{d800}\na\\tb\n");
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (a, b) => {
        expect(printable(a) === printable(b)).toBe(a === b);
        expect(table([[a, "x"], [b, "y"]]).split("\n").length).toBe(3);
      }),
    );
  });
});

test("a span is rounded down to its two largest units", () => {
  const cases: readonly (readonly [number, string])[] = [
    [0, "0ms"], [0.9, "0ms"], [999, "999ms"], [1000, "1s"], [59_999, "59s"], [60_000, "1m"], [192_345, "3m 12s"], [3_600_000, "1h"],
    [3_605_000, "1h"], [90_061_000, "1d 1h"], [86_400_000, "1d"], [-5, "0ms"], [100 * 86_400_000, "100d"],
  ];
  expect(cases.map(([ms]) => formatDuration(ms))).toEqual(cases.map(([, text]) => text));
});

test("a time is ISO 8601 in UTC", () => expect(formatIso(0)).toBe("1970-01-01T00:00:00.000Z"));

test("a quoted word is cut when it is very long", () => {
  expect(quoted('a"\\\n')).toBe('"a\\"\\\\\\n"');
  expect(quoted("x".repeat(5000)).length).toBeLessThan(110);
});

describe("the nearest word", () => {
  const words = ["list", "lock", "unlock", "release", "renew", "serve", "status"];
  test("is found for slips of a key, swapped letters, wrong case and beginnings", () => {
    expect(["lst", "lcok", "LIST", "relase", "stat", "sevre", "unlok"].map((word) => nearest(word, words))).toEqual(["list", "lock", "list", "release", "status", "serve", "unlock"]);
  });
  test("is none for something else, and very long words cost nothing", () => {
    expect(["", "banana", "x"].map((word) => nearest(word, words))).toEqual([null, null, null]);
    expect([64, 65].map((length) => nearest("x".repeat(length), ["x".repeat(length)])?.length)).toEqual([64, undefined]);
  });
});

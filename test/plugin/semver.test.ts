import { describe, expect, test } from "bun:test";
import { parseVersion, satisfies, type Version } from "../../src/plugin/semver.ts";

function version(text: string): Version {
  const parsed = parseVersion(text);
  if (parsed === null) throw new Error(`${text} is no version`);
  return parsed;
}

describe("a range", () => {
  const table: [range: string, inside: string[], outside: string[]][] = [
    ["^1", ["1.0.0", "1.9.9"], ["0.9.9", "2.0.0"]],
    ["^1.2", ["1.2.0", "1.10.0"], ["1.1.9", "2.0.0"]],
    ["^1.2.3", ["1.2.3", "1.3.0"], ["1.2.2", "2.0.0"]],
    ["^0", ["0.0.0", "0.9.0"], ["1.0.0"]],
    ["^0.2", ["0.2.0", "0.2.9"], ["0.3.0", "0.1.9"]],
    ["^0.0.3", ["0.0.3"], ["0.0.4", "0.0.2"]],
    ["^0.0", ["0.0.9"], ["0.1.0"]],
    [">=1 <2", ["1.0.0", "1.99.0"], ["0.9.9", "2.0.0"]],
    [">=1.2.3", ["1.2.3", "9.0.0"], ["1.2.2"]],
    [">1", ["2.0.0"], ["1.9.9"]],
    [">1.2", ["1.3.0"], ["1.2.9"]],
    [">1.2.3", ["1.2.4"], ["1.2.3"]],
    ["<=1", ["1.9.9", "0.1.0"], ["2.0.0"]],
    ["<1.2", ["1.1.9"], ["1.2.0"]],
    ["1", ["1.0.0", "1.5.0"], ["2.0.0", "0.9.0"]],
    ["1.2", ["1.2.7"], ["1.3.0"]],
    ["=1.2.3", ["1.2.3"], ["1.2.4"]],
    ["1.2.3", ["1.2.3"], ["1.2.2", "1.2.4"]],
    ["  ^1   <1.5 ", ["1.4.9"], ["1.5.0"]],
  ];
  test.each(table)("%p holds what it says", (range, inside, outside) => {
    for (const text of inside) expect([text, satisfies(version(text), range)]).toEqual([text, true]);
    for (const text of outside) expect([text, satisfies(version(text), range)]).toEqual([text, false]);
  });

  test.each(["", " ", "x", "*", "~1", "^", "1.", "1.2.3.4", "^1.2.3-beta", "1 || 2", ">= 1", "01x", "-1", "^1,<2"])("%p is malformed", (range) => {
    expect(satisfies(version("1.0.0"), range)).toBeNull();
  });
});

test("numbers are compared as numbers", () => {
  expect(satisfies(version("1.10.0"), ">=1.9")).toBe(true);
  expect(satisfies(version("10.0.0"), ">=9")).toBe(true);
});

test.each(["1", "1.2", "v1.2.3", "1.2.3-beta", "1.2.3.4", "", "1.2.x"])("%p is no version", (text) => {
  expect(parseVersion(text)).toBeNull();
});

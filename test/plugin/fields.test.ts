import { expect, test } from "bun:test";
import { LockdError } from "../../src/errors.ts";
import { readBoolean, readBytes, readInteger, readText } from "../../src/plugin/fields.ts";

const refusal = (read: () => unknown): string => {
  try {
    return `accepted ${String(read())}`;
  } catch (error) {
    return error instanceof LockdError ? `${error.code}: ${error.message}` : String(error);
  }
};

test("a field that fits is returned; the bounds are included and text is measured in bytes", () => {
  expect(readText({ a: "é" }, "a", { bytesMax: 2 })).toBe("é");
  expect(refusal(() => readText({ a: "éx" }, "a", { bytesMax: 2 }))).toBe("invalid: read message: a is not accepted, expected a text of at most 2 bytes");
  const range = { min: -1, max: 3 };
  expect([readInteger({ a: -1 }, "a", range), readInteger({ a: 3 }, "a", range)]).toEqual([-1, 3]);
  expect([readBoolean({ a: true }, "a"), readBoolean({ a: false }, "a", { absent: true })]).toEqual([true, false]);
  const bytes = Uint8Array.of(1, 2);
  const read = readBytes({ a: bytes }, "a", { bytesMax: 2 });
  bytes[0] = 9;
  expect(read).toEqual(Uint8Array.of(1, 2));
  expect(refusal(() => readBytes({ a: bytes }, "a", { bytesMax: 1 }))).toContain("expected at most 1 bytes");
});

test("a field of another kind is refused without its value", () => {
  for (const value of [-2, 4, 1.5, Number.NaN, "1", 2n, true, [1], {}]) {
    expect(refusal(() => readInteger({ a: value }, "a", { min: -1, max: 3 }))).toBe("invalid: read message: a is not accepted, expected a whole number from -1 to 3");
  }
  expect(refusal(() => readText({ a: 1 }, "a", { bytesMax: 9 }))).toContain("a is not accepted");
  expect(refusal(() => readBoolean({ a: 1 }, "a"))).toBe("invalid: read message: a is not accepted, expected true or false");
  expect(refusal(() => readBytes({ a: "secret" }, "a", { bytesMax: 9 }))).not.toContain("secret");
  expect(refusal(() => readText({ a: 1 }, "a", { bytesMax: 9, absent: null }))).toContain("not accepted");
});

test("a field that is not there, or null, is what `absent` says, else refused", () => {
  for (const body of [{}, { a: undefined }, { a: null }]) {
    expect(readText(body, "a", { bytesMax: 1, absent: "long enough" })).toBe("long enough");
    expect(readInteger(body, "a", { min: 1, max: 2, absent: null })).toBeNull();
    expect(readBoolean(body, "a", { absent: false })).toBe(false);
    expect(readBytes(body, "a", { bytesMax: 1, absent: null })).toBeNull();
    expect(refusal(() => readText(body, "a", { bytesMax: 1 }))).toBe("invalid: read message: a is missing, expected a text of at most 1 bytes");
    expect(refusal(() => readBoolean(body, "a"))).toContain("a is missing");
  }
  expect(refusal(() => readText(JSON.parse('{"__proto__": "x"}'), "a", { bytesMax: 1 }))).toContain("a is missing");
});

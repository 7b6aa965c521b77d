/** The codec against an independent one: what one writes the other reads the same. */
import { describe, expect, test } from "bun:test";
import { decode } from "cbor-x/decode";
import { Encoder } from "cbor-x/encode";
import fc from "fast-check";
import { LockdError } from "../../src/errors.ts";
import { CborDecoder } from "../../src/wire/cbor-decode.ts";
import { CborWriter } from "../../src/wire/cbor-encode.ts";

const reference = new Encoder({ useRecords: false, tagUint8Array: false });

function write(value: unknown): Uint8Array {
  const writer = new CborWriter(1);
  writer.value(value);
  return writer.finish();
}

const read = (bytes: Uint8Array): unknown => {
  const source = Buffer.from(bytes);
  return new CborDecoder().decode(source, 0, source.length);
};

/** Values on which both agree exactly: integers of 32 bits, no empty-key or prototype games. */
const common = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.string({ unit: "grapheme", maxLength: 80 }),
    fc.double({ noNaN: true, noDefaultInfinity: true }).filter((number) => !Number.isInteger(number)),
    fc.array(tie("value"), { maxLength: 30 }),
    fc.dictionary(fc.string({ minLength: 1, maxLength: 10 }).filter((key) => key !== "__proto__"), tie("value"), { maxKeys: 30 }),
  ),
})).value;

const asJson = (value: unknown): string => JSON.stringify(value);

describe("the codec", () => {
  test("writes what another codec reads as the same value", () => {
    fc.assert(fc.property(common, (value) => asJson(decode(write(value))) === asJson(value)), { numRuns: 500 });
  });

  test("reads what another codec writes as the same value", () => {
    fc.assert(fc.property(common, (value) => asJson(read(reference.encode(value))) === asJson(value)), { numRuns: 500 });
  });

  test("reads floats of 16 and 32 bits (RFC 8949, appendix A)", () => {
    const hex = (text: string): unknown => read(Buffer.from(text, "hex"));
    expect(hex("f90000")).toBe(0);
    expect(hex("f93c00")).toBe(1);
    expect(hex("f93e00")).toBe(1.5);
    expect(hex("f97bff")).toBe(65504);
    expect(hex("f90001")).toBe(5.960464477539063e-8);
    expect(hex("f90400")).toBe(0.00006103515625);
    expect(hex("f9c400")).toBe(-4);
    expect(hex("f97c00")).toBe(Infinity);
    expect(hex("f9fc00")).toBe(-Infinity);
    expect(hex("f97e00")).toBeNaN();
    expect(hex("fa47c35000")).toBe(100000);
    expect(hex("fa7f7fffff")).toBe(3.4028234663852886e38);
    expect(hex("fbc010666666666666")).toBe(-4.1);
  });

  test("writes integers in the shortest form (RFC 8949, appendix A)", () => {
    const hex = (value: unknown): string => Buffer.from(write(value)).toString("hex");
    const shortest: [number, string][] = [
      [0, "00"], [23, "17"], [24, "1818"], [255, "18ff"], [256, "190100"], [65_535, "19ffff"], [65_536, "1a00010000"],
      [2 ** 32 - 1, "1affffffff"], [2 ** 32, "1b0000000100000000"], [Number.MAX_SAFE_INTEGER, "1b001fffffffffffff"],
      [-1, "20"], [-24, "37"], [-25, "3818"], [-1000, "3903e7"], [Number.MIN_SAFE_INTEGER, "3b001ffffffffffffe"], [1.1, "fb3ff199999999999a"], [-0, "00"],
    ];
    for (const [value, expected] of shortest) expect(hex(value)).toBe(expected);
  });

  test("reads every length of an integer, not the shortest alone", () => {
    for (const hex of ["1805", "190005", "1a00000005", "1b0000000000000005"]) expect(read(Buffer.from(hex, "hex"))).toBe(5);
  });

  test("carries text of every length around the limits of its fast paths", () => {
    for (const unit of ["a", "ö", "🦀"]) {
      for (const length of [0, 1, 11, 12, 13, 22, 23, 24, 25, 31, 32, 33, 85, 86, 255, 256, 257, 65_535, 65_536]) {
        const text = unit.repeat(length);
        expect(read(write(text)) === text).toBe(true);
      }
    }
    expect(read(write("a".repeat(31) + "ö"))).toBe("a".repeat(31) + "ö");
    expect(read(write("\ufeffbom"))).toBe("\ufeffbom");
  });

  test("stays usable after it refused something", () => {
    const decoder = new CborDecoder();
    const bad = Buffer.from("a1616181", "hex");
    for (let i = 0; i < 3; i++) expect(() => decoder.decode(bad, 0, bad.length)).toThrow(LockdError);
    const good = Buffer.from("a1616105", "hex");
    expect(asJson(decoder.decode(good, 0, good.length))).toBe('{"a":5}');
  });

  test("does not look outside the bytes that it was given", () => {
    const source = Buffer.from("ff820102ff", "hex");
    expect(new CborDecoder().decode(source, 1, 4)).toEqual([1, 2]);
    expect(() => new CborDecoder().decode(source, 1, 3)).toThrow("truncated");
  });
});

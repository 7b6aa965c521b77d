import { describe, expect, test } from "bun:test";
import * as v from "valibot";
import { LockdError } from "../../src/errors.ts";
import { encodeFrame, FrameDecoder } from "../../src/wire/frame.ts";
import { bodyParser, integerSchema, textSchema } from "../../src/wire/schema.ts";
import type { Body } from "../../src/wire/types.ts";

const parse = bodyParser(
  v.object({ name: textSchema(4), count: v.optional(integerSchema({ min: 0, max: 10 })), list: v.optional(v.array(v.object({ a: v.string() }))) }),
);

/** As the body looks after it came over the wire: without a prototype. */
function overTheWire(body: Body): Body {
  let decoded: Body = {};
  new FrameDecoder({ frameBytesMax: 10_000 }).push(encodeFrame("A", 0, body), (frame) => (decoded = frame.body));
  return decoded;
}

function refusal(body: Body): string {
  try {
    parse(overTheWire(body));
  } catch (error) {
    if (error instanceof LockdError && error.code === "invalid") return error.message;
    throw error;
  }
  throw new Error("the body was accepted");
}

describe("bodyParser", () => {
  test("gives what the schema says and leaves out unknown fields", () => {
    const parsed = parse(overTheWire({ name: "abcd", count: 10, later: true, ["__proto__"]: 1 }));
    expect(parsed).toEqual({ name: "abcd", count: 10 });
  });

  test("names the path of the bad field and what is expected, never the value", () => {
    expect(refusal({})).toBe("read message: name is missing");
    expect(refusal({ name: 1 })).toBe("read message: name is not accepted, expected string");
    expect(refusal({ name: "secret-value" })).toBe("read message: name is not accepted, expected <=4");
    expect(refusal({ name: "a", list: [{ a: "x" }, { a: 1 }] })).toBe("read message: list.1.a is not accepted, expected string");
  });

  test("counts text in bytes", () => {
    expect(parse(overTheWire({ name: "öö" })).name).toBe("öö");
    expect(refusal({ name: "ööö" })).toContain("name");
  });

  test("takes whole numbers in the range only", () => {
    for (const count of [-1, 11, 0.5, "1", true, null]) expect(refusal({ name: "a", count })).toContain("count");
    expect(parse(overTheWire({ name: "a", count: 0 })).count).toBe(0);
  });

  test("finds no field that only the prototype of objects has", () => {
    const odd = bodyParser(v.object({ constructor: v.optional(v.unknown()), toString: v.optional(v.unknown()) }));
    expect(Object.keys(odd(overTheWire({})))).toEqual([]);
  });
});

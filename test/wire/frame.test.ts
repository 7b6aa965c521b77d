import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AssertionError, LockdError } from "../../src/errors.ts";
import { encodeFrame, FrameDecoder, FrameEncoder } from "../../src/wire/frame.ts";
import type { Body, Frame } from "../../src/wire/types.ts";

const FRAME_BYTES_MAX = 1 << 20;
const BODY: Body = {
  text: "größer 🦀 \u0000 \ufeff",
  integers: [0, 23, 24, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER, -1, -25, -(2 ** 40), Number.MIN_SAFE_INTEGER],
  float: 1.5,
  flags: [true, false, null],
  bytes: new Uint8Array([0, 255, 128]),
  nested: { a: { b: [{}] } },
};

function decodeAll(...chunks: Uint8Array[]): Frame[] {
  const frames: Frame[] = [];
  const decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
  for (const chunk of chunks) decoder.push(chunk, (frame) => frames.push(frame));
  return frames;
}

function concat(...parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

function withLength(payload: Uint8Array | readonly number[]): Uint8Array {
  const header = Buffer.alloc(4);
  header.writeUInt32BE(payload.length);
  return concat(header, Uint8Array.from(payload));
}

function refusal(bytes: Uint8Array): LockdError {
  try {
    decodeAll(bytes);
  } catch (error) {
    if (error instanceof LockdError) return error;
    throw error;
  }
  throw new Error("the frame was accepted");
}

/** JSON-like values that the wire carries. */
const wireValue = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.maxSafeInteger(),
    fc.boolean(),
    fc.constant(null),
    fc.string({ unit: "grapheme", maxLength: 60 }),
    fc.string({ unit: "binary", maxLength: 20 }).filter((text) => text.isWellFormed()),
    fc.double({ noNaN: true, noDefaultInfinity: true }).filter((number) => !Number.isInteger(number)),
    fc.uint8Array({ maxLength: 300 }),
    fc.array(tie("value"), { maxLength: 6 }),
    fc.dictionary(fc.oneof(fc.string({ maxLength: 30 }), fc.constantFrom("__proto__", "constructor", "")), tie("value"), { maxKeys: 6 }),
  ),
})).value;
const wireBody = fc.dictionary(fc.string({ maxLength: 12 }), wireValue, { maxKeys: 5 });

/** Same content, whatever the prototypes. */
function sameValue(a: unknown, b: unknown): boolean {
  if (a instanceof Uint8Array || b instanceof Uint8Array) {
    return a instanceof Uint8Array && b instanceof Uint8Array && Buffer.from(a).equals(b);
  }
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, i) => sameValue(item, b[i]));
  if (typeof a === "object" && typeof b === "object" && a !== null && b !== null) {
    const right = new Map<string, unknown>(Object.entries(b));
    const left = Object.entries(a);
    return left.length === right.size && left.every(([key, value]) => right.has(key) && sameValue(value, right.get(key)));
  }
  return a === b;
}

describe("a frame", () => {
  test("comes back as it was sent", () => {
    const [frame] = decodeAll(encodeFrame("LOCK", 7, BODY));
    expect(frame?.type).toBe("LOCK");
    expect(frame?.id).toBe(7);
    expect(sameValue(frame?.body, BODY)).toBe(true);
  });

  test("of any value comes back as it was sent", () => {
    fc.assert(
      fc.property(fc.maxSafeInteger().map(Math.abs), wireBody, (id, body) => {
        const frames = decodeAll(encodeFrame("X", id, body));
        return frames.length === 1 && frames[0]?.id === id && sameValue(frames[0].body, body);
      }),
      { numRuns: 500 },
    );
  });

  test("has the bytes of the specification", () => {
    expect(Buffer.from(encodeFrame("PING", 1, {})).toString("hex")).toBe("0000000883" + "6450494e47" + "01" + "a0");
    expect(Buffer.from(encodeFrame("A", 2 ** 32, { t: 256, n: -1 })).toString("hex")).toBe(
      "00000015" + "83" + "6141" + "1b0000000100000000" + "a2" + "6174190100" + "616e20",
    );
  });

  test("leaves out undefined fields", () => {
    expect(encodeFrame("A", 0, { a: undefined, b: 1 })).toEqual(encodeFrame("A", 0, { b: 1 }));
  });

  test("survives being cut at every position, and byte by byte", () => {
    const bytes = concat(encodeFrame("LOCK", 1, BODY), encodeFrame("PING", 2, {}), encodeFrame("B", 3, { pad: "x".repeat(300) }));
    const whole = decodeAll(bytes);
    expect(whole.map((frame) => frame.id)).toEqual([1, 2, 3]);
    for (let cut = 0; cut <= bytes.length; cut++) {
      expect(sameValue(decodeAll(bytes.subarray(0, cut), bytes.subarray(cut)), whole)).toBe(true);
    }
    expect(sameValue(decodeAll(...Array.from(bytes, (byte) => Uint8Array.of(byte))), whole)).toBe(true);
  });

  test("keeps its bytes when the receive buffer is reused", () => {
    const frames: Frame[] = [];
    const decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
    const bytes = concat(encodeFrame("A", 1, { data: new Uint8Array([1, 2, 3]) }), encodeFrame("A", 2, { data: new Uint8Array([4, 5]) }));
    const chunk = bytes.slice(0, bytes.length - 3);
    decoder.push(chunk, (frame) => frames.push(frame));
    chunk.fill(0xff);
    const rest = bytes.slice(bytes.length - 3);
    decoder.push(rest, (frame) => frames.push(frame));
    rest.fill(0xff);
    expect(frames.map((frame) => frame.body["data"])).toEqual([new Uint8Array([1, 2, 3]), new Uint8Array([4, 5])]);
  });

  test("with equal key hashes in one decoder keeps the keys apart", () => {
    const keys = Array.from({ length: 5000 }, (_, i) => `k${i}`);
    const body = Object.fromEntries(keys.map((key, i) => [key, i]));
    const decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
    for (let round = 0; round < 2; round++) {
      decoder.push(encodeFrame("A", 1, body), (frame) => expect(sameValue(frame.body, body)).toBe(true));
    }
    expect.assertions(2);
  });
});

describe("keys that mean something in JavaScript", () => {
  test("are plain fields of a body without a prototype", () => {
    const body: Body = Object.fromEntries([["__proto__", { polluted: true }], ["constructor", 1], ["toString", 2]]);
    const [frame] = decodeAll(encodeFrame("A", 1, body));
    expect(Object.keys(frame?.body ?? {})).toEqual(["__proto__", "constructor", "toString"]);
    expect(Object.getPrototypeOf(frame?.body)).toBeNull();
    expect("polluted" in {}).toBe(false);
    expect(decodeAll(encodeFrame("A", 1, {}))[0]?.body["constructor"]).toBeUndefined();
  });
});

describe("a frame that is refused", () => {
  const body = (...bytes: number[]): Uint8Array => withLength([0x83, 0x61, 0x41, 0x01, ...bytes]);
  const field = (...bytes: number[]): Uint8Array => body(0xa1, 0x61, 0x61, ...bytes);
  const cases: Record<string, [Uint8Array, string]> = {
    "empty": [withLength([]), "truncated"],
    "a number alone": [withLength([0x01]), "not [type, id, body]"],
    "two elements": [withLength([0x82, 0x61, 0x41, 0x01]), "not [type, id, body]"],
    "four elements": [withLength([0x84, 0x61, 0x41, 0x01, 0xa0, 0x00]), "not [type, id, body]"],
    "trailing bytes": [body(0xa0, 0x00), "trailing bytes"],
    "a lower-case type": [withLength([0x83, 0x61, 0x61, 0x01, 0xa0]), "type"],
    "a type of 33 characters": [withLength([0x83, 0x78, 33, ...Array<number>(33).fill(0x41), 0x01, 0xa0]), "type"],
    "a numeric type": [withLength([0x83, 0x01, 0x01, 0xa0]), "type"],
    "a negative id": [withLength([0x83, 0x61, 0x41, 0x20, 0xa0]), "id"],
    "a text id": [withLength([0x83, 0x61, 0x41, 0x61, 0x41, 0xa0]), "id"],
    "a fractional id": [withLength([0x83, 0x61, 0x41, 0xf9, 0x3e, 0x00, 0xa0]), "id"],
    "a list as body": [body(0x80), "body"],
    "null as body": [body(0xf6), "body"],
    "bytes as body": [body(0x41, 0x00), "body"],
    "an integer of 2^53": [field(0x1b, 0, 0x20, 0, 0, 0, 0, 0, 0), "beyond 2^53"],
    "an integer of 2^64 - 1": [field(0x1b, 255, 255, 255, 255, 255, 255, 255, 255), "beyond 2^53"],
    "an integer of -2^53": [field(0x3b, 0, 0x1f, 255, 255, 255, 255, 255, 255), "below"],
    "a list of announced length 2^32": [field(0x9b, 0, 0, 0, 1, 0, 0, 0, 0), "truncated"],
    "a list of announced length 2^32 - 1": [field(0x9a, 255, 255, 255, 255), "truncated"],
    "a map of announced length 2^31": [field(0xba, 0x80, 0, 0, 0), "truncated"],
    "a text longer than the frame": [field(0x7a, 0x00, 0xff, 0xff, 0xff), "truncated"],
    "bytes longer than the frame": [field(0x58, 200, 1), "truncated"],
    "an integer key": [body(0xa1, 0x01, 0x01), "key that is not text"],
    "a key twice": [body(0xa2, 0x61, 0x61, 0x01, 0x61, 0x61, 0x02), "twice"],
    "__proto__ twice": [body(0xa2, 0x69, ...Buffer.from("__proto__"), 0x01, 0x69, ...Buffer.from("__proto__"), 0x02), "twice"],
    "a tag": [field(0xc1, 0x01), "tags"],
    "a record tag of other libraries": [field(0xd9, 0xdf, 0xff, 0x83, 0x19, 0xe0, 0x00, 0x81, 0x61, 0x61, 0x01), "tags"],
    "undefined": [field(0xf7), "simple value"],
    "simple value 255": [field(0xf8, 0xff), "simple value"],
    "an indefinite list": [field(0x9f, 0xff), "indefinite"],
    "an indefinite map": [field(0xbf, 0xff), "indefinite"],
    "an indefinite text": [field(0x7f, 0xff), "indefinite"],
    "a break alone": [field(0xff), "simple value"],
    "a reserved initial byte": [field(0x1c), "reserved"],
    "a lone continuation byte": [field(0x61, 0x80), "UTF-8"],
    "an overlong NUL": [field(0x62, 0xc0, 0x80), "UTF-8"],
    "half a surrogate pair": [field(0x63, 0xed, 0xa0, 0x80), "UTF-8"],
    "a character beyond U+10FFFF": [field(0x64, 0xf4, 0x90, 0x80, 0x80), "UTF-8"],
    "a cut character": [field(0x62, 0xe2, 0x82), "UTF-8"],
    "invalid UTF-8 in a key": [body(0xa1, 0x61, 0xff, 0x01), "UTF-8"],
    "invalid UTF-8 in the type": [withLength([0x83, 0x61, 0xff, 0x01, 0xa0]), "UTF-8"],
    "lists nested 10,000 deep": [field(...Array<number>(10_000).fill(0x81), 0x01), "nested deeper"],
    "maps nested 10,000 deep": [field(...Array.from({ length: 10_000 }, () => [0xa1, 0x61, 0x61]).flat(), 0x01), "nested deeper"],
    "tags nested 10,000 deep": [field(...Array<number>(10_000).fill(0xc1), 0x01), "tags"],
  };
  for (const [name, [bytes, detail]] of Object.entries(cases)) {
    test(`${name} is a protocol error that says so`, () => {
      const error = refusal(bytes);
      expect(error.code).toBe("protocol");
      expect(error.message).toContain(detail);
    });
  }

  test("larger than the limit is refused by its header alone, and at the limit accepted", () => {
    const decoder = new FrameDecoder({ frameBytesMax: 100 });
    let frames = 0;
    const exact = encodeFrame("A", 1, { pad: "x".repeat(100 - 11) });
    expect(exact.length).toBe(104);
    decoder.push(exact, () => frames++);
    expect(frames).toBe(1);
    expect(() => decoder.push(Uint8Array.of(0, 0, 0, 101), () => frames++)).toThrow("101 bytes, at most 100");
    expect(() => decoder.push(Uint8Array.of(0), () => frames++)).toThrow(AssertionError);
  });

  test("larger than the limit is refused too when its header comes byte by byte", () => {
    const decoder = new FrameDecoder({ frameBytesMax: 100 });
    for (const byte of [0xff, 0xff, 0xff]) decoder.push(Uint8Array.of(byte), () => {});
    expect(() => decoder.push(Uint8Array.of(0xff), () => {})).toThrow(LockdError);
  });

  test("has no effect on the frames before it", () => {
    const seen: number[] = [];
    const decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
    expect(() => decoder.push(concat(encodeFrame("A", 1, {}), withLength([0x00])), (frame) => seen.push(frame.id))).toThrow(LockdError);
    expect(seen).toEqual([1]);
  });

  test("with more items than allowed is refused", () => {
    const decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX, limits: { depthMax: 8, itemsMax: 10 } });
    const items = (count: number): Uint8Array => encodeFrame("A", 1, { a: Array.from({ length: count }, () => 1) });
    decoder.push(items(5), () => {});
    expect(() => decoder.push(items(6), () => {})).toThrow("more than 10 items");
  });

  test("announced large but not sent takes no memory for what is missing", () => {
    const decoder = new FrameDecoder({ frameBytesMax: 16 << 20 });
    decoder.push(Uint8Array.of(0, 0xff, 0xff, 0xff, 0x83), () => {});
    expect(decoder.pendingBytes).toBeLessThanOrEqual(4096);
    for (let received = 5; received < 1 << 20; received += 1000) {
      decoder.push(new Uint8Array(1000), () => {});
      expect(decoder.pendingBytes).toBeLessThanOrEqual(Math.max(4096, 2 * (received + 1000)));
    }
  });

  test("completed leaves no memory taken", () => {
    const decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
    const bytes = encodeFrame("A", 1, { pad: "x".repeat(10_000) });
    decoder.push(bytes.subarray(0, 5000), () => {});
    expect(decoder.pendingBytes).toBeGreaterThan(4999);
    decoder.push(bytes.subarray(5000), () => {});
    expect(decoder.pendingBytes).toBe(0);
  });
});

describe("mutated frames", () => {
  test("are accepted or give a protocol error, nothing else", () => {
    const seeds = [encodeFrame("LOCK", 7, BODY), encodeFrame("HELLO", 0, { protocol: 1, features: ["a", "b"], name: "n" }), encodeFrame("PING", 1, {})];
    let refused = 0;
    fc.assert(
      fc.property(
        fc.constantFrom(...seeds),
        fc.array(fc.tuple(fc.nat(), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 6 }),
        fc.nat(),
        (seed, edits, cut) => {
          const bytes = seed.slice();
          for (const [at, byte] of edits) bytes[4 + (at % (bytes.length - 4))] = byte;
          try {
            for (const frame of decodeAll(bytes.subarray(0, cut % bytes.length), bytes.subarray(cut % bytes.length))) encodeFrame(frame.type, frame.id, { type: frame.type });
          } catch (error) {
            refused++;
            return error instanceof LockdError && error.code === "protocol";
          }
          return true;
        },
      ),
      { numRuns: 5000 },
    );
    expect(refused).toBeGreaterThan(1000);
  });

  test("of random bytes give a protocol error or wait for more", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.boolean(), (bytes, framed) => {
        try {
          decodeAll(framed ? withLength(bytes) : bytes);
        } catch (error) {
          return error instanceof LockdError && error.code === "protocol";
        }
        return true;
      }),
      { numRuns: 5000 },
    );
  });
});

describe("FrameEncoder", () => {
  test("gathers frames and gives them once", () => {
    const encoder = new FrameEncoder();
    expect(encoder.take()).toBeNull();
    encoder.append("A", 1, {});
    encoder.append("B", 2, BODY);
    const expected = concat(encodeFrame("A", 1, {}), encodeFrame("B", 2, BODY));
    expect(encoder.bytes).toBe(expected.length);
    expect(Buffer.from(encoder.take() ?? []).equals(expected)).toBe(true);
    expect(encoder.bytes).toBe(0);
    expect(encoder.take()).toBeNull();
  });

  test("does not touch what it gave away", () => {
    const encoder = new FrameEncoder();
    encoder.append("A", 1, { a: "first" });
    const first = encoder.take();
    const copy = Buffer.from(first ?? []);
    encoder.append("A", 2, { a: "other" });
    expect(copy.equals(first ?? new Uint8Array())).toBe(true);
  });

  test("leaves nothing of a frame that it refuses", () => {
    const encoder = new FrameEncoder({ frameBytesMax: 64 });
    encoder.append("A", 1, {});
    const bytes = encoder.bytes;
    expect(() => encoder.append("B", 2, { pad: "x".repeat(64) })).toThrow("at most 64 fit a frame");
    expect(() => encoder.append("B", 2, { text: "half \ud800" })).toThrow("half a surrogate pair");
    expect(() => encoder.append("B", 2, { number: NaN })).toThrow(AssertionError);
    expect(encoder.bytes).toBe(bytes);
    expect(decodeAll(encoder.take() ?? new Uint8Array()).map((frame) => frame.id)).toEqual([1]);
  });

  test("refuses what the wire cannot carry", () => {
    class Instance {}
    for (const value of [NaN, Infinity, 2 ** 53, -(2 ** 53), 1e300, 1n, Symbol("s"), () => {}, new Map(), new Date(), new Instance(), [undefined]]) {
      expect(() => encodeFrame("A", 1, { value })).toThrow(AssertionError);
    }
    let deep: unknown = 1;
    for (let i = 0; i < 100; i++) deep = [deep];
    expect(() => encodeFrame("A", 1, { deep })).toThrow(AssertionError);
  });
});

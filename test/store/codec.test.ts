/** The packed form: what goes in comes out, and bytes that are not one are refused, never misread. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ByteReader, ByteWriter, GroupPacker, packPieces, unpack, unpackPieces } from "../../src/store/codec.ts";
import { LockdError } from "../../src/errors.ts";
import type { StoreBatch } from "../../src/store/types.ts";
import { bytes, set, unset } from "./kit.ts";

const id = fc.integer({ min: 0, max: 2 ** 52 });
const name = fc.string({ unit: "binary", maxLength: 80 });
const value = fc.uint8Array({ maxLength: 300 });
const batch: fc.Arbitrary<StoreBatch> = fc.record({
  changes: fc.array(fc.record({ key: name, value: fc.option(value) }), { maxLength: 5 }),
  appends: fc.array(
    fc.record({ stream: name, firstId: id, count: fc.nat(1_000), data: value }).map(({ count, ...rest }) => ({ ...rest, lastId: rest.firstId + count })),
    { maxLength: 3 },
  ),
  trims: fc.array(fc.record({ stream: name, throughId: id }), { maxLength: 3 }),
});

describe("a group", () => {
  test("unpacks to the operations of its batches in order", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom("lock", "raft", "sync-1"), batch), { maxLength: 6 }), (batches) => {
        const packer = new GroupPacker();
        const expected = batches.flatMap(([namespace, { changes, appends = [], trims = [] }]) => [
          ...changes.map(({ key, value: data }) =>
            data === null ? { kind: "delete", namespace, key } : { kind: "set", namespace, key, value: data },
          ),
          ...appends.map((append) => ({ kind: "append", namespace, ...append })),
          ...trims.map((trim) => ({ kind: "trim", namespace, ...trim })),
        ]);
        for (const [namespace, each] of batches) packer.add(namespace, each);
        expect<unknown>([...unpack(packer.take())]).toEqual(expected);
        expect(packer.bytes).toBe(0);
      }),
      { numRuns: 200 },
    );
  });

  test("that follows another names its namespace again", () => {
    const packer = new GroupPacker();
    packer.add("lock", { changes: [set("a", "1")] });
    packer.take();
    packer.add("lock", { changes: [unset("a")] });
    expect([...unpack(packer.take())]).toEqual([{ kind: "delete", namespace: "lock", key: "a" }]);
  });

  test("holds nothing of a trim to an id before the first", () => {
    const packer = new GroupPacker();
    packer.add("lock", { changes: [], trims: [{ stream: "s", throughId: -1 }, { stream: "s", throughId: 0 }] });
    expect([...unpack(packer.take())]).toEqual([{ kind: "trim", namespace: "lock", stream: "s", throughId: 0 }]);
  });

  test("is unchanged by a batch that cannot be packed", () => {
    const packer = new GroupPacker();
    packer.add("lock", { changes: [set("a", "1")] });
    const before = packer.bytes;
    for (const malformed of [
      { changes: [set("b", "1"), set("\udfff", "1")] },
      { changes: [], appends: [{ stream: "s", firstId: 5, lastId: 4, data: bytes("") }] },
      { changes: [], appends: [{ stream: "s", firstId: -1, lastId: 4, data: bytes("") }] },
      { changes: [], appends: [{ stream: "s", firstId: 1.5, lastId: 4, data: bytes("") }] },
      { changes: [], trims: [{ stream: "s", throughId: 2 ** 53 }] },
    ]) {
      expect(() => packer.add("other", malformed)).toThrow("assertion failed");
      expect(packer.bytes).toBe(before);
    }
    packer.add("other", { changes: [unset("c")] });
    expect([...unpack(packer.take())].map((operation) => operation.namespace)).toEqual(["lock", "other"]);
  });

  test("cut, altered or made up is refused as corrupt or read as something else, but never crashes", () => {
    const packer = new GroupPacker();
    packer.add("lock", { changes: [set("key", "value"), unset("other")], appends: [{ stream: "s", firstId: 1, lastId: 300, data: bytes("data") }] });
    const whole = packer.take();
    const read = (group: Uint8Array): void => {
      try {
        for (const _ of unpack(group));
      } catch (error) {
        if (!(error instanceof LockdError) || error.code !== "corrupt") throw error;
      }
    };
    for (let length = 0; length < whole.length; length++) read(whole.slice(0, length));
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), read), { numRuns: 2_000 });
    const refusals = [[9], [2, 0], [1, 4, 0x6c, 0x6f], [1, 1, 0x6c, 2, 1, 0xff, 0], [1, 1, 0x6c, 2, 255, 255, 255, 255, 255, 255, 255, 255, 1], [1, 1, 0x6c, 77]];
    for (const group of refusals) expect(() => [...unpack(new Uint8Array(group))]).toThrow("read packed changes");
  });
});

describe("numbers and texts", () => {
  test("come back exactly up to 2^53 - 1", () => {
    for (const number of [0, 1, 127, 128, 16_383, 16_384, 2 ** 32, 2 ** 49 - 1, 2 ** 49, Number.MAX_SAFE_INTEGER]) {
      const writer = new ByteWriter(1);
      writer.number(number);
      expect(new ByteReader(writer.take()).number()).toBe(number);
    }
  });

  test("of every length around the quick way for short ASCII come back", () => {
    for (const letter of ["a", "é", "🔒"]) {
      for (const length of [0, 1, 15, 31, 32, 33, 62, 63, 64, 65, 127, 128, 5_000]) {
        const writer = new ByteWriter(1);
        writer.text(letter.repeat(length));
        writer.text("end");
        const reader = new ByteReader(writer.take());
        expect(reader.text()).toBe(letter.repeat(length));
        expect(reader.text()).toBe("end");
        expect(reader.done).toBe(true);
      }
    }
  });
});

test("pieces of a stream come back as they were", () => {
  const piece = fc.record({ firstId: id, count: fc.nat(1_000), data: value }).map(({ firstId, count, data }) => ({ firstId, lastId: firstId + count, data }));
  fc.assert(fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => expect([...unpackPieces(packPieces(pieces))]).toEqual(pieces)));
});

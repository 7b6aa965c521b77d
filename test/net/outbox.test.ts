import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Outbox } from "../../src/net/outbox.ts";
import type { ByteSocket } from "../../src/net/socket.ts";
import { encodeFrame } from "../../src/wire/frame.ts";

/** Takes so many bytes of each write as it is told, then all. */
class GreedySocket implements ByteSocket {
  readonly taken: Buffer[] = [];
  writes = 0;
  readonly #portions: number[];

  constructor(portions: readonly number[]) {
    this.#portions = [...portions];
  }

  write(data: Uint8Array, offset: number, length: number): number {
    this.writes++;
    const portion = this.#portions.shift() ?? length;
    if (portion < 0) return -1;
    const taken = Math.min(portion, length);
    this.taken.push(Buffer.from(data.slice(offset, offset + taken)));
    return taken;
  }

  shutdown(): void {}
  end(): void {}
  terminate(): void {}
  pause(): void {}
  resume(): void {}
}

const OPTIONS = { frameBytesMax: 1 << 24 };

describe("the outbox", () => {
  test("delivers every byte once and in order, however little the socket takes", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -1, max: 90_000 }), { maxLength: 40 }),
        fc.array(fc.tuple(fc.nat({ max: 40_000 }), fc.constantFrom("append", "flush", "drained")), { minLength: 1, maxLength: 30 }),
        (portions, steps) => {
          const socket = new GreedySocket(portions);
          const outbox = new Outbox(socket, OPTIONS);
          const expected: Uint8Array[] = [];
          for (const [i, [size, step]] of steps.entries()) {
            const body = { pad: "x".repeat(size) };
            outbox.append("A", i, body);
            expected.push(encodeFrame("A", i, body));
            if (step === "flush") outbox.flush();
            if (step === "drained") outbox.drained();
            const delivered = socket.taken.reduce((sum, part) => sum + part.length, 0);
            const appended = expected.reduce((sum, part) => sum + part.length, 0);
            if (outbox.bytes !== appended - delivered || outbox.bytesTaken !== delivered) return false;
          }
          outbox.flush();
          for (let i = 0; i < portions.length + 1; i++) outbox.drained();
          return outbox.bytes === 0 && Buffer.concat(socket.taken).equals(Buffer.concat(expected));
        },
      ),
      { numRuns: 300 },
    );
  });

  test("writes small frames of one turn at once", () => {
    const socket = new GreedySocket([]);
    const outbox = new Outbox(socket, OPTIONS);
    for (let i = 0; i < 100; i++) outbox.append("A", i, {});
    outbox.flush();
    outbox.flush();
    expect(socket.writes).toBe(1);
  });

  test("does not write to a full socket before it asks", () => {
    const socket = new GreedySocket([3]);
    const outbox = new Outbox(socket, OPTIONS);
    outbox.append("A", 1, {});
    outbox.flush();
    expect(outbox.blocked).toBe(true);
    outbox.append("A", 2, {});
    outbox.flush();
    expect(socket.writes).toBe(1);
    outbox.drained();
    expect(outbox.blocked).toBe(false);
    expect(Buffer.concat(socket.taken).equals(Buffer.concat([encodeFrame("A", 1, {}), encodeFrame("A", 2, {})]))).toBe(true);
  });

  test("holds nothing after discard", () => {
    const outbox = new Outbox(new GreedySocket([3]), OPTIONS);
    outbox.append("A", 1, { pad: "x".repeat(100_000) });
    outbox.append("A", 2, {});
    outbox.flush();
    outbox.discard();
    expect(outbox.bytes).toBe(0);
  });
});

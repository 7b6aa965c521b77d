import { describe, expect, test } from "bun:test";
import { Encoder } from "cbor-x/encode";
import fc from "fast-check";
import type { LockEvent } from "../../../plugins/lock/core/types.ts";
import { decodeEvents, encodeEvents, History } from "../../../plugins/lock/server/history.ts";
import { asLockdError } from "../../../src/errors.ts";

const event = (id: number, object = "x"): LockEvent => ({
  id, wallMs: 1000 + id, event: "granted", object, ticket: `${id}/s`, mode: "exclusive", session: "s",
  holder: { name: "n", host: "h", pid: 1, program: "p", address: "a" },
});
const filled = (eventsMax: number, count: number): History => {
  const history = new History(eventsMax);
  for (let id = 1; id <= count; id++) history.add(event(id, id % 2 === 0 ? "even" : "odd"));
  return history;
};
const ids = (page: { events: readonly LockEvent[] }): number[] => page.events.map(({ id }) => id);

describe("the history", () => {
  test("is empty at first, and its next id is 1", () => {
    const history = new History(5);
    expect([history.oldestId, history.nextId]).toEqual([1, 1]);
    expect(history.page(1, "", 10)).toEqual({ events: [], nextId: 1 });
    expect(history.ofObject("x", 10)).toEqual([]);
  });

  test("keeps the newest, at every number of events", () => {
    for (let count = 1; count <= 23; count++) {
      const history = filled(5, count);
      const oldest = Math.max(1, count - 4);
      expect([history.oldestId, history.nextId]).toEqual([oldest, count + 1]);
      expect(ids(history.page(0, "", 100))).toEqual(Array.from({ length: count - oldest + 1 }, (_, index) => oldest + index));
    }
  });

  test("comes in pages that together are the whole, whatever their size, with a prefix as well", () => {
    const history = filled(20, 31);
    for (const limit of [1, 2, 3, 7, 20, 100]) {
      for (const [prefix, expected] of [["", 20], ["odd", 10], ["even", 10], ["none", 0]] as const) {
        const found: number[] = [];
        let from = 0;
        for (let pages = 0; ; pages++) {
          if (pages > 50) throw new Error("pages without end");
          const { events, nextId } = history.page(from, prefix, limit);
          found.push(...events.map(({ id }) => id));
          from = nextId;
          if (events.length < limit) break;
        }
        expect(found).toHaveLength(expected);
        expect(found).toEqual([...found].sort((one, other) => one - other));
        expect(from).toBe(32);
      }
    }
  });

  test("of one object is its newest events, oldest first", () => {
    const history = filled(20, 31);
    expect(history.ofObject("even", 3).map(({ id }) => id)).toEqual([26, 28, 30]);
    expect(history.ofObject("odd", 100)).toHaveLength(10);
  });

  test("goes on after a restart with the ids of the store, kept or not", () => {
    const history = new History(5);
    history.startAt(100);
    expect([history.oldestId, history.nextId]).toEqual([100, 100]);
    history.add(event(100));
    expect(ids(history.page(1, "", 9))).toEqual([100]);
    expect(history.page(101, "", 9)).toEqual({ events: [], nextId: 101 });
  });

  test("finds its place when ids have gaps", () => {
    const history = new History(5);
    for (const id of [3, 7, 20]) history.add(event(id));
    expect(ids(history.page(4, "", 9))).toEqual([7, 20]);
    expect(ids(history.page(8, "", 9))).toEqual([20]);
  });

  test("refuses ids that do not rise", () => {
    const history = filled(5, 3);
    expect(() => history.add(event(3))).toThrow("ids rise");
    expect(() => history.startAt(2)).toThrow("never go back");
  });
});

const text = fc.string({ unit: "binary" });
const count = fc.nat({ max: Number.MAX_SAFE_INTEGER });
const anyEvent: fc.Arbitrary<LockEvent> = fc.record(
  {
    id: count,
    wallMs: fc.oneof(count, fc.double({ min: 0, max: 2e12, noNaN: true })),
    event: fc.constantFrom("waiting", "granted", "released", "expiring", "expired", "forced", "kicked", "failed", "cancelled", "lost", "value"),
    object: text,
    ticket: text,
    mode: fc.constantFrom("exclusive", "shared", "semaphore"),
    session: text,
    holder: fc.record({ name: text, host: text, pid: fc.nat(), program: text, address: text, commandLine: text }, { requiredKeys: ["name", "host", "pid", "program", "address"] }),
    token: count,
    waitedMs: count,
    heldMs: count,
    reason: text,
    value: text,
  },
  { requiredKeys: ["id", "wallMs", "event", "object", "ticket", "mode", "session", "holder"] },
);

describe("a chunk of the store's stream", () => {
  test("holds exactly what was put in, whatever it was", () => {
    fc.assert(
      fc.property(fc.array(anyEvent, { maxLength: 5 }), (events) => {
        expect(decodeEvents(encodeEvents(events))).toEqual(events);
      }),
      { numRuns: 500 },
    );
  });

  test("that was altered is corrupt or other events, never another error", () => {
    const whole = encodeEvents([event(1), { ...event(2), token: 5, reason: "r" }]);
    let corrupt = 0;
    for (let index = 0; index < whole.length; index++) {
      for (const mask of [0x01, 0x20, 0x80, 0xff]) {
        const bytes = whole.slice();
        bytes[index] = (bytes[index] ?? 0) ^ mask;
        try {
          for (const { id, object, holder } of decodeEvents(bytes)) {
            expect([typeof id, typeof object, typeof holder.name, Number.isSafeInteger(holder.pid)]).toEqual(["number", "string", "string", true]);
          }
        } catch (error) {
          expect(asLockdError(error)).toMatchObject({ code: "corrupt", exitCode: 65, hint: expect.stringContaining("backup") });
          corrupt++;
        }
      }
    }
    expect(corrupt).toBeGreaterThan(100);
  });

  test("that is cut short, empty or something else is corrupt", () => {
    const whole = encodeEvents([event(1)]);
    const others = [new Uint8Array(0), new Uint8Array([0xff]), new Uint8Array([0x01]), new Uint8Array([0x81, 0x80]), new Uint8Array([0x81, 0xf6])];
    for (const field of [7, 11, 0]) {
      const row: unknown[] = [1, 2, 0, "x", "t", 0, "s", ["n", "h", 1, "p", "a", null], null, null, null, null];
      row[field] = { odd: true };
      others.push(new Uint8Array(new Encoder({ useRecords: false }).encode([row])));
    }
    for (let length = 1; length < whole.length; length++) others.push(whole.slice(0, length));
    for (const bytes of others) expect(() => decodeEvents(bytes)).toThrow(expect.objectContaining({ code: "corrupt" }));
  });
});

import { describe, expect, test } from "bun:test";
import { Fifo } from "../../../plugins/lock/core/fifo.ts";
import { Journal, type Recorded } from "../../../plugins/lock/core/journal.ts";
import { Load, NOTHING, excludes, fits } from "../../../plugins/lock/core/load.ts";
import { duration } from "../../../plugins/lock/core/messages.ts";
import { specOf } from "./kit.ts";

describe("the queue", () => {
  test("keeps the order over many pushes and shifts", () => {
    const fifo = new Fifo<number>();
    let pushed = 0;
    let shifted = 0;
    for (let round = 0; round < 50; round++) {
      for (let count = 0; count < 1 + (round % 9); count++) fifo.push(pushed++);
      for (let count = 0; count < round % 7; count++) {
        const item = fifo.shift();
        if (item !== undefined) expect(item).toBe(shifted++);
      }
      expect(fifo.size).toBe(pushed - shifted);
      expect(fifo.first()).toBe(fifo.size === 0 ? undefined : shifted);
    }
    for (let item = fifo.shift(); item !== undefined; item = fifo.shift()) expect(item).toBe(shifted++);
    expect(shifted).toBe(pushed);
  });
});

describe("the journal", () => {
  class Thing implements Recorded {
    dirty = false;
    stored = false;
    gone = false;
    constructor(
      readonly key: string,
      public content = 0,
    ) {}
  }
  const drain = (journal: Journal<Thing>) =>
    journal.drain((thing) => thing.key, (thing) => Uint8Array.of(thing.content)).map(({ key, value }) => `${key}=${value?.[0] ?? "gone"}`);

  test("writes a thing once, as it is at the drain", () => {
    const journal = new Journal<Thing>();
    const thing = new Thing("a", 1);
    journal.touch(thing);
    thing.content = 2;
    journal.touch(thing);
    expect(drain(journal)).toEqual(["a=2"]);
    expect(drain(journal)).toEqual([]);
    journal.touch(thing);
    expect(drain(journal)).toEqual(["a=2"]);
  });

  test("says nothing of what came and went between two drains", () => {
    const journal = new Journal<Thing>();
    const thing = new Thing("a");
    journal.touch(thing);
    journal.drop(thing);
    expect(drain(journal)).toEqual([]);
  });

  test("deletes what was stored, and a new thing of the same key survives it", () => {
    const journal = new Journal<Thing>();
    const old = new Thing("a", 1);
    journal.touch(old);
    drain(journal);
    journal.drop(old);
    journal.touch(new Thing("a", 2));
    expect(drain(journal)).toEqual(["a=gone", "a=2"]);
  });
});

describe("compatibility", () => {
  const exclusive = specOf();
  const shared = specOf({ mode: "shared" });
  const permits = (count: number) => specOf({ mode: "semaphore", permits: 3, count });
  const load = (...specs: readonly (typeof exclusive)[]) => {
    const sum = new Load();
    for (const spec of specs) sum.add(spec);
    return sum;
  };

  test.each([
    ["exclusive into nothing", exclusive, load(), NOTHING, true],
    ["exclusive beside a holder", exclusive, load(shared), NOTHING, false],
    ["exclusive behind a waiter", exclusive, NOTHING, load(permits(1)), false],
    ["shared beside shared", shared, load(shared, shared), load(shared), true],
    ["shared beside exclusive", shared, load(exclusive), NOTHING, false],
    ["shared behind a waiting writer", shared, load(shared), load(exclusive), false],
    ["shared beside a semaphore", shared, load(permits(1)), NOTHING, false],
    ["permits that are left", permits(1), load(permits(1)), load(permits(1)), true],
    ["one permit too many", permits(2), load(permits(1)), load(permits(1)), false],
    ["semaphore beside shared", permits(1), load(shared), NOTHING, false],
  ])("%s", (_, spec, held, ahead, expected) => {
    expect(fits(spec, held, ahead)).toBe(expected);
  });

  test("a load is what was added and not removed", () => {
    const sum = load(exclusive, shared, permits(2));
    sum.remove(shared);
    sum.remove(exclusive);
    expect(sum).toEqual(load(permits(2)));
    sum.clear();
    expect(sum).toEqual(load());
  });

  test("two tickets exclude each other when no order of events lets both hold", () => {
    expect(excludes(shared, shared)).toBe(false);
    expect(excludes(shared, exclusive)).toBe(true);
    expect(excludes(exclusive, exclusive)).toBe(true);
    expect(excludes(permits(1), permits(2))).toBe(false);
    expect(excludes(permits(2), permits(2))).toBe(true);
    expect(excludes(permits(1), shared)).toBe(true);
  });
});

test("durations are written for people", () => {
  const cases: [number, string][] = [
    [0, "0ms"],
    [-3, "0ms"],
    [999.4, "999ms"],
    [1000, "1s"],
    [3240, "3.2s"],
    [60_000, "1m"],
    [90_000, "1.5m"],
    [7_200_000, "2h"],
    [604_800_000, "7d"],
  ];
  for (const [ms, text] of cases) expect(duration(ms)).toBe(text);
});

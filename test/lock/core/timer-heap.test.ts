import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type Timed, TimerHeap } from "../../../plugins/lock/core/timer-heap.ts";

const item = (timerKey: number | string, timerClass = 0): Timed => ({ timerKey, timerClass, timerMs: 0, timerIndex: -1 });

function drain(heap: TimerHeap<Timed>): Timed[] {
  const order: Timed[] = [];
  for (let first = heap.first(); first !== null; first = heap.first()) {
    order.push(first);
    heap.remove(first);
  }
  return order;
}

describe("the timer heap", () => {
  test("gives back in order of time, whatever was set, moved and removed", () => {
    const steps = fc.array(fc.record({ key: fc.nat(20), atMs: fc.nat(50), remove: fc.boolean() }), { maxLength: 150, size: "max" });
    fc.assert(
      fc.property(steps, (commands) => {
        const heap = new TimerHeap<Timed>();
        const items = Array.from({ length: 21 }, (_, key) => item(key));
        const set = new Set<Timed>();
        for (const { key, atMs, remove } of commands) {
          const chosen = items[key];
          if (chosen === undefined) continue;
          if (remove) {
            heap.remove(chosen);
            set.delete(chosen);
          } else {
            heap.set(chosen, atMs);
            set.add(chosen);
          }
        }
        const expected = [...set].sort((a, b) => a.timerMs - b.timerMs || Number(a.timerKey) - Number(b.timerKey));
        expect(drain(heap)).toEqual(expected);
      }),
      { seed: 1, numRuns: 200 },
    );
  });

  test("orders equal times by class, then key, not by the order in which they came", () => {
    const heap = new TimerHeap<Timed>();
    const items = [item(2, 1), item("b", 2), item(1, 1), item("a", 2), item("z", 0)];
    for (const each of items) heap.set(each, 5);
    expect(drain(heap).map((each) => each.timerKey)).toEqual(["z", 1, 2, "a", "b"]);
  });

  test("removing what is not in it does nothing", () => {
    const heap = new TimerHeap<Timed>();
    const only = item(1);
    heap.remove(only);
    heap.set(only, 1);
    heap.remove(only);
    heap.remove(only);
    expect(heap.first()).toBeNull();
  });

  test("refuses a time that is none", () => {
    const heap = new TimerHeap<Timed>();
    for (const atMs of [Number.NaN, Number.POSITIVE_INFINITY]) expect(() => heap.set(item(1), atMs)).toThrow("finite");
  });
});

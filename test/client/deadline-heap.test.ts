import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { DeadlineHeap, type Due } from "../../src/client/deadline-heap.ts";

interface Item extends Due {
  name: number;
}

const item = (name: number): Item => ({ name, dueMs: Number.POSITIVE_INFINITY, heapIndex: -1 });

function drain(heap: DeadlineHeap<Item>): number[] {
  const order: number[] = [];
  for (let next = heap.peek(); next !== undefined; next = heap.peek()) {
    order.push(next.dueMs);
    heap.remove(next);
  }
  return order;
}

describe("deadline heap", () => {
  test("agrees with a sorted list over any sequence of schedule, move, remove and bulk change", () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("schedule" as const), index: fc.nat(19), dueMs: fc.nat(100) }),
      fc.record({ kind: fc.constant("remove" as const), index: fc.nat(19), dueMs: fc.constant(0) }),
      fc.record({ kind: fc.constant("shift" as const), index: fc.nat(19), dueMs: fc.nat(50) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const heap = new DeadlineHeap<Item>();
        const items = Array.from({ length: 20 }, (_, name) => item(name));
        const model = new Map<Item, number>();
        for (const { kind, index, dueMs } of steps) {
          const one = items[index];
          if (one === undefined) continue;
          if (kind === "schedule") {
            heap.schedule(one, dueMs);
            model.set(one, dueMs);
          } else if (kind === "remove") {
            heap.remove(one);
            model.delete(one);
          } else {
            const moved = (other: Item): number => (other.name % 3 === index % 3 ? other.dueMs + dueMs : other.dueMs);
            for (const other of model.keys()) model.set(other, moved(other));
            heap.rescheduleAll(moved);
          }
          expect(heap.size).toBe(model.size);
          expect(heap.peek()?.dueMs).toBe(model.size === 0 ? undefined : Math.min(...model.values()));
        }
        expect(drain(heap)).toEqual([...model.values()].sort((a, b) => a - b));
      }),
    );
  });

  test("something due at no time is not in it", () => {
    const heap = new DeadlineHeap<Item>();
    const one = item(1);
    heap.schedule(one, Number.POSITIVE_INFINITY);
    expect(heap.size).toBe(0);
    heap.schedule(one, 5);
    heap.schedule(one, Number.POSITIVE_INFINITY);
    expect(heap.peek()).toBeUndefined();
    expect(one.heapIndex).toBe(-1);
  });

  test("removing what is not in it does nothing", () => {
    const heap = new DeadlineHeap<Item>();
    heap.schedule(item(1), 1);
    heap.remove(item(2));
    expect(heap.size).toBe(1);
  });
});

/**
 * A binary heap of things that become due, each of which knows its own place, so that it can be moved
 * or taken out in O(log n). Knows neither clock nor timers.
 */
import { assert } from "../errors.ts";

export interface Due {
  /** when it is due; change it only through the heap while it is in there */
  dueMs: number;
  /** place in the heap, -1 when it is in none; owned by the heap */
  heapIndex: number;
}

export class DeadlineHeap<T extends Due> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  peek(): T | undefined {
    return this.#items[0];
  }

  /** Puts it in, or moves it, to be due at `dueMs`; with Infinity it is taken out. */
  schedule(item: T, dueMs: number): void {
    if (dueMs === Number.POSITIVE_INFINITY) {
      this.remove(item);
      item.dueMs = dueMs;
      return;
    }
    if (item.heapIndex < 0) {
      item.dueMs = dueMs;
      item.heapIndex = this.#items.length;
      this.#items.push(item);
      this.#up(item, item.heapIndex);
      return;
    }
    assert(this.#items[item.heapIndex] === item, "a scheduled item is where it says");
    const later = dueMs > item.dueMs;
    item.dueMs = dueMs;
    if (later) this.#down(item, item.heapIndex);
    else this.#up(item, item.heapIndex);
  }

  remove(item: T): void {
    const index = item.heapIndex;
    if (index < 0) return;
    assert(this.#items[index] === item, "a scheduled item is where it says");
    item.heapIndex = -1;
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    if (last.dueMs > item.dueMs) this.#down(last, index);
    else this.#up(last, index);
  }

  /** Gives new times to many items at once, O(n): `dueMs` returns the new time of those in the heap. */
  rescheduleAll(dueMs: (item: T) => number): void {
    for (const item of this.#items) item.dueMs = dueMs(item);
    for (let index = (this.#items.length >>> 1) - 1; index >= 0; index -= 1) {
      const item = this.#items[index];
      if (item !== undefined) this.#down(item, index);
    }
  }

  #up(item: T, from: number): void {
    let index = from;
    while (index > 0) {
      const parent = this.#items[(index - 1) >>> 1];
      if (parent === undefined || parent.dueMs <= item.dueMs) break;
      this.#place(parent, index);
      index = (index - 1) >>> 1;
    }
    this.#place(item, index);
  }

  #down(item: T, from: number): void {
    let index = from;
    for (;;) {
      let childIndex = 2 * index + 1;
      let child = this.#items[childIndex];
      if (child === undefined) break;
      const right = this.#items[childIndex + 1];
      if (right !== undefined && right.dueMs < child.dueMs) {
        child = right;
        childIndex += 1;
      }
      if (child.dueMs >= item.dueMs) break;
      this.#place(child, index);
      index = childIndex;
    }
    this.#place(item, index);
  }

  #place(item: T, index: number): void {
    this.#items[index] = item;
    item.heapIndex = index;
  }
}

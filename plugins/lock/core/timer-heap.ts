/**
 * The deadlines of the table in one binary heap. An item knows its place, so it is moved and removed
 * in O(log n) and nothing dead piles up. Equal times are ordered by class and key, never by history,
 * so that a restored table fires in the same order. Knows nothing of locks or clocks.
 */
import { assert } from "../../../src/errors.ts";

/** What can stand in the heap, once. */
export interface Timed {
  /** orders items that are due at the same time: lower classes first, then by key */
  readonly timerClass: number;
  readonly timerKey: number | string;
  /** owned by the heap */
  timerMs: number;
  /** owned by the heap; -1: not in it */
  timerIndex: number;
}

export class TimerHeap<T extends Timed> {
  readonly #items: T[] = [];

  /** The item that is due first. */
  first(): T | null {
    return this.#items[0] ?? null;
  }

  /** Adds an item, or moves it when it is in the heap already. */
  set(item: T, atMs: number): void {
    assert(Number.isFinite(atMs), "a deadline is a finite time");
    if (item.timerIndex < 0) {
      item.timerIndex = this.#items.length;
      this.#items.push(item);
    }
    item.timerMs = atMs;
    this.#settle(item);
  }

  /** Takes an item out; does nothing when it is not in the heap. */
  remove(item: T): void {
    const index = item.timerIndex;
    if (index < 0) return;
    assert(this.#items[index] === item, "an item knows its place in the heap");
    item.timerIndex = -1;
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#items[index] = last;
    last.timerIndex = index;
    this.#settle(last);
  }

  #settle(item: T): void {
    const items = this.#items;
    let index = item.timerIndex;
    while (index > 0) {
      const up = (index - 1) >> 1;
      const parent = items[up];
      if (parent === undefined || !isBefore(item, parent)) break;
      items[index] = parent;
      parent.timerIndex = index;
      index = up;
    }
    for (;;) {
      let down = 2 * index + 1;
      let child = items[down];
      if (child === undefined) break;
      const other = items[down + 1];
      if (other !== undefined && isBefore(other, child)) {
        child = other;
        down++;
      }
      if (!isBefore(child, item)) break;
      items[index] = child;
      child.timerIndex = index;
      index = down;
    }
    items[index] = item;
    item.timerIndex = index;
  }
}

function isBefore(a: Timed, b: Timed): boolean {
  if (a.timerMs !== b.timerMs) return a.timerMs < b.timerMs;
  if (a.timerClass !== b.timerClass) return a.timerClass < b.timerClass;
  return a.timerKey < b.timerKey;
}

/** A first-in first-out queue with O(1) operations. Knows nothing of what it holds. */

/** Consumed items in front are dropped once there are this many and they are the larger part. */
const COMPACT_AT = 64;

export class Fifo<T> {
  #items: T[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  first(): T | undefined {
    return this.#items[this.#head];
  }

  shift(): T | undefined {
    if (this.size === 0) return undefined;
    const item = this.#items[this.#head++];
    if (this.size === 0) {
      this.#items = [];
      this.#head = 0;
    } else if (this.#head >= COMPACT_AT && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return item;
  }
}

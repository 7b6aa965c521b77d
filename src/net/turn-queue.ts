/**
 * Work that is due at the end of this turn of the event loop, once for each that asked: what many
 * handlers send in one turn leaves in one write per connection. Knows no connection.
 */

export class TurnQueue<T> {
  readonly #run: (item: T) => void;
  #items: T[] = [];

  constructor(run: (item: T) => void) {
    this.#run = run;
  }

  /** `item` runs after all that is already due in this turn; asking twice runs it twice. */
  add(item: T): void {
    if (this.#items.push(item) === 1) setImmediate(() => this.#runAll());
  }

  #runAll(): void {
    const items = this.#items;
    this.#items = [];
    for (const item of items) this.#run(item);
  }
}

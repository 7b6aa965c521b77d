/**
 * What the journal holds and the tables do not yet: the newest change of every key, in the order in
 * which they must be folded. In memory only, rebuilt from the journal; knows no SQL.
 */
import { unpack, type Operation } from "./codec.ts";

/** An operation with the number of the journal row that it is in. */
export interface PendingChange {
  id: string;
  seq: number;
  operation: Operation;
}

export class Pending {
  /**
   * In the order of the newest change of each id: a key that is set again moves to the end. So when the
   * head has row number n, every change in rows before n is folded or was replaced by a later row.
   */
  readonly #changes = new Map<string, PendingChange>();

  get size(): number {
    return this.#changes.size;
  }

  /** Takes in the operations of journal row `seq`. Rows must come in rising order. */
  absorb(seq: number, group: Uint8Array): void {
    for (const operation of unpack(group)) {
      const id = idOf(operation);
      this.#changes.delete(id);
      this.#changes.set(id, { id, seq, operation });
    }
  }

  /** The changes that are to be folded next, oldest first. */
  changes(): Iterable<PendingChange> {
    return this.#changes.values();
  }

  /** Forgets changes that were folded. */
  remove(folded: readonly PendingChange[]): void {
    for (const change of folded) this.#changes.delete(change.id);
  }

  /** Number of the row that the oldest change is in, null when all is folded. */
  get seqOldest(): number | null {
    const oldest = this.#changes.values().next();
    return oldest.done === true ? null : oldest.value.seq;
  }
}

function idOf(operation: Operation): string {
  switch (operation.kind) {
    case "set":
    case "delete":
      return `r${operation.namespace}\0${operation.key}`;
    case "append":
      return `a${operation.namespace}\0${operation.stream}\0${operation.firstId}`;
    case "trim":
      // Each by itself: one that always moved to the end would never have its turn under load.
      return `t${operation.namespace}\0${operation.stream}\0${operation.throughId}`;
  }
}

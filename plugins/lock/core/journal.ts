/**
 * Remembers which durable records changed since the last drain, each once however often it changed.
 * A record that came and went in between leaves no trace. Knows nothing of the records' content.
 */
import type { RecordChange } from "../../../src/store/types.ts";

/** The mark that the journal keeps on each thing that has a record. */
export interface Recorded {
  /** waits in the journal */
  dirty: boolean;
  /** storage has a record of it, as of the last drain */
  stored: boolean;
  /** is no more; its record, if there is one, is to be deleted */
  gone: boolean;
}

export class Journal<T extends Recorded> {
  #dirty: T[] = [];

  /** Notes that the record must be written. */
  touch(item: T): void {
    if (item.dirty) return;
    item.dirty = true;
    this.#dirty.push(item);
  }

  /** Notes that the thing is no more. */
  drop(item: T): void {
    item.gone = true;
    this.touch(item);
  }

  /** The changes since the last drain, in the order in which things changed first. */
  drain(keyOf: (item: T) => string, encode: (item: T) => Uint8Array): RecordChange[] {
    const changes: RecordChange[] = [];
    for (const item of this.#dirty) {
      item.dirty = false;
      if (!item.gone) {
        item.stored = true;
        changes.push({ key: keyOf(item), value: encode(item) });
      } else if (item.stored) {
        item.stored = false;
        changes.push({ key: keyOf(item), value: null });
      }
    }
    this.#dirty = [];
    return changes;
  }
}

/**
 * The history in the store: what is appended to its stream, and when the stream is cut. Knows no table
 * and does not write by itself.
 */
import type { StoreBatch } from "../../../src/store/types.ts";
import type { LockEvent } from "../core/types.ts";
import { encodeEvents, EVENT_STREAM } from "./history.ts";

export class EventLog {
  readonly #eventsMax: number;
  /** none before this one is kept, as far as this process knows: the first batch may cut once more */
  #oldestId = 1;

  /** `eventsMax` 0: nothing is kept. */
  constructor(eventsMax: number) {
    this.#eventsMax = eventsMax;
  }

  /**
   * The part of a store's batch that keeps these events, and drops the oldest in steps of a quarter, so
   * that not every batch deletes rows. `landed` is to be called when the batch is durable.
   */
  append(events: readonly LockEvent[]): { part: Omit<StoreBatch, "changes">; landed: () => void } {
    const first = events[0];
    const last = events.at(-1);
    if (first === undefined || last === undefined || this.#eventsMax === 0) return { part: {}, landed: () => undefined };
    const appends = [{ stream: EVENT_STREAM, firstId: first.id, lastId: last.id, data: encodeEvents(events) }];
    const throughId = last.id - this.#eventsMax - 1;
    if (throughId - this.#oldestId < this.#eventsMax / 4) return { part: { appends }, landed: () => undefined };
    return {
      part: { appends, trims: [{ stream: EVENT_STREAM, throughId }] },
      landed: () => {
        this.#oldestId = throughId + 1;
      },
    };
  }
}

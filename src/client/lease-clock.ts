/**
 * The time that leases are measured by: the more pessimistic of the monotonic and the boot clock, and
 * the send times of recent frames. Owns the margin of a lease; knows no lock and no timer.
 */
import { assert } from "../errors.ts";
import type { Clock } from "../clock/clock.ts";

/**
 * One timeline, in milliseconds of the boot clock, that advances at least as fast as either clock
 * (up to the resolution of the boot clock, which the margin of a lease covers): the monotonic clock
 * plus the largest lead of the boot clock seen so far, since a suspended machine lets that lead grow.
 */
export class LeaseClock {
  readonly #clock: Clock;
  #leadMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#leadMs = clock.bootMs() - clock.monotonicMs();
  }

  /**
   * Cheap reading that may lag by a suspension not noticed yet. Right for the time at which something
   * is sent (too early is pessimistic), wrong for deciding whether a lease still runs.
   */
  now(): number {
    return this.#clock.monotonicMs() + this.#leadMs;
  }

  /** Exact reading: looks at the boot clock, too. */
  fresh(): number {
    const monotonicMs = this.#clock.monotonicMs();
    this.#leadMs = Math.max(this.#leadMs, this.#clock.bootMs() - monotonicMs);
    return monotonicMs + this.#leadMs;
  }
}

const MARGIN_SHARE = 0.02;
const MARGIN_MS = 50;

/** How much of a lease of `leftMs` this client may count on: clocks drift, and acting takes time. */
export const usableMs = (leftMs: number): number => leftMs - leftMs * MARGIN_SHARE - MARGIN_MS;

const ENTRIES = 4096;
const SPACING_MS = 10;

/**
 * When frames were sent, by rising frame id. Frames within 10 ms share the time of the first of them,
 * so the memory is fixed and covers at least 40 s at any rate.
 */
export class SendTimes {
  readonly #ids = new Float64Array(ENTRIES);
  readonly #timesMs = new Float64Array(ENTRIES);
  /** entries ever written; the last ENTRIES of them are kept */
  #count = 0;
  #lastMs = Number.NEGATIVE_INFINITY;
  #lastId = 0;

  record(id: number, nowMs: number): void {
    assert(id > this.#lastId, "frame ids rise");
    this.#lastId = id;
    if (nowMs < this.#lastMs + SPACING_MS) return;
    this.#lastMs = nowMs;
    const slot = this.#count % ENTRIES;
    this.#ids[slot] = id;
    this.#timesMs[slot] = nowMs;
    this.#count += 1;
  }

  /** When the frame was sent or earlier, never later; -Infinity when that is not known any more. */
  at(id: number): number {
    let low = Math.max(0, this.#count - ENTRIES);
    let high = this.#count;
    // the answer is the last entry whose id is not above the one asked for
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ids[middle % ENTRIES] ?? 0) <= id) low = middle + 1;
      else high = middle;
    }
    if (low === Math.max(0, this.#count - ENTRIES)) return Number.NEGATIVE_INFINITY;
    return this.#timesMs[(low - 1) % ENTRIES] ?? Number.NEGATIVE_INFINITY;
  }
}

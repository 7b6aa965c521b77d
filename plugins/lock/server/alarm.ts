/**
 * One timer for a deadline that moves often and is mostly moved away before it comes: moving it to a
 * later time costs nothing, the timer that stands too early finds out when it fires. Knows no lock.
 */
import type { Timer, Timers } from "../../../src/clock/clock.ts";

export class Alarm {
  readonly #timers: Timers;
  readonly #nowMs: () => number;
  readonly #ring: () => void;
  /** null: nothing is awaited */
  #atMs: number | null = null;
  #armed: { atMs: number; timer: Timer } | null = null;

  /** `nowMs` counts whole milliseconds on the timeline of the deadlines. */
  constructor(options: { timers: Timers; nowMs: () => number; ring: () => void }) {
    this.#timers = options.timers;
    this.#nowMs = options.nowMs;
    this.#ring = options.ring;
  }

  /** Rings once at `atMs` or just after, unless it is set anew before. */
  set(atMs: number | null): void {
    this.#atMs = atMs;
    if (atMs === null || (this.#armed !== null && this.#armed.atMs <= atMs)) return;
    this.#armed?.timer.cancel();
    // one millisecond late rather than early, because the timeline counts whole ones
    const delayMs = Math.max(0, atMs - this.#nowMs()) + 1;
    this.#armed = { atMs, timer: this.#timers.after(delayMs, () => this.#fired()) };
  }

  cancel(): void {
    this.#atMs = null;
    this.#armed?.timer.cancel();
    this.#armed = null;
  }

  #fired(): void {
    this.#armed = null;
    const atMs = this.#atMs;
    if (atMs === null) return;
    if (atMs > this.#nowMs()) {
      this.set(atMs);
      return;
    }
    this.#atMs = null;
    this.#ring();
  }
}

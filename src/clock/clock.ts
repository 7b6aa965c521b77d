/**
 * Time as an interface, so that cores and drivers run the same under the real and a simulated clock.
 * Knows no timer queue of its own; the real implementation is real.ts.
 */

/** Three readings of time, all in milliseconds (fractions allowed). */
export interface Clock {
  /** Never goes back and never jumps; stands still while the machine is suspended. */
  monotonicMs(): number;
  /** Like monotonicMs, but runs on while the machine is suspended; starts near 0 at boot. */
  bootMs(): number;
  /** Wall-clock time since 1970. For people only: it decides nothing. */
  wallMs(): number;
}

export interface Timer {
  cancel(): void;
}

export interface Timers {
  /** Calls `fire` once, no earlier than `delayMs` from now. Delays over 2^31 ms are kept exact. */
  after(delayMs: number, fire: () => void): Timer;
  /** Calls `fire` about every `periodMs` until cancelled; never twice for a missed period. */
  every(periodMs: number, fire: () => void): Timer;
}

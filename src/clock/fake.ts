/**
 * A clock and timers that a test moves by hand: nothing happens until time is advanced, and then in
 * the order of due times. Imports no real clock.
 */
import { assert } from "../errors.ts";
import type { Clock, Timer, Timers } from "./clock.ts";

interface Entry {
  dueMs: number;
  /** null: once */
  periodMs: number | null;
  fire: () => void;
  cancelled: boolean;
}

export class FakeClock implements Clock, Timers {
  #monotonicMs: number;
  #bootMs: number;
  #wallMs: number;
  /** sorted by due time, equal ones in the order in which they were armed */
  readonly #entries: Entry[] = [];

  /** Milliseconds of the three readings at the start; the defaults differ so that a mix-up shows. */
  constructor(start: { monotonicMs?: number; bootMs?: number; wallMs?: number } = {}) {
    this.#monotonicMs = start.monotonicMs ?? 1_000;
    this.#bootMs = start.bootMs ?? 5_000_000;
    this.#wallMs = start.wallMs ?? Date.UTC(2024, 0, 1);
  }

  monotonicMs(): number {
    return this.#monotonicMs;
  }

  bootMs(): number {
    return this.#bootMs;
  }

  wallMs(): number {
    return this.#wallMs;
  }

  after(delayMs: number, fire: () => void): Timer {
    assert(delayMs >= 0 && Number.isFinite(delayMs), `a timer's delay is finite and not negative: ${delayMs}`);
    return this.#arm({ dueMs: this.#monotonicMs + delayMs, periodMs: null, fire, cancelled: false });
  }

  every(periodMs: number, fire: () => void): Timer {
    assert(periodMs > 0 && Number.isFinite(periodMs), `a timer's period is finite and positive: ${periodMs}`);
    return this.#arm({ dueMs: this.#monotonicMs + periodMs, periodMs, fire, cancelled: false });
  }

  /** Timers that are armed. */
  get pending(): number {
    return this.#entries.length;
  }

  /** Milliseconds until the next timer, null when there is none. */
  get nextInMs(): number | null {
    const next = this.#entries[0];
    return next === undefined ? null : Math.max(0, next.dueMs - this.#monotonicMs);
  }

  /** Lets `ms` pass; timers run at their due times, also those that are armed meanwhile. */
  advance(ms: number): void {
    const endMs = this.#endOf(ms);
    for (let entry = this.#takeDue(endMs); entry !== null; entry = this.#takeDue(endMs)) entry.fire();
    this.#moveTo(endMs);
  }

  /** Like advance, but pending promise callbacks run before the first and after every timer. */
  async advanceAsync(ms: number): Promise<void> {
    const endMs = this.#endOf(ms);
    await settle();
    for (let entry = this.#takeDue(endMs); entry !== null; entry = this.#takeDue(endMs)) {
      entry.fire();
      await settle();
    }
    this.#moveTo(endMs);
    await settle();
  }

  /** The process is stopped for `ms`: nothing runs meanwhile, then what became due runs late, once each. */
  pause(ms: number): void {
    this.#moveTo(this.#endOf(ms));
    this.advance(0);
  }

  /** The machine is suspended for `ms`: only the boot clock and the wall clock go on. */
  suspend(ms: number): void {
    assert(ms >= 0, "time does not go back");
    this.#bootMs += ms;
    this.#wallMs += ms;
  }

  /** Somebody sets the wall clock, forward or back. */
  jumpWall(byMs: number): void {
    this.#wallMs += byMs;
  }

  #endOf(ms: number): number {
    assert(ms >= 0 && Number.isFinite(ms), `time goes on by a finite amount: ${ms}`);
    return this.#monotonicMs + ms;
  }

  #arm(entry: Entry): Timer {
    this.#insert(entry);
    return {
      cancel: () => {
        entry.cancelled = true;
        const index = this.#entries.indexOf(entry);
        if (index >= 0) this.#entries.splice(index, 1);
      },
    };
  }

  #insert(entry: Entry): void {
    const index = this.#entries.findIndex((other) => other.dueMs > entry.dueMs);
    if (index < 0) this.#entries.push(entry);
    else this.#entries.splice(index, 0, entry);
  }

  /** Moves to the next timer that is due by `endMs` and takes it, re-armed if it is periodic. */
  #takeDue(endMs: number): Entry | null {
    const entry = this.#entries[0];
    if (entry === undefined || entry.dueMs > endMs) return null;
    this.#entries.shift();
    this.#moveTo(Math.max(this.#monotonicMs, entry.dueMs));
    if (entry.periodMs !== null) {
      const missed = Math.floor((this.#monotonicMs - entry.dueMs) / entry.periodMs);
      entry.dueMs += entry.periodMs * (missed + 1);
      this.#insert(entry);
    }
    return entry;
  }

  #moveTo(monotonicMs: number): void {
    const byMs = monotonicMs - this.#monotonicMs;
    this.#monotonicMs = monotonicMs;
    this.#bootMs += byMs;
    this.#wallMs += byMs;
  }
}

/** A turn of the event loop: every promise callback that is ready, and what it makes ready, has run. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * The real clock and timers of servers, and the identity of the running boot. Runs on Bun only (the
 * boot clock is read from the C library); knows nothing of leases or of who measures what.
 */
import { readFileSync } from "node:fs";
import { uptime } from "node:os";
import { assert } from "../errors.ts";
import type { Clock, Timer, Timers } from "./clock.ts";
import { openLibc } from "./libc.ts";

/** Number of Linux's clock that runs on while the machine is suspended (uapi/linux/time.h). */
const CLOCK_BOOTTIME = 7;

/** setTimeout takes longer delays for 1 ms (they overflow 32 bits), so they are cut into pieces. */
const PIECE_MS_MAX = 2 ** 30;

export function realClock(): Clock {
  return {
    monotonicMs: () => performance.now(),
    bootMs: bootReader(),
    wallMs: () => Date.now(),
  };
}

/** Reads the boot clock, exact to nanoseconds on Linux; elsewhere in whole seconds. */
function bootReader(): () => number {
  const fallback = () => uptime() * 1000;
  if (process.platform !== "linux") return fallback;
  try {
    const library = openLibc({ clock_gettime: { args: ["i32", "ptr"], returns: "i32" } });
    const time = new BigInt64Array(2);
    const read = () => {
      const failed = library.symbols.clock_gettime(CLOCK_BOOTTIME, time);
      assert(failed === 0, "clock_gettime(CLOCK_BOOTTIME) works whenever it worked once");
      return Number(time[0]) * 1000 + Number(time[1]) / 1e6;
    };
    read();
    return read;
  } catch {
    // no C library that can be called, or no such clock: whole seconds are what is left
    return fallback;
  }
}

/** Timers on the event loop, measured by the clock's monotonic reading. */
export function realTimers(clock: Pick<Clock, "monotonicMs">): Timers {
  return {
    after(delayMs, fire) {
      assert(delayMs >= 0 && Number.isFinite(delayMs), `a timer's delay is finite and not negative: ${delayMs}`);
      return arm(clock, clock.monotonicMs() + delayMs, () => {
        fire();
        return null;
      });
    },
    every(periodMs, fire) {
      assert(periodMs > 0 && Number.isFinite(periodMs), `a timer's period is finite and positive: ${periodMs}`);
      let dueMs = clock.monotonicMs() + periodMs;
      return arm(clock, dueMs, (nowMs, cancelled) => {
        dueMs += periodMs * Math.max(1, Math.ceil((nowMs - dueMs) / periodMs));
        try {
          fire();
          return cancelled() ? null : dueMs;
        } catch (error) {
          // one failed turn must not end the series; the error goes where uncaught ones go
          queueMicrotask(() => {
            throw error;
          });
          return dueMs;
        }
      });
    },
  };
}

/** Calls `turn` at or after `dueMs`, and again at the time it returns until it returns null. */
function arm(
  clock: Pick<Clock, "monotonicMs">,
  firstDueMs: number,
  turn: (nowMs: number, cancelled: () => boolean) => number | null,
): Timer {
  let cancelled = false;
  let handle: ReturnType<typeof setTimeout>;
  const wait = (dueMs: number): void => {
    const leftMs = Math.max(0, dueMs - clock.monotonicMs());
    handle = setTimeout(
      () => {
        const nowMs = clock.monotonicMs();
        // the event loop's own clock may be up to a millisecond ahead: never fire early
        const nextMs = nowMs < dueMs ? dueMs : turn(nowMs, () => cancelled);
        if (nextMs !== null && !cancelled) wait(nextMs);
      },
      Math.min(Math.ceil(leftMs), PIECE_MS_MAX),
    );
  };
  wait(firstDueMs);
  return {
    cancel: () => {
      cancelled = true;
      clearTimeout(handle);
    },
  };
}

/** Random id that the kernel draws at each boot; null where the system has none. */
export function bootId(): string | null {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch {
    return null;
  }
}

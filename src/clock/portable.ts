/**
 * Clock and timers of the client library: the same in Bun and in Node, without calls into the C
 * library. Knows no lease; what resolution its boot clock has is stated here.
 */
import { openSync, readSync } from "node:fs";
import { uptime } from "node:os";
import { assert } from "../errors.ts";
import type { Clock, Timers } from "./clock.ts";

/** setTimeout takes longer delays for 1 ms (they overflow 32 bits), so they are cut into pieces. */
const PIECE_MS_MAX = 2 ** 30;

/** A coarse boot clock has run on during a suspension when it is ahead by more than its resolution. */
const COARSE_SUSPENSION_MS_MIN = 1500;

/**
 * The clock of this process. The boot clock is exact to 10 ms on Linux; elsewhere it is seen through
 * os.uptime (whole seconds in Bun), and a suspension of less than 1.5 s is not noticed.
 */
export function portableClock(): Clock {
  const monotonicMs = () => performance.now();
  return {
    monotonicMs,
    bootMs: linuxBootReader() ?? coarseBootReader(monotonicMs, () => uptime() * 1000),
    wallMs: () => Date.now(),
  };
}

/** Reads /proc/uptime through one descriptor that stays open: about 1 µs, where os.uptime takes 5 in Node. */
function linuxBootReader(): (() => number) | null {
  if (process.platform !== "linux") return null;
  const bytes = Buffer.alloc(64);
  try {
    const descriptor = openSync("/proc/uptime", "r");
    const read = () => {
      const length = readSync(descriptor, bytes, 0, bytes.length, 0);
      const seconds = Number.parseFloat(bytes.toString("latin1", 0, length));
      assert(Number.isFinite(seconds), "/proc/uptime starts with a number");
      return seconds * 1000;
    };
    read();
    return read;
  } catch {
    // no /proc in this container: the coarse clock is what is left
    return null;
  }
}

/** Follows the monotonic clock and adds the jumps that only the coarse clock shows. */
export function coarseBootReader(monotonicMs: () => number, uptimeMs: () => number): () => number {
  let aheadMs = uptimeMs() - monotonicMs();
  return () => {
    const nowMs = monotonicMs();
    const measuredMs = uptimeMs() - nowMs;
    if (measuredMs > aheadMs + COARSE_SUSPENSION_MS_MIN) aheadMs = measuredMs;
    return nowMs + aheadMs;
  };
}

/** Timers on the event loop. Only `after`: the library arms one timer at a time. */
export function portableTimers(clock: Pick<Clock, "monotonicMs">): Pick<Timers, "after"> {
  return {
    after(delayMs, fire) {
      assert(delayMs >= 0 && Number.isFinite(delayMs), `a timer's delay is finite and not negative: ${delayMs}`);
      const dueMs = clock.monotonicMs() + delayMs;
      let handle: ReturnType<typeof setTimeout>;
      const wait = (): void => {
        const leftMs = dueMs - clock.monotonicMs();
        // the event loop's own clock may be up to a millisecond ahead: never fire early
        if (leftMs <= 0) fire();
        else handle = setTimeout(wait, Math.min(Math.ceil(leftMs), PIECE_MS_MAX));
      };
      handle = setTimeout(wait, Math.min(Math.ceil(delayMs), PIECE_MS_MAX));
      return { cancel: () => clearTimeout(handle) };
    },
  };
}

/**
 * The clock that runs on while the machine sleeps, and a timer on it that can be waited for with
 * poll: a machine that was suspended past the time sees it at once when it wakes.
 */
import { check, libc } from "./libc.ts";

const CLOCK_BOOTTIME = 7;
const TFD_CLOEXEC = 0o2000000;
const TFD_TIMER_ABSTIME = 1;

/** Milliseconds since the machine started, suspended time included. */
export function bootTimeMs(): number {
  const time = new BigInt64Array(2);
  check("clock_gettime", () => libc.clock_gettime(CLOCK_BOOTTIME, time));
  return Number(time[0]) * 1000 + Number(time[1]) / 1e6;
}

/** A descriptor that becomes readable at a boot time. */
export class BootTimer {
  readonly descriptor: number;

  constructor() {
    this.descriptor = check("timerfd_create", () => libc.timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC));
  }

  /** Fires at `timeMs` (at once when that is past), or never with null. Takes back an earlier firing. */
  set(timeMs: number | null): void {
    // struct itimerspec: interval (s, ns), value (s, ns); a value of zero disarms
    const value = new BigInt64Array(4);
    if (timeMs !== null) {
      const nanoseconds = BigInt(Math.max(1, Math.round(timeMs * 1e6)));
      value[2] = nanoseconds / 1_000_000_000n;
      value[3] = nanoseconds % 1_000_000_000n;
    }
    check("timerfd_settime", () => libc.timerfd_settime(this.descriptor, TFD_TIMER_ABSTIME, value, null));
  }
}

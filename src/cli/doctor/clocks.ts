/** Whether the clocks of this machine run evenly beside each other, and whether its time is synchronised. */
import type { Clock } from "../../clock/clock.ts";
import { openLibc } from "../../clock/libc.ts";
import type { Check } from "./check.ts";

/** Difference that a busy machine makes between two readings. */
const NOISE_MS = 20;
const WATCH_MS = 600;

/** struct timex of 64-bit Linux (adjtimex(2)): its size, and where `status` stands. */
const TIMEX_BYTES = 208;
const STATUS_AT = 40;
const STA_UNSYNC = 0x40;

/** Watches the clocks for a moment. */
export async function checkClocks(clock: Clock): Promise<readonly Check[]> {
  const read = () => ({ monotonicMs: clock.monotonicMs(), bootMs: clock.bootMs(), wallMs: clock.wallMs() });
  const first = read();
  await Bun.sleep(WATCH_MS);
  const last = read();
  const elapsedMs = last.monotonicMs - first.monotonicMs;
  return [rateCheck(elapsedMs, { bootMs: last.bootMs - first.bootMs, wallMs: last.wallMs - first.wallMs }), synchronisationCheck(readSynchronised())];
}

/** Judges how far the other clocks went while the monotonic one went `elapsedMs`. */
export function rateCheck(elapsedMs: number, { bootMs, wallMs }: { bootMs: number; wallMs: number }): Check {
  const bootAheadMs = bootMs - elapsedMs;
  const wallAheadMs = wallMs - elapsedMs;
  const details = { elapsedMs, bootAheadMs, wallAheadMs };
  if (Math.abs(bootAheadMs) > NOISE_MS) {
    return {
      check: "clock",
      state: "warning",
      summary: `the boot clock went ${signed(bootAheadMs)} ahead of the monotonic one in ${Math.round(elapsedMs)} ms: the machine was suspended, or its clocks run unevenly`,
      hint: "locks of a machine that is suspended are lost when their duration is over",
      details,
    };
  }
  if (Math.abs(wallAheadMs) > NOISE_MS) {
    return {
      check: "clock",
      state: "warning",
      summary: `the wall clock was set by ${signed(wallAheadMs)} during the check`,
      hint: "locks do not depend on it, but times in listings and logs do",
      details,
    };
  }
  return { check: "clock", state: "ok", summary: `monotonic, boot and wall clock went the same ${Math.round(elapsedMs)} ms`, details };
}

/** `synchronised` null: the kernel does not tell. */
export function synchronisationCheck(synchronised: boolean | null): Check {
  const details = { synchronised };
  if (synchronised === false) {
    return {
      check: "time",
      state: "warning",
      summary: "the kernel counts the wall clock as not synchronised",
      hint: "run a time service such as chrony: locks do not depend on it, but times in listings and logs do",
      details,
    };
  }
  return { check: "time", state: "ok", summary: synchronised === true ? "the wall clock is synchronised" : "whether the wall clock is synchronised cannot be seen here", details };
}

function readSynchronised(): boolean | null {
  if (process.platform !== "linux") return null;
  try {
    const library = openLibc({ adjtimex: { args: ["ptr"], returns: "i32" } });
    // all modes off: only reads, so that everybody may ask
    const timex = new Uint8Array(TIMEX_BYTES);
    if (library.symbols.adjtimex(timex) < 0) return null;
    return (new DataView(timex.buffer).getInt32(STATUS_AT, true) & STA_UNSYNC) === 0;
  } catch {
    // no C library that can be called, or one without that function
    return null;
  }
}

const signed = (ms: number): string => `${Math.round(ms)} ms`;

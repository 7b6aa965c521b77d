import { describe, expect, test } from "bun:test";
import { uptime } from "node:os";
import { coarseBootReader, portableClock, portableTimers } from "../../src/clock/portable.ts";

describe("portable clock", () => {
  test("has a boot clock that runs with the monotonic one, to 20 ms", async () => {
    const clock = portableClock();
    const before = clock.bootMs() - clock.monotonicMs();
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(Math.abs(clock.bootMs() - clock.monotonicMs() - before)).toBeLessThanOrEqual(20);
  });

  test("counts from boot as the system does", () => {
    const seconds = uptime();
    expect(Math.abs(portableClock().bootMs() / 1000 - seconds)).toBeLessThan(5);
  });
});

describe("boot time from whole seconds", () => {
  test("does not jump with the tick of the second", () => {
    let nowMs = 0;
    const read = coarseBootReader(() => nowMs, () => Math.floor((nowMs + 900) / 1000) * 1000);
    const first = read();
    nowMs = 150;
    expect(read() - first).toBe(150);
    nowMs = 99_999;
    expect(read() - first).toBe(99_999);
  });

  test("shows a suspension longer than its resolution", () => {
    let nowMs = 0;
    let suspendedMs = 0;
    const read = coarseBootReader(() => nowMs, () => Math.floor((nowMs + suspendedMs) / 1000) * 1000);
    const first = read();
    suspendedMs = 60_000;
    nowMs = 10;
    expect(read() - first).toBeGreaterThanOrEqual(60_000);
  });
});

describe("portable timers", () => {
  test("fire once, not early, and not when cancelled", async () => {
    const clock = portableClock();
    const timers = portableTimers(clock);
    const startMs = clock.monotonicMs();
    let cancelledFired = false;
    const cancelled = timers.after(1, () => {
      cancelledFired = true;
    });
    cancelled.cancel();
    for (let turn = 0; turn < 5; turn += 1) await new Promise<void>((resolve) => timers.after(3.5, resolve));
    expect(clock.monotonicMs() - startMs).toBeGreaterThanOrEqual(17.5);
    expect(cancelledFired).toBe(false);
  });

  test("take a delay beyond 2^31 ms without firing at once", async () => {
    let fired = false;
    const timer = portableTimers(portableClock()).after(2 ** 32, () => {
      fired = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 10));
    timer.cancel();
    expect(fired).toBe(false);
  });
});

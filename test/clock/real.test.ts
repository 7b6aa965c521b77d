import { afterEach, describe, expect, jest, test } from "bun:test";
import { readFileSync } from "node:fs";
import { bootId, realClock, realTimers } from "../../src/clock/real.ts";

const fired = (arm: (fire: () => void) => void) => new Promise<void>((resolve) => arm(resolve));

describe("realClock", () => {
  const clock = realClock();

  test("the boot clock is the kernel's, in milliseconds", () => {
    const beforeMs = Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1000;
    const readMs = clock.bootMs();
    const afterMs = Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1000;
    expect(readMs).toBeGreaterThanOrEqual(beforeMs - 10);
    expect(readMs).toBeLessThanOrEqual(afterMs + 20);
  });

  test("the boot clock resolves well under a millisecond and never goes back", () => {
    const readings = Array.from({ length: 1000 }, () => clock.bootMs());
    expect(readings).toEqual(readings.toSorted((a, b) => a - b));
    expect(new Set(readings).size).toBeGreaterThan(100);
  });

  test("the wall clock counts from 1970", () => {
    expect(Math.abs(clock.wallMs() - Date.now())).toBeLessThan(1000);
  });
});

test("bootId is the kernel's id of this boot", () => {
  expect(bootId()).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  expect(bootId()).toBe(bootId());
});

describe("realTimers", () => {
  const clock = realClock();
  const timers = realTimers(clock);
  afterEach(() => void jest.useRealTimers());

  test("never fires before the delay is over", async () => {
    for (let delayMs = 0; delayMs < 8; delayMs += 0.7) {
      const startMs = clock.monotonicMs();
      await fired((fire) => timers.after(delayMs, fire));
      expect(clock.monotonicMs() - startMs).toBeGreaterThanOrEqual(delayMs);
    }
  });

  test("a cancelled timer does not fire", async () => {
    let count = 0;
    const timer = timers.after(2, () => (count += 1));
    timer.cancel();
    await fired((fire) => timers.after(10, fire));
    expect(count).toBe(0);
  });

  test("a delay of 60 days fires after 60 days and not at once", () => {
    jest.useFakeTimers({ now: 0 });
    let nowMs = 0;
    let count = 0;
    const days60Ms = 60 * 86_400_000;
    realTimers({ monotonicMs: () => nowMs }).after(days60Ms, () => (count += 1));
    const stepMs = 86_400_000 / 2;
    for (; nowMs + stepMs < days60Ms; ) {
      nowMs += stepMs;
      jest.advanceTimersByTime(stepMs);
      expect(count).toBe(0);
    }
    nowMs += stepMs;
    jest.advanceTimersByTime(stepMs);
    expect(count).toBe(1);
  });

  test("repeats on its own beat and skips periods that were missed", async () => {
    const startMs = clock.monotonicMs();
    let turns = 0;
    const seen: number[] = [];
    await fired((fire) => {
      const timer = timers.every(20, () => {
        turns += 1;
        seen.push(clock.monotonicMs() - startMs);
        if (turns === 1) for (const untilMs = startMs + 90; clock.monotonicMs() < untilMs; );
        if (turns === 3) {
          timer.cancel();
          fire();
        }
      });
    });
    // busy until 90: the turns due at 40, 60 and 80 are one turn
    expect(seen[1]).toBeGreaterThanOrEqual(90);
    expect(seen[2]).toBeGreaterThanOrEqual(100);
    await fired((fire) => timers.after(45, fire));
    expect(turns).toBe(3);
  });

  test("refuses a delay that is no number", () => {
    expect(() => timers.after(Number.NaN, () => {})).toThrow("finite");
    expect(() => timers.after(Number.POSITIVE_INFINITY, () => {})).toThrow("finite");
    expect(() => timers.every(0, () => {})).toThrow("positive");
  });
});

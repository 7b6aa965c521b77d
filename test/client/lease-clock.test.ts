import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { LeaseClock, SendTimes, usableMs } from "../../src/client/lease-clock.ts";
import { FakeClock } from "../../src/clock/fake.ts";

describe("lease clock", () => {
  test("advances with the monotonic clock while the machine runs", () => {
    const clock = new FakeClock();
    const lease = new LeaseClock(clock);
    const before = lease.fresh();
    clock.advance(1234);
    expect(lease.fresh() - before).toBe(1234);
    expect(lease.now()).toBe(lease.fresh());
  });

  test("advances by a suspension, which the monotonic clock does not show", () => {
    const clock = new FakeClock();
    const lease = new LeaseClock(clock);
    const before = lease.fresh();
    clock.suspend(60_000);
    expect(lease.now() - before).toBe(0);
    expect(lease.fresh() - before).toBe(60_000);
    expect(lease.now() - before).toBe(60_000);
  });

  test("reads as the boot clock, so that another process can watch a deadline", () => {
    const clock = new FakeClock({ monotonicMs: 5, bootMs: 900_000 });
    expect(new LeaseClock(clock).fresh()).toBe(900_000);
  });

  test("is moved by neither jumps of the wall clock nor a boot clock that falls behind", () => {
    let monotonicMs = 0;
    let bootMs = 10_000;
    const lease = new LeaseClock({ monotonicMs: () => monotonicMs, bootMs: () => bootMs, wallMs: () => 0 });
    monotonicMs = 1000;
    bootMs = 10_400;
    expect(lease.fresh()).toBe(11_000);
  });

  test("never advances less than either clock does between two fresh readings", () => {
    const step = fc.record({ monotonic: fc.nat(5000), suspended: fc.nat(5000) });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 20 }), (steps) => {
        const clock = new FakeClock();
        const lease = new LeaseClock(clock);
        for (const { monotonic, suspended } of steps) {
          const before = { lease: lease.fresh(), monotonic: clock.monotonicMs(), boot: clock.bootMs() };
          clock.advance(monotonic);
          clock.suspend(suspended);
          const passedMs = lease.fresh() - before.lease;
          expect(passedMs).toBeGreaterThanOrEqual(clock.monotonicMs() - before.monotonic);
          expect(passedMs).toBeGreaterThanOrEqual(clock.bootMs() - before.boot);
        }
      }),
    );
  });
});

test("two per cent and 50 ms of a lease are not counted on", () => {
  expect(usableMs(10_000)).toBe(9_750);
  expect(usableMs(500)).toBe(440);
  expect(usableMs(40)).toBeLessThan(0);
});

describe("send times", () => {
  test("an id between two frames has the time of the earlier one", () => {
    const times = new SendTimes();
    times.record(10, 100);
    times.record(20, 200);
    expect(times.at(10)).toBe(100);
    expect(times.at(19)).toBe(100);
    expect(times.at(20)).toBe(200);
    expect(times.at(1000)).toBe(200);
  });

  test("an id before all that is known has been sent nobody knows when", () => {
    const times = new SendTimes();
    expect(times.at(5)).toBe(Number.NEGATIVE_INFINITY);
    times.record(10, 100);
    expect(times.at(9)).toBe(Number.NEGATIVE_INFINITY);
  });

  test("frames that are sent together share the earliest time", () => {
    const times = new SendTimes();
    times.record(1, 100);
    times.record(2, 109.9);
    times.record(3, 110);
    expect(times.at(2)).toBe(100);
    expect(times.at(3)).toBe(110);
  });

  test("is never later than the truth, and exact to 10 ms for the last 40 s", () => {
    const steps = fc.array(fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: 40 })), { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(steps, (list) => {
        const times = new SendTimes();
        const truth: [number, number][] = [];
        let id = 0;
        let ms = 0;
        for (const [ids, passed] of list) {
          id += ids;
          ms += passed;
          times.record(id, ms);
          truth.push([id, ms]);
        }
        for (const [known, sentMs] of truth) {
          expect(times.at(known)).toBeLessThanOrEqual(sentMs);
          expect(times.at(known)).toBeGreaterThan(sentMs - 10);
        }
      }),
    );
  });

  test("what is older than the memory is unknown instead of wrong", () => {
    const times = new SendTimes();
    for (let id = 1; id <= 5000; id += 1) times.record(id, id * 10);
    expect(times.at(5000)).toBe(50_000);
    expect(times.at(1000)).toBe(10_000);
    expect(times.at(5000 - 4096)).toBe(Number.NEGATIVE_INFINITY);
    expect(times.at(5000 - 4095)).toBe(9050);
  });
});

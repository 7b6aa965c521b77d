import { describe, expect, test } from "bun:test";
import { FakeClock } from "../../src/clock/fake.ts";

describe("FakeClock", () => {
  test("runs due timers in the order of their due times and shows that time to them", () => {
    const clock = new FakeClock({ monotonicMs: 0 });
    const seen: [string, number][] = [];
    const note = (name: string) => () => seen.push([name, clock.monotonicMs()]);
    clock.after(30, note("c"));
    clock.after(10, note("a"));
    clock.after(10, note("b"));
    clock.after(31, note("late"));
    clock.advance(30);
    expect(seen).toEqual([["a", 10], ["b", 10], ["c", 30]]);
    expect(clock.pending).toBe(1);
    expect(clock.nextInMs).toBe(1);
  });

  test("runs what a timer arms when it is due within the same advance", () => {
    const clock = new FakeClock({ monotonicMs: 0 });
    const seen: number[] = [];
    clock.after(10, () => clock.after(5, () => seen.push(clock.monotonicMs())));
    clock.advance(15);
    expect(seen).toEqual([15]);
  });

  test("repeats a periodic timer until it is cancelled, also from within", () => {
    const clock = new FakeClock({ monotonicMs: 0 });
    const seen: number[] = [];
    const timer = clock.every(10, () => {
      seen.push(clock.monotonicMs());
      if (seen.length === 3) timer.cancel();
    });
    clock.advance(100);
    expect(seen).toEqual([10, 20, 30]);
    expect(clock.nextInMs).toBeNull();
  });

  test("after a pause what became due runs late and once", () => {
    const clock = new FakeClock({ monotonicMs: 0 });
    const seen: [string, number][] = [];
    clock.every(10, () => seen.push(["every", clock.monotonicMs()]));
    clock.after(35, () => seen.push(["after", clock.monotonicMs()]));
    clock.pause(55);
    expect(seen).toEqual([["every", 55], ["after", 55]]);
    clock.advance(5);
    expect(seen.at(-1)).toEqual(["every", 60]);
  });

  test("a suspended machine and a set wall clock move only their own readings", () => {
    const clock = new FakeClock({ monotonicMs: 1, bootMs: 2, wallMs: 3 });
    clock.suspend(1000);
    clock.jumpWall(-500);
    expect([clock.monotonicMs(), clock.bootMs(), clock.wallMs()]).toEqual([1, 1002, 503]);
    clock.advance(10);
    expect([clock.monotonicMs(), clock.bootMs(), clock.wallMs()]).toEqual([11, 1012, 513]);
  });

  test("advanceAsync lets promise callbacks arm the next timer", async () => {
    const clock = new FakeClock({ monotonicMs: 0 });
    const sleep = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));
    const seen: number[] = [];
    const loop = (async () => {
      for (let turn = 0; turn < 3; turn += 1) {
        await sleep(10);
        seen.push(clock.monotonicMs());
      }
    })();
    await clock.advanceAsync(30);
    await loop;
    expect(seen).toEqual([10, 20, 30]);
  });

  test("refuses a time that goes back and a delay that is no number", () => {
    const clock = new FakeClock();
    expect(() => clock.advance(-1)).toThrow("finite");
    expect(() => clock.after(Number.NaN, () => {})).toThrow("finite");
    expect(() => clock.every(0, () => {})).toThrow("positive");
  });
});

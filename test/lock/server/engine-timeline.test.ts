import { describe, expect, test } from "bun:test";
import { Encoder } from "cbor-x/encode";
import { Alarm } from "../../../plugins/lock/server/alarm.ts";
import { EngineTimeline } from "../../../plugins/lock/server/engine-timeline.ts";
import { FakeClock } from "../../../src/clock/fake.ts";

const encode = (value: unknown): Uint8Array => new Encoder({ useRecords: false }).encode(value);
const recordOf = (timeline: EngineTimeline): Uint8Array => timeline.record().value ?? new Uint8Array(0);

describe("the timeline", () => {
  test("of a new store counts whole milliseconds since the machine's boot, suspended or not", () => {
    const clock = new FakeClock({ bootMs: 100.7, monotonicMs: 5 });
    const timeline = EngineTimeline.fresh("b", clock);
    expect(timeline.nowMs()).toBe(100);
    clock.advance(10.5);
    expect(timeline.nowMs()).toBe(111);
    clock.suspend(1_000);
    expect(timeline.nowMs()).toBe(1_111);
    clock.jumpWall(-1e9);
    expect(timeline.nowMs()).toBe(1_111);
  });

  test("over a restart within one boot goes on as if nothing had happened", () => {
    const clock = new FakeClock();
    const first = EngineTimeline.fresh("b", clock);
    const stored = recordOf(first);
    const beforeMs = first.nowMs();
    clock.advance(60_000);
    const { timeline, rebooted } = EngineTimeline.resume(stored, "b", clock);
    expect(rebooted).toBe(false);
    expect(timeline.nowMs()).toBe(beforeMs + 60_000);
  });

  test("over a reboot goes on right behind the last durable moment", () => {
    const clock = new FakeClock({ bootMs: 9_000_000 });
    const first = EngineTimeline.fresh("b", clock);
    const lastMs = first.nowMs();
    const { timeline, rebooted } = EngineTimeline.resume(recordOf(first), "b2", new FakeClock({ bootMs: 12 }));
    expect(rebooted).toBe(true);
    expect(timeline.nowMs()).toBe(lastMs + 1);
  });

  test("over many reboots and restarts never goes back, nor stands still", () => {
    let stored = recordOf(EngineTimeline.fresh("b0", new FakeClock({ bootMs: 50_000 })));
    let lastMs = 0;
    for (let boot = 1; boot <= 20; boot++) {
      const clock = new FakeClock({ bootMs: boot * 7 });
      for (let start = 0; start < 3; start++) {
        const { timeline, rebooted } = EngineTimeline.resume(stored, `b${boot}`, clock);
        expect(rebooted).toBe(start === 0);
        for (let step = 0; step < 3; step++) {
          const nowMs = timeline.nowMs();
          expect(nowMs).toBeGreaterThanOrEqual(lastMs);
          clock.advance(100);
          expect(timeline.nowMs()).toBe(nowMs + 100);
          lastMs = nowMs + 100;
        }
        stored = recordOf(timeline);
      }
    }
  });

  test("with a boot clock that lags behind does not go back, and runs on from there", () => {
    const clock = new FakeClock({ bootMs: 100_000 });
    const first = EngineTimeline.fresh("b", clock);
    const lastMs = first.nowMs();
    const lagging = new FakeClock({ bootMs: 40_000 });
    const { timeline, rebooted } = EngineTimeline.resume(recordOf(first), "b", lagging);
    expect(rebooted).toBe(false);
    expect(timeline.nowMs()).toBe(lastMs);
    lagging.advance(10);
    expect(timeline.nowMs()).toBe(lastMs + 10);
  });

  test("gives back the record that it came from, so that writing it again changes nothing", () => {
    const clock = new FakeClock();
    const stored = recordOf(EngineTimeline.fresh("b", clock));
    const { timeline } = EngineTimeline.resume(stored, "b2", clock);
    timeline.nowMs();
    expect(timeline.storedRecord()).toEqual({ key: "timeline", value: stored });
    expect(recordOf(timeline)).not.toEqual(stored);
  });

  test("that cannot be read is corrupt, with what to do about it", () => {
    const bad = [
      new Uint8Array(0), new Uint8Array([0xff]), encode(null), encode([]), encode({}), encode(["b", 0]), encode([7, 0, 0]), encode(["b", "0", 0]),
      encode(["b", 0.5, 0]), encode(["b", 0, Number.NaN]), encode(["b", 0, 2 ** 60]), encode(["b", 0, -1]), encode(["b", 0, null]),
      recordOf(EngineTimeline.fresh("boot", new FakeClock())).slice(0, -1),
    ];
    for (const record of bad) {
      expect(() => EngineTimeline.resume(record, "b", new FakeClock())).toThrow(expect.objectContaining({ code: "corrupt", hint: expect.stringContaining("backup") }));
    }
  });
});

describe("the alarm", () => {
  const world = () => {
    const clock = new FakeClock();
    const rung: number[] = [];
    const alarm = new Alarm({ timers: clock, nowMs: () => Math.floor(clock.bootMs()), ring: () => void rung.push(clock.bootMs() - 5_000_000) });
    return { clock, rung, set: (inMs: number | null) => alarm.set(inMs === null ? null : Math.floor(clock.bootMs()) + inMs), alarm };
  };

  test("rings once, not before its time", () => {
    const { clock, rung, set } = world();
    set(100);
    clock.advance(99);
    expect(rung).toEqual([]);
    clock.advance(1_000);
    expect(rung).toEqual([101]);
    expect(clock.pending).toBe(0);
  });

  test("set earlier rings earlier, set later rings later, with one timer at most", () => {
    const { clock, rung, set } = world();
    set(100);
    set(50);
    expect(clock.pending).toBe(1);
    set(300);
    expect(clock.pending).toBe(1);
    clock.advance(1_000);
    expect(rung).toEqual([301]);
  });

  test("set to nothing or cancelled does not ring, and leaves no timer for long", () => {
    const { clock, rung, set, alarm } = world();
    set(100);
    set(null);
    clock.advance(200);
    set(100);
    alarm.cancel();
    expect(clock.pending).toBe(0);
    clock.advance(200);
    expect(rung).toEqual([]);
  });

  test("on a timeline that lags behind its timers waits on", () => {
    const clock = new FakeClock();
    let nowMs = 0;
    let rung = 0;
    const alarm = new Alarm({ timers: clock, nowMs: () => nowMs, ring: () => void rung++ });
    alarm.set(100);
    clock.advance(150);
    expect(rung).toBe(0);
    nowMs = 100;
    clock.advance(150);
    expect(rung).toBe(1);
  });
});

import { describe, expect, test } from "bun:test";
import { LockTable } from "../../../plugins/lock/core/table.ts";
import { FakeClock } from "../../../src/clock/fake.ts";
import { LIMITS } from "../core/kit.ts";
import { engineWorld, FakeNamespace, startedEngine, turn } from "./kit.ts";

describe("what is told", () => {
  test("waits for its batch to be durable, answers, effects and events alike", async () => {
    const world = await startedEngine(["a", "b"]);
    const { namespace, listener } = world;
    world.lock("a");
    world.lock("b");
    await turn();
    expect(listener.take()).toEqual([]);
    await namespace.one.land();
    expect(listener.take()).toEqual(["events granted waiting", "lock a: locked", "lock b: waiting"]);

    world.submit("unlock a", { kind: "unlock", handle: "handle 1 of a" });
    await turn();
    expect(listener.take()).toEqual([]);
    await namespace.one.land();
    expect(listener.take()).toEqual(["events released granted", "unlock a: unlocked", "locked b"]);
  });

  test("comes in the order of the commands, however they fall into batches", async () => {
    const sessions = ["a", "b", "c", "d", "e"];
    const world = await startedEngine(sessions);
    const { namespace, listener } = world;
    for (const session of sessions) {
      world.lock(session, { objects: [session] });
      if (session === "b") await turn();
    }
    await turn();
    expect(namespace.underWay).toHaveLength(1);
    await namespace.landAll();
    expect(listener.take().filter((text) => text.startsWith("lock"))).toEqual(sessions.map((session) => `lock ${session}: locked`));
  });

  test("is one batch at a time, and what comes meanwhile shares the next", async () => {
    const world = await startedEngine(["a", "b", "c"]);
    const { namespace, listener } = world;
    const before = namespace.batches.length;
    world.lock("a", { objects: ["a"] });
    await turn();
    world.lock("b", { objects: ["b"] });
    await turn();
    world.lock("c", { objects: ["c"] });
    await turn();
    expect(namespace.batches).toHaveLength(before + 1);
    await namespace.one.land();
    expect(listener.take()).toEqual(["events granted", "lock a: locked"]);
    expect(namespace.batches).toHaveLength(before + 2);
    await namespace.one.land();
    expect(listener.take()).toEqual(["events granted granted", "lock b: locked", "lock c: locked"]);
    expect(namespace.batches).toHaveLength(before + 2);
  });

  test("is told while the disk works on the next batch already", async () => {
    const world = await startedEngine(["a", "b"]);
    const { namespace, listener } = world;
    const seen: number[] = [];
    listener.events = () => void seen.push(namespace.underWay.length);
    world.lock("a", { objects: ["a"] });
    await turn();
    world.lock("b", { objects: ["b"] });
    await namespace.one.land();
    expect(seen).toEqual([1]);
    await namespace.landAll();
  });

  test("to one who cannot take it does not cost the others theirs", async () => {
    const world = await startedEngine(["a", "b", "c"]);
    const { listener, namespace, logger } = world;
    listener.throwAt = "lock a: locked";
    for (const session of ["a", "b", "c"]) world.lock(session, { objects: [session] });
    await turn();
    await namespace.one.land();
    expect(listener.take()).toEqual(["events granted granted granted", "lock a: locked", "lock b: locked", "lock c: locked"]);
    expect(logger.lines.filter((line) => line.msg === "delivery-failed")).toHaveLength(1);
    world.lock("a", { objects: ["again"] });
    await turn();
    await namespace.one.land();
    expect(listener.take()).toContain("lock a: locked");
  });

  test("to this process comes at once, durable or not", async () => {
    const world = await startedEngine();
    const asked = world.open("a");
    expect(asked.applied).toMatchObject({ kind: "opened", resumed: false });
    expect(asked.answer).toBeNull();
    await turn();
    await world.namespace.landAll();
    expect(asked.answer).toEqual(asked.applied);
  });

  test("a change that nobody waits for becomes durable all the same", async () => {
    const { engine, namespace, clock, ...world } = await startedEngine(["a", "b"]);
    world.submit("disconnect", { kind: "disconnect", session: "b", generation: 1 });
    world.lock("a");
    await turn();
    // the session is forgotten while a commit is under way: no effect, no event, no answer
    clock.advance(60_002);
    await turn();
    await namespace.one.land();
    await turn();
    await namespace.landAll();
    expect([...namespace.stored.keys()].filter((key) => key.startsWith("s/"))).toHaveLength(1);
    await engine.stop();
  });
});

describe("a query", () => {
  test("at rest is answered at once", async () => {
    const { engine } = await startedEngine(["a"]);
    let sessions = 0;
    engine.read((table) => table.statistics().sessions, (result) => void (sessions = result));
    expect(sessions).toBe(1);
  });

  test("waits for the state that it saw, and sees what was submitted before it", async () => {
    const world = await startedEngine(["a"]);
    const { engine, namespace } = world;
    const seen: number[] = [];
    const ask = (): void => engine.read((table) => table.statistics().held, (held) => void seen.push(held));
    world.lock("a");
    ask();
    await turn();
    ask();
    expect(seen).toEqual([]);
    // the state that both saw is durable with the batch under way: no other write is needed
    const batches = namespace.batches.length;
    await namespace.one.land();
    expect(seen).toEqual([1, 1]);
    expect(namespace.batches).toHaveLength(batches);
  });

  test("in a flood is evaluated in parts, so that results do not pile up while the disk hangs", async () => {
    const world = await startedEngine(["a"]);
    const { engine, namespace } = world;
    world.lock("a");
    await turn();
    let evaluated = 0;
    let answered = 0;
    for (let count = 0; count < 100; count++) engine.read(() => void evaluated++, () => void answered++);
    await turn();
    expect(evaluated).toBe(0);
    await namespace.one.land();
    for (let turns = 0; turns < 10; turns++) await turn();
    expect([evaluated, answered]).toEqual([100, 100]);
  });
});

describe("a slow disk", () => {
  test("makes senders wait, and is over when it has caught up", async () => {
    const world = await startedEngine(["a"]);
    const { engine, namespace } = world;
    expect(engine.room()).toBeUndefined();
    world.lock("a");
    await turn();
    while (engine.room() === undefined) world.submit("", { kind: "renewHandle", handle: "none", durationMs: null });
    let room = false;
    void engine.room()?.then(() => (room = true));
    await turn();
    expect(room).toBe(false);
    await namespace.one.land();
    expect(room).toBe(true);
    expect(engine.room()).toBeUndefined();
    await namespace.landAll();
  });

  test("in the end refuses requests with a retryable overflow, and recovers", async () => {
    const world = await startedEngine(["a"]);
    const { engine, namespace } = world;
    world.lock("a");
    await turn();
    const flood = (): void => {
      for (;;) {
        void engine.room();
        engine.submit({ kind: "renewHandle", handle: "none", durationMs: null }, null, () => undefined);
      }
    };
    expect(flood).toThrow(expect.objectContaining({ code: "overflow", retryable: true }));
    await namespace.landAll();
    expect(engine.room()).toBeUndefined();
  });
});

describe("timers", () => {
  test("none is armed while nothing is held or awaited", async () => {
    const world = await startedEngine();
    expect(world.clock.pending).toBe(0);
    await world.engine.stop();
  });

  test("the end of a lease comes by itself, not before its time", async () => {
    const world = await startedEngine(["a", "b"]);
    const { clock, namespace, listener } = world;
    world.lock("a", { durationMs: 10_000, unlockDurationMs: 5_000 });
    world.lock("b");
    await turn();
    await namespace.landAll();
    listener.take();
    clock.advance(9_999);
    await turn();
    await namespace.landAll();
    expect(listener.take()).toEqual([]);
    clock.advance(2);
    await turn();
    await namespace.landAll();
    expect(listener.take()).toEqual(["events expiring", "unlocking a"]);
    clock.advance(5_001);
    await turn();
    await namespace.landAll();
    expect(listener.take()).toEqual(["events expired granted", "unlocked a", "locked b"]);
  });

  test("a cycle of lock and unlock arms nothing anew, and the timer that is left over ends itself", async () => {
    const world = await startedEngine(["a"]);
    const { clock, namespace, engine } = world;
    namespace.immediate = true;
    let armed = 0;
    const after = clock.after.bind(clock);
    clock.after = (delayMs, fire) => {
      armed++;
      return after(delayMs, fire);
    };
    for (let cycle = 1; cycle <= 50; cycle++) {
      world.lock("a");
      world.submit("", { kind: "unlock", handle: `handle ${cycle} of a` });
      clock.advance(1);
      await turn();
    }
    expect(armed).toBeLessThanOrEqual(1);
    world.submit("", { kind: "close", session: "a" });
    await turn();
    clock.advance(100_000);
    await turn();
    expect(clock.pending).toBe(0);
    await engine.stop();
  });

  test("work that is due already gives way to other commands", async () => {
    const waiters = Array.from({ length: 40 }, (_, index) => `w${index}`);
    const world = await startedEngine(["a", ...waiters], { limits: { workPerStepMax: 4 } });
    const { namespace, listener } = world;
    world.lock("a");
    for (const waiter of waiters) world.lock(waiter, { mode: "shared" });
    await turn();
    await namespace.landAll();
    listener.take();
    namespace.immediate = true;
    world.submit("unlock", { kind: "unlock", handle: "handle 1 of a" });
    world.lock("a", { objects: ["other"] });
    for (let turns = 0; turns < 40; turns++) await turn();
    const told = listener.take().filter((text) => text.startsWith("lock"));
    expect(told.filter((text) => text.startsWith("locked w"))).toHaveLength(40);
    expect(told.indexOf("lock a: locked")).toBeLessThan(told.indexOf("locked w20"));
  });
});

describe("a stop", () => {
  test("waits for the batch under way and for what came behind it, and tells both", async () => {
    const world = await startedEngine(["a", "b"]);
    const { engine, namespace, listener } = world;
    world.lock("a", { objects: ["a"] });
    await turn();
    world.lock("b", { objects: ["b"] });
    let stopped = false;
    const stop = engine.stop().then(() => (stopped = true));
    await turn();
    expect(stopped).toBe(false);
    await namespace.one.land();
    expect(stopped).toBe(false);
    await namespace.one.land();
    await stop;
    expect(listener.take().filter((text) => text.startsWith("lock"))).toEqual(["lock a: locked", "lock b: locked"]);
    expect(engine.status()).toMatchObject({ ready: false });
  });

  test("refuses what comes after it began and writes nothing more, also when a deadline passes", async () => {
    const world = await startedEngine(["a", "b"]);
    const { engine, namespace, clock } = world;
    world.lock("a");
    await turn();
    const stop = engine.stop();
    const late = world.lock("b");
    expect(late.answer).toMatchObject({ kind: "refused", code: "unavailable" });
    expect(late.applied).toEqual(late.answer);
    await namespace.one.land();
    await stop;
    const batches = namespace.batches.length;
    clock.advance(100_000);
    await turn();
    expect(namespace.batches).toHaveLength(batches);
    expect(clock.pending).toBe(0);
  });

  test("while the last batch fails ends, and what was not durable was not told", async () => {
    for (const code of ["overflow", "failed"] as const) {
      const world = await startedEngine(["a"]);
      const { engine, namespace, clock, listener } = world;
      const asked = world.lock("a");
      await turn();
      const stop = engine.stop();
      await turn();
      await namespace.one.fail(code);
      await stop;
      expect(asked.answer?.kind).not.toBe("locked");
      expect(listener.take().filter((text) => text.includes("locked") || text.includes("granted"))).toEqual([]);
      expect(clock.pending).toBe(0);
    }
  });
});

describe("a start", () => {
  test("within one boot goes on with leases and tokens as they were", async () => {
    const clock = new FakeClock();
    const first = await startedEngine(["a"], { clock });
    first.namespace.immediate = true;
    const asked = first.lock("a", { durationMs: 10_000 });
    await turn();
    expect(asked.answer).toMatchObject({ kind: "locked", grant: { token: 1 } });
    clock.advance(4_000);
    const second = await startedEngine([], { clock, namespace: first.namespace.copy() });
    expect(second.engine.peek((table, at) => table.list({ prefix: "", after: null, limit: 9 }).tickets.map((t) => (t.expiresMs ?? 0) - at.nowMs))).toEqual([6_000]);
    second.open("b");
    second.lock("b");
    clock.advance(6_001);
    clock.advance(5_001);
    await turn();
    expect(second.listener.effects).toMatchObject([{ kind: "unlocking" }, { kind: "unlocked" }, { kind: "locked", grant: { token: 2 } }]);
  });

  test("after a reboot gives every lease its whole duration again, but only once for one boot", async () => {
    const first = await startedEngine(["a"]);
    first.namespace.immediate = true;
    first.lock("a", { durationMs: 10_000 });
    first.clock.advance(9_000);
    await turn();
    const leftMs = ({ engine }: typeof first): number[] =>
      engine.peek((table, at) => table.list({ prefix: "", after: null, limit: 9 }).tickets.map((t) => (t.expiresMs ?? 0) - at.nowMs));
    const clock = new FakeClock({ bootMs: 20_000 });
    const second = await startedEngine([], { namespace: first.namespace.copy(), clock, bootId: "boot 2" });
    expect(leftMs(second)).toEqual([10_000]);
    clock.advance(3_000);
    const third = await startedEngine([], { namespace: second.namespace.copy(), clock, bootId: "boot 2" });
    expect(leftMs(third)).toEqual([7_000]);
  });

  test("after a reboot notes the new boot even when no lock is held", async () => {
    const first = await startedEngine(["a"]);
    first.namespace.immediate = true;
    first.submit("close", { kind: "close", session: "a" });
    await turn();
    const second = await startedEngine([], { namespace: first.namespace.copy(), clock: new FakeClock({ bootMs: 10 }), bootId: "boot 2" });
    const written = second.namespace.stored.get("timeline");
    expect(Buffer.from(written ?? []).toString("latin1")).toContain("boot 2");
  });

  test("on tickets without a record of the time is refused as corrupt", async () => {
    const first = await startedEngine(["a"]);
    const namespace = first.namespace.copy();
    namespace.stored.delete("timeline");
    const world = engineWorld({ namespace });
    expect(await world.engine.start(world.listener).then(() => null, (error: unknown) => error)).toMatchObject({ code: "corrupt", exitCode: 65 });
  });

  test("leaves nobody connected: waiting tickets are kept, and granted when their session comes back", async () => {
    const first = await startedEngine(["a", "b"]);
    first.namespace.immediate = true;
    first.lock("a");
    first.lock("b");
    await turn();
    const second = await startedEngine([], { namespace: first.namespace.copy() });
    second.namespace.immediate = true;
    second.submit("unlock", { kind: "unlock", handle: "handle 1 of a" });
    await turn();
    expect(second.listener.take().filter((text) => text.startsWith("locked"))).toEqual([]);
    second.open("b", 2);
    await turn();
    expect(second.listener.take()).toContain("locked b");
  });
});

describe("the stream of events", () => {
  test("goes on without a gap and stays bounded", async () => {
    const world = await startedEngine(["a"], { historyMax: 40, namespace: new FakeNamespace({ immediate: true }) });
    const { namespace } = world;
    for (let cycle = 1; cycle <= 200; cycle++) {
      world.lock("a");
      world.submit("", { kind: "unlock", handle: `handle ${cycle} of a` });
      await turn();
      const kept = namespace.chunks.reduce((sum, chunk) => sum + chunk.lastId - chunk.firstId + 1, 0);
      expect(kept).toBeLessThanOrEqual(40 + 10 + 2);
    }
    expect(namespace.chunks.at(-1)?.lastId).toBe(400);
    expect(namespace.chunks[0]?.firstId).toBeLessThanOrEqual(361);
    expect(namespace.batches.filter((batch) => (batch.trims ?? []).length > 0).length).toBeLessThan(50);
  });

  test("is cut on, after a restart, from where it begins", async () => {
    const first = await startedEngine(["a"], { historyMax: 1000, namespace: new FakeNamespace({ immediate: true }) });
    for (let cycle = 1; cycle <= 50; cycle++) {
      first.lock("a");
      first.submit("", { kind: "unlock", handle: `handle ${cycle} of a` });
      await turn();
    }
    const second = await startedEngine(["b"], { historyMax: 10, namespace: first.namespace.copy() });
    second.lock("b");
    await turn();
    expect(second.namespace.chunks.length).toBeLessThan(10);
    expect(second.namespace.chunks.at(-1)?.lastId).toBe(101);
  });
});

test("a broken invariant in the table ends the node's promises: nothing of that step is told or stored", async () => {
  const world = await startedEngine(["a", "b"]);
  const { namespace, failures, listener } = world;
  const held = world.lock("a", { objects: ["z", "a"] });
  expect(failures).toHaveLength(1);
  expect(failures[0]).toMatchObject({ code: "failed", hint: expect.stringContaining("defect") });
  expect(held).toEqual({ answer: null, applied: null });
  const batches = namespace.batches.length;
  expect(world.lock("b").answer).toMatchObject({ kind: "refused", code: "unavailable" });
  await turn();
  expect(namespace.batches).toHaveLength(batches);
  expect(listener.take()).toEqual(["lock b: refused"]);
});

test("the state in the store is the state of the table after every batch, in a long random run", async () => {
  let seed = 7;
  const random = (below: number): number => {
    seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
  const sessions = ["a", "b", "c"];
  const world = await startedEngine(sessions);
  const { namespace, engine, clock } = world;
  for (let step = 0; step < 400; step++) {
    const session = sessions[random(3)] ?? "a";
    if (random(3) > 0) world.lock(session, { objects: [`x${random(3)}`], durationMs: 500 + random(5_000), unlockDurationMs: 500 });
    else world.submit("", { kind: "cancel", session, request: session, message: step });
    if (random(4) === 0) clock.advance(random(2_000));
    if (random(3) === 0) await turn();
    if (random(3) === 0 && namespace.underWay.length > 0) await namespace.one.land();
    if (random(40) !== 0) continue;
    await turn();
    await namespace.landAll();
    const records = [...namespace.stored].filter(([key]) => key !== "timeline");
    expect(LockTable.restore(records, LIMITS).stateHash()).toBe(engine.peek((table) => table.stateHash()));
  }
});

import { describe, expect, test } from "bun:test";
import { specOf } from "../core/kit.ts";
import { engineWorld, FakeNamespace, startedEngine, turn } from "./kit.ts";

const FULL = "reset: the disk of the lock server is full: nothing can be acknowledged until there is room again";

/** An engine whose disk became full while a holds x, and b and c had asked for more. */
async function fullEngine() {
  const world = await startedEngine(["a", "b", "c"]);
  world.lock("a");
  await turn();
  await world.namespace.one.land();
  world.listener.take();
  const undone = [world.lock("b", { objects: ["y"] })];
  await turn();
  undone.push(world.lock("c", { objects: ["z"] }));
  await world.namespace.one.fail("overflow");
  return { ...world, undone };
}

describe("when the disk is full", () => {
  test("sessions are reset, and then each command of the failed batch and behind it is told that it was not done", async () => {
    const { listener, undone, engine, failures } = await fullEngine();
    expect(listener.take()).toEqual([FULL, "lock b: refused", "lock c: refused"]);
    for (const { answer } of undone) expect(answer).toMatchObject({ code: "unavailable" });
    expect(engine.status()).toMatchObject({ ready: false, reason: expect.stringContaining("full") });
    expect(failures).toEqual([]);
  });

  test("queries see the last durable state, also those that were waiting for the failed batch", async () => {
    const world = await startedEngine(["a", "b"]);
    const { engine, namespace } = world;
    const held: number[] = [];
    const ask = (): void => engine.read((table) => table.statistics().held, (count) => void held.push(count));
    world.lock("a");
    ask();
    await turn();
    ask();
    await namespace.one.fail("overflow");
    ask();
    expect(held).toEqual([0, 0, 0]);
    expect(engine.peek((table) => table.statistics().held)).toBe(0);
  });

  test("nothing is written but a probe each second, of what is stored already", async () => {
    const { namespace, clock } = await fullEngine();
    const stored = new Map(namespace.stored);
    const batches = namespace.batches.length;
    for (let probe = 1; probe <= 3; probe++) {
      clock.advance(1_000);
      expect(namespace.batches).toHaveLength(batches + probe);
      await namespace.one.fail("overflow");
    }
    expect(namespace.batches.slice(batches)).toEqual(Array.from({ length: 3 }, () => ({ changes: [{ key: "timeline", value: stored.get("timeline") ?? null }] })));
  });

  test("a command is kept until its deadline, which a hanging probe does not delay", async () => {
    const { clock, namespace, submit } = await fullEngine();
    const handle = "none";
    const short = submit("short", { kind: "renewHandle", handle, durationMs: null }, 1_500);
    const long = submit("long", { kind: "renewHandle", handle, durationMs: null }, 20_000);
    const now = submit("now", { kind: "renewHandle", handle, durationMs: null }, 0);
    expect(now.answer).toMatchObject({ code: "unavailable" });
    clock.advance(1_499);
    expect(namespace.underWay).toHaveLength(1);
    expect(short.answer).toBeNull();
    clock.advance(1);
    expect(short.answer).toMatchObject({ kind: "refused", code: "unavailable" });
    expect(short.applied).toEqual(short.answer);
    expect(long.answer).toBeNull();
  });

  test("only so many commands are kept", async () => {
    const { submit } = await fullEngine();
    const asked = Array.from({ length: 10_001 }, () => submit("", { kind: "renewHandle", handle: "none", durationMs: null }));
    expect(asked.filter(({ answer }) => answer !== null)).toHaveLength(1);
    expect(asked.at(-1)?.answer).toMatchObject({ code: "unavailable" });
  });

  test("a connection that goes away needs no record", async () => {
    const { submit } = await fullEngine();
    expect(submit("gone", { kind: "disconnect", session: "a", generation: 1 }).answer).toEqual({ kind: "done" });
  });

  test("a stop refuses what is kept and leaves no timer, also when a probe is under way", async () => {
    for (const end of ["land", "overflow", "failed"] as const) {
      const { engine, clock, namespace, submit, failures } = await fullEngine();
      const kept = submit("kept", { kind: "renewHandle", handle: "none", durationMs: null }, 60_000);
      clock.advance(1_000);
      await engine.stop();
      expect(kept.answer).toMatchObject({ code: "unavailable" });
      if (end === "land") await namespace.one.land();
      else await namespace.one.fail(end);
      expect(clock.pending).toBe(0);
      expect(failures).toEqual([]);
      expect(engine.status().ready).toBe(false);
    }
  });
});

describe("when there is room again", () => {
  test("what was acknowledged is held, what was not is not, and sessions have to be opened anew", async () => {
    const { clock, namespace, engine, listener, ...world } = await fullEngine();
    listener.take();
    clock.advance(1_000);
    await namespace.one.land();
    await namespace.landAll();
    expect(engine.status().ready).toBe(true);
    expect(engine.peek((table) => table.list({ prefix: "", after: null, limit: 9 }).tickets.map((ticket) => [ticket.object, ticket.session]))).toEqual([["x", "a"]]);
    expect(engine.peek((table) => table.sessions({ after: null, limit: 9 }).sessions.map((session) => session.connected))).toEqual([false, false, false]);
    expect(world.lock("b").applied).toMatchObject({ kind: "refused" });
    expect(world.open("b", 2).applied).toMatchObject({ kind: "opened", resumed: true });
    const again = world.lock("b", { objects: ["y"] });
    await turn();
    await namespace.landAll();
    expect(again.answer).toMatchObject({ kind: "locked", grant: { token: 2 } });
  });

  test("kept commands are carried out in their order, a lock with what is left of its wait", async () => {
    const { clock, namespace, listener, ...world } = await fullEngine();
    listener.take();
    const opened = world.open("b", 2);
    const asked = world.lock("b", { waitMs: 5_000 }, 5_000);
    clock.advance(1_000);
    await namespace.one.fail("overflow");
    clock.advance(1_000);
    await namespace.one.land();
    await namespace.landAll();
    expect(opened.answer).toMatchObject({ kind: "opened" });
    expect(asked.answer).toMatchObject({ kind: "waiting" });
    clock.advance(2_999);
    await turn();
    await namespace.landAll();
    expect(listener.effects.filter((effect) => effect.kind === "lockfailed")).toEqual([]);
    clock.advance(3);
    await turn();
    await namespace.landAll();
    expect(listener.effects).toContainEqual(expect.objectContaining({ kind: "lockfailed", session: "b", code: "timedout" }));
  });

  test("a lease has run on meanwhile", async () => {
    const { clock, namespace, listener } = await fullEngine();
    clock.advance(1_000);
    clock.advance(9_500);
    await namespace.one.land();
    await namespace.landAll();
    expect(listener.effects).toContainEqual(expect.objectContaining({ kind: "unlocking", session: "a" }));
  });

  test("events go on without a gap", async () => {
    const { clock, namespace, listener, ...world } = await fullEngine();
    clock.advance(1_000);
    await namespace.one.land();
    await namespace.landAll();
    world.open("b", 2);
    world.lock("b", { objects: ["y"] });
    await turn();
    await namespace.landAll();
    expect(listener.heard.map((event) => event.id)).toEqual(listener.heard.map((_, index) => index + 1));
  });

  test("a disk that is full again at once is waited out again", async () => {
    const { clock, namespace, engine, listener, ...world } = await fullEngine();
    const opened = world.open("b", 2);
    listener.take();
    clock.advance(1_000);
    await namespace.one.land();
    await namespace.one.fail("overflow");
    expect(engine.status().ready).toBe(false);
    expect(listener.take()).toEqual([FULL, "open b: refused"]);
    expect(opened.answer).toMatchObject({ code: "unavailable" });
    clock.advance(1_000);
    await namespace.one.land();
    await namespace.landAll();
    expect(engine.status().ready).toBe(true);
  });

  test("a disk that is full at the start delays readiness only, and the reboot is not forgotten by its probe", async () => {
    const first = await startedEngine(["a"], { namespace: new FakeNamespace({ immediate: true }) });
    first.lock("a", { durationMs: 10_000 });
    first.clock.advance(6_000);
    await turn();
    const namespace = first.namespace.copy();
    namespace.immediate = false;
    const second = engineWorld({ namespace, bootId: "boot 2" });
    const start = second.engine.start(second.listener);
    await turn();
    await namespace.one.fail("overflow");
    await start;
    expect(second.engine.status().ready).toBe(false);
    second.clock.advance(1_000);
    await namespace.one.land();
    // the process dies here, between the probe and the first batch
    const image = namespace.copy();
    image.immediate = true;
    const third = await startedEngine([], { namespace: image, bootId: "boot 2" });
    const left = third.engine.peek((table, at) => table.list({ prefix: "", after: null, limit: 9 }).tickets.map((ticket) => (ticket.expiresMs ?? 0) - at.nowMs));
    expect(left).toEqual([10_000]);
  });
});

describe("any other failure of the disk", () => {
  test("ends the node's promises once: nothing of the batch is told, nothing more is written or answered", async () => {
    const world = await startedEngine(["a", "b"]);
    const { namespace, listener, engine, failures, clock } = world;
    const asked = world.lock("a");
    let read = false;
    engine.read(() => null, () => void (read = true));
    await turn();
    world.lock("b");
    await namespace.one.fail("failed");
    clock.advance(100_000);
    await turn();
    expect(failures).toHaveLength(1);
    expect(failures[0]).toMatchObject({ code: "failed", message: expect.stringContaining("write lock state"), hint: expect.stringContaining("disk") });
    expect(listener.take()).toEqual([]);
    expect(asked.answer).toBeNull();
    engine.read(() => null, () => void (read = true));
    expect(read).toBe(false);
    expect(namespace.underWay).toEqual([]);
    expect(world.submit("late", { kind: "lock", session: "a", request: "late", spec: specOf(), handle: "late", message: 9 }).answer).toMatchObject({ code: "unavailable" });
    expect(clock.pending).toBe(0);
  });

  test("of a probe ends them, too", async () => {
    const { clock, namespace, failures } = await fullEngine();
    clock.advance(1_000);
    await namespace.one.fail("failed");
    expect(failures).toHaveLength(1);
  });

  test("of reading after a full disk ends them, too", async () => {
    const world = await startedEngine(["a"]);
    world.lock("a");
    await turn();
    world.namespace.records = () => {
      throw new Error("cannot be read");
    };
    await world.namespace.one.fail("overflow");
    expect(world.failures).toHaveLength(1);
    expect(world.listener.take()).toEqual([]);
  });
});

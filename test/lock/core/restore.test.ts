import { describe, expect, test } from "bun:test";
import { Encoder } from "cbor-x/encode";
import { LockTable } from "../../../plugins/lock/core/table.ts";
import { LockdError } from "../../../src/errors.ts";
import { LIMITS, World, refusal, specOf } from "./kit.ts";

const encoder = new Encoder({ useRecords: false });

/** One of each kind of record. */
function full(): World {
  const world = new World();
  world.open("A", "B", "C");
  const kept = world.hold("A", { objects: ["a"], request: "kept", durationMs: 600_000, value: "v", commandLine: "cmd" });
  world.hold("A", { objects: ["b"], request: "unlocking", durationMs: 2_000, unlockDurationMs: 60_000 });
  world.hold("A", { objects: ["c"], request: "lost", durationMs: 500, unlockDurationMs: 500, lockDelayMs: 60_000 });
  world.wait("B", { objects: ["a", "b"], mode: "semaphore", permits: 3, count: 2, waitMs: 90_000, reportQueue: true });
  world.wait("C", { objects: ["a"], mode: "shared", waitMs: 100, detectDeadlock: true });
  world.wait("C", { objects: ["b"], request: "nested", parents: [kept.handle] });
  world.advance(3_000);
  world.step({ kind: "disconnect", session: "C", generation: 1 });
  return world;
}

describe("restored from its records", () => {
  test("a table is the same to the last counter, and the records are those that it would write", () => {
    const world = full();
    const kinds = new Set([...world.stored.keys()].map((key) => key.slice(0, 2)));
    expect(kinds).toEqual(new Set(["me", "s/", "t/", "d/", "l/", "f/"]));
    const copy = LockTable.restore(world.stored, LIMITS);
    expect(copy.stateHash()).toBe(world.table.stateHash());
    expect(copy.list({ prefix: "", after: null, limit: 99 })).toEqual(world.table.list({ prefix: "", after: null, limit: 99 }));
    expect(copy.sessions({ after: null, limit: 99 })).toEqual(world.table.sessions({ after: null, limit: 99 }));
    expect(copy.why("a", { waitersMax: 9 })).toEqual(world.table.why("a", { waitersMax: 9 }));
    expect(copy.statistics()).toEqual(world.table.statistics());
    expect(copy.nextDeadlineMs()).toBe(world.table.nextDeadlineMs());
    expect(new Map(copy.records())).toEqual(world.stored);
    expect(copy.drainChanges()).toEqual([]);
  });

  test("numbers, tokens, grant numbers and event ids go on where they were", () => {
    const world = new World();
    world.open("A");
    world.unlock(world.hold("A", { request: "r1" }).handle);
    const lastEvent = world.events.at(-1)?.id ?? 0;
    world.recover();
    expect(world.hold("A", { request: "r2" })).toMatchObject({ token: 2, grantNumber: 2 });
    expect(world.tickets()[0]?.number).toBe(2);
    expect(world.events.at(-1)?.id).toBe(lastEvent + 1);
  });

  test("a grant that was due and not done is done", () => {
    const world = new World({ ...LIMITS, workPerStepMax: 1 });
    world.open("A", "B", "C", "D");
    const grant = world.hold("A");
    for (const session of ["B", "C", "D"]) world.wait(session, { mode: "shared" });
    expect(world.single({ kind: "unlock", handle: grant.handle }).more).toBe(true);
    world.recover();
    world.settle();
    expect(world.holders()).toEqual(["B", "C", "D"]);
  });

  test("nothing of a lock that came and went between two drains is written", () => {
    const world = new World();
    world.open("A");
    world.store();
    const before = [...world.stored.keys()];
    const at = { nowMs: world.nowMs, wallMs: 0 };
    const spec = specOf();
    world.table.step({ kind: "lock", session: "A", request: "r", spec, handle: "h", message: 1 }, at);
    world.table.step({ kind: "unlock", handle: "h" }, at);
    expect(world.table.drainChanges().map((change) => change.key).sort()).toEqual(["meta", "s/A"]);
    expect([...world.stored.keys()]).toEqual(before);
  });

  test("a million names leave nothing behind", () => {
    const world = new World();
    world.open("A");
    for (let index = 0; index < 2_000; index++) {
      world.unlock(world.hold("A", { objects: [`name ${index}`], request: `r${index}` }).handle);
    }
    expect([...world.stored.keys()].sort()).toEqual(["meta", "s/A"]);
    expect(world.table.statistics()).toMatchObject({ objects: 0, tickets: 0 });
    expect(world.table.nextDeadlineMs()).toBeNull();
  });
});

describe("bad records are refused by key", () => {
  const broken: [string, string, (stored: Map<string, Uint8Array>) => void][] = [
    ["no CBOR", "t/1", (stored) => stored.set("t/1", Uint8Array.of(0xff, 0x00))],
    ["cut short", "t/1", (stored) => stored.set("t/1", (stored.get("t/1") ?? Uint8Array.of()).subarray(0, 20))],
    ["empty", "meta", (stored) => stored.set("meta", Uint8Array.of())],
    ["a map", "s/A", (stored) => stored.set("s/A", encoder.encode({ a: 1 }))],
    ["a field of another type", "d/c", (stored) => stored.set("d/c", encoder.encode(["soon"]))],
    ["a time that is none", "d/c", (stored) => stored.set("d/c", encoder.encode([Number.NaN]))],
    ["a choice out of range", "t/2", (stored) => stored.set("t/2", encoder.encode([7]))],
    ["a newer format", "meta", (stored) => stored.set("meta", encoder.encode([2, 9, 9, 99]))],
    ["an unknown kind", "z/1", (stored) => stored.set("z/1", encoder.encode([1]))],
    ["a key without a number", "t/x", (stored) => stored.set("t/x", stored.get("t/1") ?? Uint8Array.of())],
    ["a ticket without its session", "t/4", (stored) => stored.delete("s/B")],
    ["a failed wait without its session", "f/5", (stored) => stored.set("f/5", encoder.encode(["Z", "r", 0, "m", 1]))],
    ["the same ticket twice", "t/9", (stored) => stored.set("t/9", stored.get("t/1") ?? Uint8Array.of())],
    ["a token above the counter", "t/1", (stored) => stored.set("meta", encoder.encode([1, 9, 0, 99]))],
    ["a number above the counter", "t/1", (stored) => stored.set("meta", encoder.encode([1, 0, 9, 99]))],
    ["no counters at all", "t/1", (stored) => stored.delete("meta")],
  ];
  test.each(broken)("%s", (_, key, breakIt) => {
    const { stored } = full();
    if (key === "t/9") stored.set("meta", encoder.encode([1, 20, 20, 99]));
    breakIt(stored);
    let thrown: unknown;
    try {
      LockTable.restore(stored, LIMITS);
    } catch (error) {
      thrown = error;
    }
    if (!(thrown instanceof LockdError)) throw new Error(`restored, or threw ${String(thrown)}`);
    expect(thrown.code).toBe("corrupt");
    expect(thrown.message).toContain(JSON.stringify(key));
    expect(thrown.exitCode).toBe(65);
  });

  test("names with separators in them are their own keys", () => {
    const world = new World();
    world.open("A");
    for (const [index, object] of ["a/b", "t/1", "meta", "é\n|"].entries()) {
      world.hold("A", { objects: [object], request: `r${index}`, durationMs: 500, unlockDurationMs: 500, lockDelayMs: 9_000 });
    }
    world.advance(1_000);
    world.recover();
    for (const object of ["a/b", "t/1", "meta", "é\n|"]) expect(world.table.isFree(object, world.nowMs)).toBe(false);
    expect(refusal(world.lock("A", { objects: ["t/1"], waitMs: 0, request: "again" })).code).toBe("timedout");
  });
});

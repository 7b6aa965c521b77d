import { describe, expect, test } from "bun:test";
import { LIMITS, World, refusal, specOf } from "./kit.ts";

describe("lock", () => {
  test("grants a free object at once, with its whole duration and a first token", () => {
    const world = new World();
    world.open("A");
    const grant = world.hold("A", { objects: ["x"], durationMs: 7_000, unlockDurationMs: 600 });
    expect(grant).toMatchObject({
      session: "A",
      request: "A",
      objects: ["x"],
      handle: world.lastHandle,
      token: 1,
      leftMs: 7_000,
      durationMs: 7_000,
      unlockDurationMs: 600,
      grantNumber: 1,
    });
    expect(world.tickets()[0]).toMatchObject({
      object: "x",
      ticket: "00000001/A",
      state: "locked",
      token: 1,
      expiresMs: world.nowMs + 7_000,
      freeAtMs: world.nowMs + 7_600,
    });
  });

  test("hands on in the order of the requests, one at a time", () => {
    const world = new World();
    world.open("A", "B", "C");
    const first = world.hold("A");
    world.wait("B");
    world.wait("C");
    expect(world.waiters()).toEqual(["B", "C"]);
    world.unlock(first.handle);
    expect(world.granted()).toEqual(["B"]);
    expect(world.holders()).toEqual(["B"]);
    expect(world.tickets().at(-1)).toMatchObject({ session: "C", position: 1 });
  });

  test("numbers and tokens rise for ever, also when every queue was empty in between", () => {
    const world = new World();
    world.open("A");
    const tokens: number[] = [];
    for (let round = 0; round < 3; round++) {
      const grant = world.hold("A", { request: `r${round}` });
      tokens.push(grant.token);
      expect(world.tickets()[0]?.number).toBe(round + 1);
      world.unlock(grant.handle);
      expect(world.table.statistics()).toMatchObject({ objects: 0, tickets: 0 });
    }
    expect(tokens).toEqual([1, 2, 3]);
  });

  test("similar names are different objects", () => {
    const world = new World();
    const names = ["a", "a/", "a//b", "a/b", "/a", "A", "a|b", "a\nb", "é", "e\u0301", "__proto__", "constructor"];
    world.open("A");
    names.forEach((name, index) => world.hold("A", { objects: [name], request: `r${index}` }));
    expect(new Set(world.tickets().map((ticket) => ticket.object))).toEqual(new Set(names));
  });

  test("the same request again finds the same ticket: waiting, then locked with the time that is left", () => {
    const world = new World();
    world.open("A", "B");
    const first = world.hold("A");
    const handle = world.wait("B", { durationMs: 3_000 });
    expect(world.lock("B")).toEqual({ kind: "waiting", position: 1 });
    world.unlock(first.handle);
    const message = world.messages;
    world.advance(1_200);
    const again = world.lock("B");
    expect(again).toMatchObject({ kind: "locked", grant: { handle, token: 2, leftMs: 1_800, message, grantNumber: 1 } });
    expect(world.table.statistics().tickets).toBe(1);
    world.advance(1_800);
    expect(refusal(world.lock("B")).code).toBe("lost");
  });

  test("another request of the same session for the same object is a duplicate, waiting or held", () => {
    const world = new World();
    world.open("A", "B");
    const grant = world.hold("A");
    world.wait("B");
    expect(refusal(world.lock("A", { request: "r2" })).code).toBe("duplicate");
    expect(refusal(world.lock("B", { request: "r2", objects: ["w", "x"] })).code).toBe("duplicate");
    world.unlock(grant.handle);
    world.cancel("B");
    expect(world.lock("A", { request: "r3" }).kind).toBe("locked");
  });

  test("a lost lock in its grace is no duplicate: its session may queue again at once", () => {
    const world = new World();
    world.open("A");
    const lost = world.hold("A", { durationMs: 1_000, unlockDurationMs: 500 });
    world.advance(1_000);
    world.wait("A", { request: "r2" });
    world.advance(500);
    expect(world.granted()).toEqual(["A"]);
    expect(world.tickets()[0]?.token).toBeGreaterThan(lost.token);
  });

  test("without a wait it is now or not at all, and says who is in the way", () => {
    const world = new World();
    world.open("A", "B");
    const grant = world.hold("A");
    world.advance(3_200);
    const answer = refusal(world.lock("B", { waitMs: 0 }));
    expect(answer.code).toBe("timedout");
    for (const part of ['"x"', "A on A.example", "pid 101", "job", `token ${grant.token}`, "3.2s"]) {
      expect(answer.message).toContain(part);
    }
    expect(answer.blockers).toEqual([
      expect.objectContaining({ object: "x", session: "A", token: grant.token, state: "locked", sinceMs: world.nowMs - 3_200 }),
    ]);
    expect(world.waiters()).toEqual([]);
    expect(world.eventsOf("B")).toEqual(["failed"]);
  });

  test("without a wait nobody is overtaken", () => {
    const world = new World();
    world.open("A", "B", "C");
    world.hold("A", { mode: "shared" });
    world.wait("B");
    const answer = refusal(world.lock("C", { mode: "shared", waitMs: 0 }));
    expect(answer.blockers).toEqual([expect.objectContaining({ session: "B", token: null, state: "waiting" })]);
    expect(answer.message).toContain("waited for by B");
  });

  test("a wait that is over fails at its deadline, naming the holder and the position", () => {
    const world = new World();
    world.open("A", "B", "C");
    world.hold("A", { durationMs: 60_000 });
    world.wait("B");
    world.wait("C", { waitMs: 2_000 });
    expect(world.advance(1_999)).toEqual([]);
    const [failure, ...more] = world.advance(1);
    expect(more).toEqual([]);
    expect(failure).toMatchObject({ kind: "lockfailed", session: "C", request: "C", code: "timedout", position: 2 });
    if (failure?.kind !== "lockfailed") throw new Error("not reached");
    for (const part of ["2s", "A on A.example", "token 1", "position 2"]) expect(failure.message).toContain(part);
    expect(failure.blockers?.[0]?.session).toBe("A");
    // and a retry of that request hears the same instead of waiting anew
    expect(refusal(world.lock("C")).code).toBe("timedout");
    expect(world.waiters()).toEqual(["B"]);
  });

  test("remembers a failed request of a session for a while, not for ever", () => {
    const world = new World();
    world.open("A", "B");
    const grant = world.hold("A", { durationMs: 600_000 });
    for (let index = 0; index < 17; index++) {
      world.wait("B", { request: `r${index}`, waitMs: 10 });
      world.advance(10);
    }
    expect(refusal(world.lock("B", { request: "r1" })).code).toBe("timedout");
    expect(world.lock("B", { request: "r0" }).kind).toBe("waiting");
    expect([...world.stored.keys()].filter((key) => key.startsWith("f/"))).toHaveLength(16);
    world.unlock(grant.handle);
  });

  test("grants at the very instant of the deadline when the lock is free by then", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("A", { durationMs: 1_000, unlockDurationMs: 500 });
    world.wait("B", { waitMs: 1_500 });
    world.advance(10_000);
    expect(world.effects.map((effect) => effect.kind)).toEqual(["unlocking", "unlocked", "locked"]);
  });

  test("the grant carries the newest message of the session that came before it", () => {
    const world = new World();
    world.open("A", "B");
    const held = world.hold("A");
    expect(held.message).toBe(world.messages);
    world.wait("B");
    world.renew("B", 0, { tokens: [] });
    const newest = world.messages;
    world.unlock(held.handle);
    expect(world.effects[0]).toMatchObject({ kind: "locked", grant: { message: newest } });
  });
});

describe("limits are refused by name and leave nothing behind", () => {
  const cases: [string, Partial<typeof LIMITS>, (world: World) => ReturnType<World["lock"]>][] = [
    ["sessionsMax", { sessionsMax: 2 }, (world) => world.openWith("third")],
    ["ticketsMax", { ticketsMax: 1 }, (world) => world.lock("B", { objects: ["y"] })],
    ["ticketsPerSessionMax", { ticketsPerSessionMax: 1 }, (world) => world.lock("A", { objects: ["y"], request: "r2" })],
    ["objectsMax", { objectsMax: 2 }, (world) => world.lock("B", { objects: ["y", "z"] })],
    ["objectsPerTicketMax", { objectsPerTicketMax: 2 }, (world) => world.lock("B", { objects: ["p", "q", "r"] })],
    ["waitersPerObjectMax", { waitersPerObjectMax: 0 }, (world) => world.lock("B")],
  ];
  test.each(cases)("%s", (name, limits, act) => {
    const world = new World({ ...LIMITS, ...limits });
    world.open("A", "B");
    world.hold("A");
    const answer = refusal(act(world));
    expect(answer.code).toBe("overflow");
    expect(answer.message).toContain(name);
    expect(answer.message).toContain(String(Object.values(limits)[0]));
    expect(world.table.statistics()).toMatchObject({ objects: 1, tickets: 1, sessions: 2 });
  });
});

describe("cancel and unlock", () => {
  test("a waiting request is withdrawn: its session is told, and it is never granted", () => {
    const world = new World();
    world.open("A", "B");
    const grant = world.hold("A");
    world.wait("B");
    expect(world.cancel("B")).toEqual({ kind: "unlocked", token: null, held: false });
    expect(world.effects).toEqual([
      expect.objectContaining({ kind: "lockfailed", session: "B", request: "B", code: "cancelled" }),
    ]);
    world.unlock(grant.handle);
    expect(world.effects).toEqual([]);
    expect(world.table.statistics()).toMatchObject({ objects: 0, tickets: 0 });
    expect(world.eventsOf("B")).toEqual(["waiting", "cancelled"]);
  });

  test("unlock withdraws a waiting request too", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("A");
    const handle = world.wait("B");
    expect(world.unlock(handle)).toEqual({ kind: "unlocked", token: null, held: false });
    expect(world.waiters()).toEqual([]);
  });

  test("cancel of what was granted meanwhile is a release, and the next one is granted", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("A");
    world.wait("B");
    expect(world.cancel("A")).toEqual({ kind: "unlocked", token: 1, held: true });
    expect(world.granted()).toEqual(["B"]);
  });

  test("the second unlock says notheld, and so does an unknown handle or request", () => {
    const world = new World();
    world.open("A");
    const grant = world.hold("A");
    expect(world.unlock(grant.handle)).toEqual({ kind: "unlocked", token: grant.token, held: true });
    expect(refusal(world.unlock(grant.handle)).code).toBe("notheld");
    expect(refusal(world.unlock("never seen")).code).toBe("notheld");
    expect(refusal(world.cancel("A", "never seen")).code).toBe("notheld");
  });

  test("an expired holder cannot unlock the next holder's lock", () => {
    const world = new World();
    world.open("A", "B");
    const expired = world.hold("A", { durationMs: 1_000 });
    world.wait("B");
    world.advance(6_000);
    expect(world.holders()).toEqual(["B"]);
    expect(refusal(world.unlock(expired.handle)).code).toBe("lost");
    expect(world.holders()).toEqual(["B"]);
  });

  test("in the grace the lock is freed at once, and the answer says that it had been lost", () => {
    const world = new World();
    world.open("A", "B");
    const grant = world.hold("A", { durationMs: 1_000, lockDelayMs: 60_000 });
    world.wait("B");
    world.advance(1_000);
    const answer = refusal(world.unlock(grant.handle));
    expect(answer.code).toBe("lost");
    expect(answer.message).toContain("released now");
    expect(world.granted()).toEqual(["B"]);
    expect(refusal(world.unlock(grant.handle)).code).toBe("notheld");
  });

  test("a session learns that somebody else used its handle, but not what it did itself", () => {
    const world = new World();
    world.open("A", "B");
    const first = world.hold("A", { request: "r1" });
    world.unlock(first.handle, "A");
    expect(world.effects).toEqual([]);
    const second = world.hold("A", { request: "r2" });
    world.unlock(second.handle, "B");
    expect(world.effects).toEqual([{ kind: "unlocked", session: "A", request: "r2", token: second.token, reason: "lost" }]);
    const detached = world.hold("A", { request: "r3", detached: true });
    world.unlock(detached.handle, "B");
    expect(world.effects).toEqual([]);
  });
});

test("a command before the time of the last one is a defect of the driver", () => {
  const world = new World();
  world.open("A");
  world.nowMs -= 1;
  expect(() => world.lock("A")).toThrow("time does not go back");
});

test("unsorted and repeated objects are a defect of the driver", () => {
  const world = new World();
  world.open("A");
  const ask = (objects: string[]) => () =>
    world.step({ kind: "lock", session: "A", request: "r", spec: specOf({ objects }), handle: "h", message: 1 });
  expect(ask(["b", "a"])).toThrow("sorted and distinct");
  expect(ask(["a", "a"])).toThrow("sorted and distinct");
  expect(ask([])).toThrow("names an object");
});

test("a handle in use is refused", () => {
  const world = new World();
  world.open("A");
  const grant = world.hold("A");
  const spec = specOf({ objects: ["y"] });
  const answer = world.step({ kind: "lock", session: "A", request: "r2", spec, handle: grant.handle, message: 9 });
  expect(refusal(answer).code).toBe("invalid");
});

test("raised tokens start above the floor and never fall", () => {
  const world = new World();
  world.open("A");
  world.table.raiseToken(2 ** 32);
  world.table.raiseToken(5);
  world.store();
  world.recover();
  expect(world.hold("A").token).toBe(2 ** 32 + 1);
});

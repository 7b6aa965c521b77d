import { describe, expect, test } from "bun:test";
import { World, refusal } from "./kit.ts";

describe("the end of a duration", () => {
  test("the holder is told, everybody is kept out for the grace, then the next is granted", () => {
    const world = new World();
    world.open("A", "B");
    const grant = world.hold("A", { durationMs: 1_000, unlockDurationMs: 700 });
    world.wait("B");
    expect(world.advance(999)).toEqual([]);
    expect(world.advance(1)).toEqual([
      { kind: "unlocking", session: "A", request: "A", token: grant.token, leftMs: 700, reason: "timedout" },
    ]);
    expect(world.sessionsIn("unlocking")).toEqual(["A"]);
    expect(world.tickets()[0]).toMatchObject({ expiresMs: world.nowMs, freeAtMs: world.nowMs + 700 });
    expect(world.advance(699)).toEqual([]);
    const [unlocked, locked] = world.advance(1);
    expect(unlocked).toEqual({ kind: "unlocked", session: "A", request: "A", token: grant.token, reason: "timedout" });
    expect(locked).toMatchObject({ kind: "locked", grant: { session: "B", token: grant.token + 1 } });
    expect(world.eventsOf("A")).toEqual(["granted", "expiring", "expired"]);
    expect(world.events.findLast((event) => event.event === "expired")).toMatchObject({ heldMs: 1_700, reason: "timedout" });
  });

  test("noticed late, the grace still counts from the end of the duration", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("A", { durationMs: 1_000, unlockDurationMs: 700 });
    world.advance(1_500);
    expect(world.effects).toEqual([expect.objectContaining({ kind: "unlocking", leftMs: 200 })]);
    world.nowMs += 10_000;
    // without any tick in between, a lock finds it free
    expect(world.hold("B").token).toBe(2);
  });

  test("ends come in the order of time, also those that a keep-alive moved", () => {
    const world = new World();
    world.open("A", "B");
    const renewed = world.hold("A", { objects: ["a"], durationMs: 1_000, unlockDurationMs: 9_000 });
    world.keepAlive("A", [renewed]);
    world.hold("B", { objects: ["b"], durationMs: 1_200, unlockDurationMs: 9_000 });
    world.advance(500);
    world.keepAlive("A", [renewed]);
    world.advance(2_000);
    const told = world.effects.map((effect) => (effect.kind === "unlocking" ? [effect.session, effect.leftMs] : effect.kind));
    expect(told).toEqual([
      ["B", 7_700],
      ["A", 8_000],
    ]);
  });

  test("the table says when it wants to be called next", () => {
    const world = new World();
    expect(world.table.nextDeadlineMs()).toBeNull();
    world.open("A");
    world.hold("A", { durationMs: 1_000, unlockDurationMs: 700 });
    expect(world.table.nextDeadlineMs()).toBe(world.nowMs + 1_000);
    world.advance(1_000);
    expect(world.table.nextDeadlineMs()).toBe(world.nowMs + 700);
    world.advance(700);
    expect(world.table.nextDeadlineMs()).toBeNull();
  });

  test("what was lost is remembered for its owner, up to the limit", () => {
    const world = new World({ ...new World().limits, lostMax: 2 });
    world.open("A");
    const grants = ["r1", "r2", "r3"].map((request) => {
      const grant = world.hold("A", { request, durationMs: 500, unlockDurationMs: 500 });
      world.advance(1_000);
      return grant;
    });
    const codes = grants.map((grant) => refusal(world.unlock(grant.handle)).code);
    expect(codes).toEqual(["notheld", "lost", "lost"]);
    expect([...world.stored.keys()].filter((key) => key.startsWith("l/"))).toEqual(["l/2", "l/3"]);
  });
});

describe("lock-delay", () => {
  const delayed = { durationMs: 1_000, unlockDurationMs: 500, lockDelayMs: 4_000 };

  test("after a loss the object stays free that long, then goes to the first who waits", () => {
    const world = new World();
    world.open("A", "B", "C");
    world.hold("A", delayed);
    world.wait("B");
    world.advance(1_500);
    expect(world.holders()).toEqual([]);
    const refused = refusal(world.lock("C", { waitMs: 0 }));
    expect(refused.code).toBe("timedout");
    expect(refused.message).toContain("lock-delay for 4s");
    expect(world.table.isFree("x", world.nowMs)).toBe(false);
    world.advance(3_999);
    expect(world.granted()).toEqual([]);
    world.advance(1);
    expect(world.granted()).toEqual(["B"]);
  });

  test("after a clean unlock there is none", () => {
    const world = new World();
    world.open("A", "B");
    const grant = world.hold("A", delayed);
    world.unlock(grant.handle);
    expect(world.hold("B").token).toBe(2);
  });

  test("survives a restart, and is gone from memory and storage after it", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("A", delayed);
    world.advance(1_500);
    expect([...world.stored.keys()]).toContain("d/x");
    world.recover();
    expect(refusal(world.lock("B", { waitMs: 0 })).code).toBe("timedout");
    world.advance(4_000);
    expect([...world.stored.keys()]).not.toContain("d/x");
    expect(world.table.statistics().objects).toBe(0);
  });
});

describe("renewal by a session", () => {
  test("one keep-alive renews everything that the session holds and knows of", () => {
    const world = new World();
    world.open("A");
    const grants = ["a", "b", "c"].map((object, index) =>
      world.hold("A", { objects: [object], request: object, durationMs: 1_000 * (index + 1) }),
    );
    world.advance(900);
    expect(world.keepAlive("A", grants)).toEqual({ kind: "renewed", message: world.messages, lost: [], mismatch: false });
    expect(world.tickets().map((ticket) => ticket.expiresMs)).toEqual([1_000, 2_000, 3_000].map((ms) => world.nowMs + ms));
    expect(world.advance(999)).toEqual([]);
    expect(world.advance(1).map((effect) => effect.kind)).toEqual(["unlocking"]);
  });

  test("holds for as long as it goes on, and ends its durations together when it stops", () => {
    const world = new World();
    world.open("A");
    const grants = ["a", "b"].map((object) => world.hold("A", { objects: [object], request: object, durationMs: 1_000 }));
    for (let round = 0; round < 20; round++) {
      expect(world.advance(400)).toEqual([]);
      expect(world.keepAlive("A", grants)).toMatchObject({ mismatch: false });
    }
    world.advance(1_000);
    expect(world.effects.map((effect) => effect.kind)).toEqual(["unlocking", "unlocking"]);
  });

  test("a grant that it does not know of yet is neither renewed nor taken back nor in the digest", () => {
    const world = new World();
    world.open("A");
    const known = world.hold("A", { objects: ["a"], request: "a", durationMs: 1_000 });
    world.advance(500);
    world.hold("A", { objects: ["b"], request: "b", durationMs: 1_000 });
    world.advance(400);
    expect(world.keepAlive("A", [known])).toMatchObject({ mismatch: false });
    expect(world.renew("A", known.grantNumber, { tokens: [known.token] })).toMatchObject({ lost: [], mismatch: false });
    expect(world.tickets().map((ticket) => ticket.expiresMs)).toEqual([world.nowMs + 1_000, world.nowMs + 600]);
  });

  test("another digest renews nothing and asks for the tokens", () => {
    const world = new World();
    world.open("A");
    const grant = world.hold("A", { durationMs: 1_000 });
    world.advance(900);
    expect(world.renew("A", 1, { count: 1, digest: [1, 2] })).toMatchObject({ mismatch: true, lost: [] });
    expect(world.renew("A", 1, { count: 2, digest: [grant.token, grant.token] })).toMatchObject({ mismatch: true });
    expect(world.keepAlive("A", [])).toMatchObject({ mismatch: false });
    world.advance(100);
    expect(world.sessionsIn("unlocking")).toEqual(["A"]);
  });

  test("what it does not claim is taken back at once, without a delay", () => {
    const world = new World();
    world.open("A", "B");
    const kept = world.hold("A", { objects: ["a"], request: "a" });
    const ghost = world.hold("A", { objects: ["x"], request: "x", lockDelayMs: 60_000 });
    world.wait("B", { objects: ["x"] });
    expect(world.renew("A", 2, { tokens: [kept.token] })).toMatchObject({ lost: [] });
    expect(world.effects).toEqual([
      { kind: "unlocked", session: "A", request: "x", token: ghost.token, reason: "lost" },
      expect.objectContaining({ kind: "locked" }),
    ]);
    expect(world.granted()).toEqual(["B"]);
    expect(world.eventsOf("A")).toEqual(["granted", "granted", "lost"]);
    expect(refusal(world.unlock(ghost.handle)).code).toBe("lost");
  });

  test("what it claims and does not hold any more is reported with the reason", () => {
    const world = new World();
    world.open("A", "B");
    const gone = world.hold("A", { objects: ["a"], request: "a", durationMs: 1_000, unlockDurationMs: 500 });
    const forced = world.hold("A", { objects: ["b"], request: "b" });
    const foreign = world.hold("B", { objects: ["c"] });
    world.step({ kind: "release", object: "b", token: forced.token, reason: "test", by: "admin" });
    world.advance(1_500);
    const tokens = [gone.token, forced.token, foreign.token, 999];
    expect(world.renew("A", 2, { tokens })).toMatchObject({
      lost: [
        { token: gone.token, reason: "timedout" },
        { token: forced.token, reason: "forced" },
        { token: foreign.token, reason: "lost" },
        { token: 999, reason: "lost" },
      ],
    });
  });

  test("a renewal in the grace is lost, and what is in its grace is not taken back for not being claimed", () => {
    const world = new World();
    world.open("A");
    const grant = world.hold("A", { durationMs: 1_000 });
    world.advance(1_000);
    expect(world.renew("A", 1, { tokens: [grant.token] })).toMatchObject({ lost: [{ token: grant.token, reason: "timedout" }] });
    expect(world.renew("A", 1, { tokens: [] })).toMatchObject({ lost: [] });
    expect(world.sessionsIn("unlocking")).toEqual(["A"]);
    expect(refusal(world.step({ kind: "renewHandle", handle: grant.handle, durationMs: null })).code).toBe("lost");
  });

  test("detached locks are not part of it", () => {
    const world = new World();
    world.open("A");
    world.hold("A", { durationMs: 1_000, detached: true });
    world.advance(900);
    expect(world.keepAlive("A", [])).toMatchObject({ mismatch: false });
    expect(world.renew("A", 1, { tokens: [] })).toMatchObject({ lost: [] });
    expect(world.holders()).toEqual(["A"]);
    world.advance(100);
    expect(world.sessionsIn("unlocking")).toEqual(["A"]);
    expect(world.effects).toEqual([expect.objectContaining({ kind: "unlocking", session: "A" })]);
  });

  test("a detached lock that is claimed by its token runs its whole duration again", () => {
    const world = new World();
    world.open("A");
    const grant = world.hold("A", { durationMs: 1_000, detached: true });
    world.advance(900);
    expect(world.renew("A", 1, { tokens: [grant.token] })).toMatchObject({ lost: [] });
    expect(world.tickets()[0]?.expiresMs).toBe(world.nowMs + 1_000);
  });

  test("a grant number from the future or from before the last renewal is refused", () => {
    const world = new World();
    world.open("A");
    const grant = world.hold("A");
    expect(refusal(world.renew("A", 2, { tokens: [grant.token] })).code).toBe("invalid");
    world.keepAlive("A", [grant]);
    expect(refusal(world.renew("A", 0, { tokens: [] })).code).toBe("invalid");
  });

  test("a released lock is not renewed by a keep-alive that crosses the release", () => {
    const world = new World();
    world.open("A", "B");
    const grant = world.hold("A");
    world.unlock(grant.handle);
    expect(world.renew("A", 1, { tokens: [grant.token] })).toMatchObject({ lost: [{ token: grant.token, reason: "lost" }] });
    expect(world.hold("B").token).toBe(2);
  });
});

describe("renewal by handle", () => {
  test("runs the duration again from now, or another one from then on", () => {
    const world = new World();
    world.open("A");
    const grant = world.hold("A", { durationMs: 1_000 });
    world.advance(600);
    const renew = (durationMs: number | null) => world.step({ kind: "renewHandle", handle: grant.handle, durationMs });
    expect(renew(null)).toMatchObject({ kind: "renewedHandle", leftMs: 1_000, durationMs: 1_000 });
    expect(renew(3_000)).toMatchObject({ leftMs: 3_000, durationMs: 3_000 });
    expect(world.tickets()[0]?.expiresMs).toBe(world.nowMs + 3_000);
    world.advance(1_000);
    world.keepAlive("A", [grant]);
    expect(world.tickets()[0]?.expiresMs).toBe(world.nowMs + 3_000);
    world.advance(3_000);
    expect(world.sessionsIn("unlocking")).toEqual(["A"]);
  });

  test("never shortens what a session counts on without being asked; a detached lock may be shortened", () => {
    const world = new World();
    world.open("A");
    const owned = world.hold("A", { objects: ["a"], request: "a", durationMs: 10_000 });
    const detached = world.hold("A", { objects: ["b"], request: "b", durationMs: 10_000, detached: true });
    const renew = (handle: string, durationMs: number) => world.step({ kind: "renewHandle", handle, durationMs });
    const refused = refusal(renew(owned.handle, 9_999));
    expect(refused.code).toBe("invalid");
    expect(refused.message).toContain("counts on 10s");
    expect(world.tickets("a")[0]?.expiresMs).toBe(world.nowMs + 10_000);
    expect(renew(owned.handle, 20_000)).toMatchObject({ leftMs: 20_000 });
    // whoever repeats its LOCK is told the longer one, and counts on that
    expect(refusal(renew(owned.handle, 10_000)).code).toBe("invalid");
    expect(renew(detached.handle, 500)).toMatchObject({ leftMs: 500 });
    expect(world.tickets("b")[0]?.expiresMs).toBe(world.nowMs + 500);
  });

  test("is refused for what waits, was lost, or was never held", () => {
    const world = new World();
    world.open("A", "B");
    const grant = world.hold("A", { durationMs: 500, unlockDurationMs: 500 });
    const handle = world.wait("B");
    const codeOf = (name: string) => refusal(world.step({ kind: "renewHandle", handle: name, durationMs: null })).code;
    expect(codeOf(handle)).toBe("notheld");
    expect(codeOf("none")).toBe("notheld");
    world.advance(1_000);
    expect(codeOf(grant.handle)).toBe("lost");
  });
});

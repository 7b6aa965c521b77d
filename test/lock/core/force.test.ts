import { describe, expect, test } from "bun:test";
import type { Grant, LockSpec } from "../../../plugins/lock/core/types.ts";
import { LIMITS, World, refusal, specOf } from "./kit.ts";

const DURATION_MS = 10_000;
const UNLOCK_MS = 1_000;

/** A holds "x", B waits for it. */
function contested(options: Partial<LockSpec> = {}): { world: World; grant: Grant } {
  const world = new World();
  world.open("A", "B");
  const grant = world.hold("A", { durationMs: DURATION_MS, unlockDurationMs: UNLOCK_MS, ...options });
  world.wait("B");
  return { world, grant };
}

const release = (world: World, grant: Grant, dead = false) =>
  world.step({ kind: "release", object: "x", token: grant.token, reason: "stuck", by: "admin", dead });
const kick = (world: World, dead = false) => world.step({ kind: "kick", session: "A", reason: "stuck", by: "admin", dead });

/** A keep-alive of A, which knows of its grant and claims nothing. */
const confirm = (world: World) => world.renew("A", 1, { count: 0, digest: [0, 0] });

/** How long from now the next holder is still kept out. */
function kept(world: World): number {
  const fromMs = world.nowMs;
  while (!world.holders().includes("B")) {
    const dueMs = world.table.nextDeadlineMs();
    if (dueMs === null) throw new Error("B is never granted");
    world.advance(dueMs - world.nowMs);
  }
  return world.nowMs - fromMs;
}

describe("a lock that is taken by force", () => {
  test("cannot be renewed any more, in no way, and its holder is told", () => {
    const { world, grant } = contested();
    world.advance(4_000);
    expect(release(world, grant)).toMatchObject({ kind: "releasing", holder: { name: "A" } });
    expect(world.effects).toEqual([
      { kind: "unlocking", session: "A", request: "A", token: grant.token, leftMs: UNLOCK_MS, reason: "forced" },
    ]);
    expect(world.events.findLast((event) => event.event === "forced")?.reason).toBe("by admin: stuck");
    expect(world.keepAlive("A", [grant])).toMatchObject({ mismatch: true });
    expect(world.renew("A", 1, { tokens: [grant.token] })).toMatchObject({ lost: [{ token: grant.token, reason: "forced" }] });
    expect(refusal(world.step({ kind: "renewHandle", handle: grant.handle, durationMs: 60_000 })).code).toBe("lost");
    expect(kept(world)).toBe(6_000 + UNLOCK_MS);
  });

  test("stays its holder's, who may not have heard, to the end of lease and grace; listing and answer say so", () => {
    const { world, grant } = contested();
    world.advance(3_000);
    world.keepAlive("A", [grant]);
    world.advance(4_000);
    expect(release(world, grant)).toMatchObject({ freeMs: 6_000 + UNLOCK_MS });
    expect(world.tickets()[0]).toMatchObject({
      state: "unlocking", sinceMs: world.nowMs, expiresMs: world.nowMs + 6_000, freeAtMs: world.nowMs + 6_000 + UNLOCK_MS,
    });
    world.step({ kind: "disconnect", session: "A", generation: 1 });
    world.advance(6_000 + UNLOCK_MS - 1);
    expect(world.granted()).toEqual([]);
    world.advance(1);
    expect(world.effects[0]).toEqual({ kind: "unlocked", session: "A", request: "A", token: grant.token, reason: "forced" });
    expect(world.granted()).toEqual(["B"]);
  });

  test.each([
    ["a digest", confirm],
    ["a list", (world: World) => world.renew("A", 1, { tokens: [] })],
  ])("is free an unlock duration after its session confirms by %s without it", (_, say) => {
    const { world, grant } = contested();
    world.renew("A", 1, { tokens: [grant.token] });
    release(world, grant);
    world.advance(700);
    world.keepAlive("A", [grant]);
    say(world);
    expect(world.tickets()[0]).toMatchObject({ expiresMs: world.nowMs, freeAtMs: world.nowMs + UNLOCK_MS });
    // once is enough
    world.advance(400);
    say(world);
    expect(kept(world)).toBe(UNLOCK_MS - 400);
  });

  test("is free no later than by itself when the confirmation comes after the end of its lease", () => {
    const { world, grant } = contested();
    release(world, grant);
    world.advance(DURATION_MS + 600);
    confirm(world);
    expect(kept(world)).toBe(UNLOCK_MS - 600);
  });

  test("is not confirmed by a renewal from before its LOCKED arrived, nor by one of another session", () => {
    const { world, grant } = contested();
    release(world, grant);
    world.renew("A", 0, { tokens: [] });
    world.renew("A", 0, { count: 0, digest: [0, 0] });
    world.renew("B", 0, { tokens: [] });
    expect(kept(world)).toBe(DURATION_MS + UNLOCK_MS);
  });

  test("is confirmed while others are kept, and only it", () => {
    const world = new World();
    world.open("A", "B");
    const [x, y, z] = ["x", "y", "z"].map((object) => world.hold("A", { objects: [object], request: object, durationMs: DURATION_MS, unlockDurationMs: UNLOCK_MS }));
    if (x === undefined || y === undefined || z === undefined) throw new Error("three are held");
    for (const grant of [x, y]) world.step({ kind: "release", object: grant.objects[0] ?? "", token: grant.token, reason: "", by: "admin" });
    // of y it has not heard yet
    expect(world.renew("A", 3, { tokens: [y.token, z.token] })).toMatchObject({ lost: [{ token: y.token, reason: "forced" }] });
    expect(world.tickets().map((ticket) => ticket.freeAtMs)).toEqual(
      [UNLOCK_MS, DURATION_MS + UNLOCK_MS, DURATION_MS + UNLOCK_MS].map((ms) => world.nowMs + ms),
    );
    expect(world.keepAlive("A", [z])).toMatchObject({ mismatch: false });
    expect(world.tickets("y")[0]?.freeAtMs).toBe(world.nowMs + UNLOCK_MS);
  });

  test("is free at once when it is unlocked, by its handle or by its request", () => {
    for (const byHandle of [true, false]) {
      const { world, grant } = contested();
      release(world, grant);
      expect(refusal(byHandle ? world.unlock(grant.handle) : world.cancel("A")).code).toBe("lost");
      expect(world.holders()).toEqual(["B"]);
      expect(confirm(world)).toMatchObject({ mismatch: false });
    }
  });

  test("is free an unlock duration after the order when it is detached or its holder is stated to be dead", () => {
    for (const { detached, dead } of [{ detached: true, dead: false }, { detached: false, dead: true }]) {
      const { world, grant } = contested({ detached });
      expect(release(world, grant, dead)).toMatchObject({ freeMs: UNLOCK_MS });
      expect(kept(world)).toBe(UNLOCK_MS);
    }
  });

  test("can be stated to be a dead holder's later, which is recorded", () => {
    const { world, grant } = contested();
    release(world, grant);
    world.advance(3_000);
    expect(release(world, grant)).toMatchObject({ freeMs: DURATION_MS + UNLOCK_MS - 3_000 });
    expect(release(world, grant, true)).toMatchObject({ freeMs: UNLOCK_MS });
    world.advance(600);
    expect(release(world, grant, true)).toMatchObject({ freeMs: UNLOCK_MS - 600 });
    const forced = world.events.filter((event) => event.event === "forced").map((event) => event.reason);
    expect(forced).toEqual(["by admin: stuck", "by admin, who states that the holder is dead: stuck"]);
    expect(kept(world)).toBe(UNLOCK_MS - 600);
  });

  test("is recorded without a dangling colon when nobody gave a reason", () => {
    const { world, grant } = contested();
    world.step({ kind: "release", object: "x", token: grant.token, reason: "", by: "admin" });
    expect(world.events.find((event) => event.event === "forced")?.reason).toBe("by admin");
  });

  test("is named as leaving to whoever does not get it", () => {
    const { world, grant } = contested();
    release(world, grant);
    world.open("C");
    const now = refusal(world.lock("C", { waitMs: 0 }));
    expect(now.message).toContain(`token ${grant.token}, told to leave, since `);
    world.wait("C", { waitMs: 100 });
    world.advance(100);
    expect(world.effects).toMatchObject([{ kind: "lockfailed", code: "timedout", message: expect.stringMatching(/^not obtained in time: "x" is locked by .*, told to leave, since .*; position 2 in the queue$/) }]);
  });

  test("keeps its lock-delay", () => {
    const { world, grant } = contested({ lockDelayMs: 300 });
    release(world, grant, true);
    expect(kept(world)).toBe(UNLOCK_MS + 300);
  });

  test("that ended just before, or is in its grace, is not held longer for it", () => {
    const { world, grant } = contested();
    world.nowMs += DURATION_MS + 100;
    expect(release(world, grant, true)).toMatchObject({ freeMs: UNLOCK_MS - 100 });
    expect(world.events.some((event) => event.event === "forced")).toBe(false);
    expect(kept(world)).toBe(UNLOCK_MS - 100);
  });

  test("needs the token of the present holder, which a wrong one is told", () => {
    const world = new World();
    world.open("A", "B");
    const former = world.hold("A");
    world.unlock(former.handle);
    const present = world.hold("B");
    const ask = (object: string, token: number) =>
      refusal(world.step({ kind: "release", object, token, reason: "", by: "admin" }));
    const answer = ask("x", former.token);
    expect(answer.code).toBe("notfound");
    expect(answer.message).toContain(`token ${present.token} by B on B.example`);
    expect(ask("y", present.token).message).toContain("nobody holds it");
    expect(world.holders()).toEqual(["B"]);
  });
});

describe("a restart", () => {
  const restart = (world: World, rebooted = false): void => {
    world.recover();
    world.step({ kind: "restart", rebooted });
    world.openWith("B", { generation: 2 });
  };

  test("forgets neither that a force was not heard nor that it was confirmed", () => {
    for (const confirmed of [false, true]) {
      const { world, grant } = contested();
      release(world, grant);
      if (confirmed) confirm(world);
      restart(world);
      expect(kept(world)).toBe(confirmed ? UNLOCK_MS : DURATION_MS + UNLOCK_MS);
    }
  });

  test("lets the session confirm after it", () => {
    const { world, grant } = contested();
    release(world, grant);
    restart(world);
    world.openWith("A", { generation: 2 });
    world.advance(2_000);
    confirm(world);
    expect(kept(world)).toBe(UNLOCK_MS);
  });

  test("of the machine starts the lease of a holder anew that did not hear, and the grace of one that did", () => {
    for (const confirmed of [false, true]) {
      const { world, grant } = contested();
      release(world, grant);
      if (confirmed) confirm(world);
      world.advance(500);
      restart(world, true);
      expect(kept(world)).toBe(confirmed ? UNLOCK_MS : DURATION_MS + UNLOCK_MS);
    }
  });

  test("goes on with a kick that it has cut short", () => {
    const world = new World({ ...new World().limits, workPerStepMax: 1 });
    world.open("A");
    for (const object of ["a", "b", "c"]) world.hold("A", { objects: [object], request: object, unlockDurationMs: UNLOCK_MS });
    expect(world.single({ kind: "kick", session: "A", reason: "", by: "admin", dead: true }).more).toBe(true);
    expect(world.tickets().map((ticket) => ticket.state)).toContain("locked");
    world.recover();
    world.step({ kind: "restart", rebooted: false });
    world.advance(UNLOCK_MS);
    expect(world.tickets()).toEqual([]);
  });
});

describe("a kick", () => {
  test("takes what its session holds as a release does: the end of the lease, or what the session confirms", () => {
    for (const confirmed of [false, true]) {
      const { world } = contested();
      expect(kick(world)).toEqual({ kind: "kicked", tickets: 1 });
      expect(world.effects[0]).toMatchObject({ kind: "unlocking", reason: "kicked", leftMs: UNLOCK_MS });
      world.advance(400);
      // the session has ended, but what it says of the lock counts
      if (confirmed) expect(refusal(confirm(world)).code).toBe("lost");
      expect(kept(world)).toBe(confirmed ? UNLOCK_MS : DURATION_MS + UNLOCK_MS - 400);
    }
  });

  test("by somebody who states that the client is dead waits only the unlock duration, also when stated later", () => {
    for (const later of [false, true]) {
      const { world } = contested();
      if (later) kick(world);
      kick(world, true);
      // and one without that word takes nothing back
      kick(world);
      expect(kept(world)).toBe(UNLOCK_MS);
      const kicked = world.events.filter((event) => event.event === "kicked");
      expect(kicked.at(-1)?.reason).toContain("who states that the holder is dead");
    }
  });

  test("of very many locks is confirmed in parts, so that no step takes long", () => {
    const world = new World({ ...LIMITS, objectsMax: 20_000, ticketsMax: 20_000, ticketsPerSessionMax: 20_000, workPerStepMax: 1_000 });
    world.open("A");
    for (let index = 0; index < 15_000; index++) world.single({ kind: "lock", session: "A", request: `r${index}`, spec: specOf({ objects: [`o${index}`], durationMs: 600_000 }), handle: `h${index}`, message: 1 });
    kick(world);
    const open = () => world.tickets().filter(({ freeAtMs = 0 }) => freeAtMs > world.nowMs + 5_000).length;
    const left = [open()];
    for (let round = 0; round < 2; round++) {
      world.renew("A", 15_000, { count: 0, digest: [0, 0] });
      left.push(open());
    }
    expect(left).toEqual([15_000, 5_000, 0]);
  });

  test("leaves a lock that was forced out before as it is", () => {
    const { world, grant } = contested();
    release(world, grant);
    kick(world);
    expect(world.events.filter((event) => event.event === "kicked")).toEqual([]);
    expect(kept(world)).toBe(DURATION_MS + UNLOCK_MS);
  });
});

test("a session that closed itself is not a holder that stopped: its lock ends with its lease, forced out or not", () => {
  for (const forced of [false, true]) {
    const { world, grant } = contested();
    world.step({ kind: "close", session: "A" });
    if (forced) release(world, grant);
    expect(kept(world)).toBe(DURATION_MS + UNLOCK_MS);
  }
});

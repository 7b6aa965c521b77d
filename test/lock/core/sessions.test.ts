import { describe, expect, test } from "bun:test";
import { World, refusal } from "./kit.ts";

const disconnect = (world: World, session: string, generation = 1) => world.step({ kind: "disconnect", session, generation });

describe("taking a session over", () => {
  test("needs the same secret and a higher generation", () => {
    const world = new World();
    expect(world.openWith("A")).toEqual({ kind: "opened", tickets: [], resumed: false });
    expect(refusal(world.openWith("A", { generation: 2, secretHash: "guessed" })).code).toBe("denied");
    expect(refusal(world.openWith("A", { generation: 1 })).message).toContain("stale");
    expect(world.openWith("A", { generation: 2 })).toMatchObject({ resumed: true });
    expect(refusal(world.openWith("A", { generation: 2 })).code).toBe("denied");
  });

  test("answers with its tickets, and the time that is left of what it holds", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("B", { objects: ["y"] });
    const grant = world.hold("A", { objects: ["x"], request: "r1", durationMs: 5_000 });
    world.wait("A", { objects: ["y"], request: "r2" });
    world.hold("A", { objects: ["z"], request: "r3", durationMs: 500, unlockDurationMs: 60_000 });
    disconnect(world, "A");
    world.advance(1_000);
    const answer = world.openWith("A", { generation: 2 });
    expect(answer).toMatchObject({
      resumed: true,
      tickets: [
        { request: "r1", objects: ["x"], state: "locked", grant: { token: grant.token, leftMs: 4_000, handle: grant.handle } },
        { request: "r2", objects: ["y"], state: "waiting" },
        { request: "r3", objects: ["z"], state: "unlocking", grant: { leftMs: 0 } },
      ],
    });
    if (answer.kind !== "opened") throw new Error("not opened");
    expect(world.table.ownTickets("A")).toEqual([...answer.tickets]);
    expect(world.table.ownTickets("nobody")).toBeNull();
  });

  test("brings the new holder, also into the records", () => {
    const world = new World();
    world.open("A");
    world.hold("A");
    const holder = { name: "moved", host: "h", pid: 7, program: "p", address: "198.51.100.7:1", commandLine: "line" };
    world.step({ kind: "open", session: "A", secretHash: "secret of A", generation: 2, graceMs: 1_000, holder });
    world.recover();
    expect(world.tickets()[0]?.holder).toEqual(holder);
  });

  test("the end of a replaced connection means nothing", () => {
    const world = new World();
    world.open("A", "B");
    const grant = world.hold("A");
    world.wait("B");
    world.openWith("B", { generation: 2 });
    expect(disconnect(world, "B", 1)).toEqual({ kind: "done" });
    world.unlock(grant.handle);
    expect(world.granted()).toEqual(["B"]);
  });
});

describe("a session whose connection is gone", () => {
  test("is passed over while it is away and has its old place when it is back", () => {
    const world = new World();
    world.open("H", "A", "B", "C");
    const grant = world.hold("H");
    world.wait("A");
    world.wait("B");
    disconnect(world, "A");
    expect(world.tickets().map((ticket) => [ticket.session, ticket.position])).toEqual([
      ["H", undefined],
      ["A", 1],
      ["B", 1],
    ]);
    world.unlock(grant.handle);
    expect(world.granted()).toEqual(["B"]);
    world.wait("C");
    world.openWith("A", { generation: 2 });
    expect(world.waiters()).toEqual(["A", "C"]);
    world.cancel("B");
    expect(world.granted()).toEqual(["A"]);
  });

  test("loses its waiting tickets when its grace is over, and a dead crowd holds nobody up", () => {
    const world = new World();
    world.open("H", "LIVE");
    const grant = world.hold("H", { durationMs: 600_000 });
    for (let index = 0; index < 50; index++) {
      world.openWith(`dead ${index}`, { graceMs: 3_000 });
      world.wait(`dead ${index}`);
    }
    world.wait("LIVE");
    for (let index = 0; index < 50; index++) disconnect(world, `dead ${index}`);
    world.unlock(grant.handle);
    expect(world.granted()).toEqual(["LIVE"]);
    world.advance(2_999);
    expect(world.effects).toEqual([]);
    world.advance(1);
    expect(world.effects).toHaveLength(50);
    expect(world.effects[0]).toMatchObject({ kind: "lockfailed", session: "dead 0", code: "lost" });
    expect(world.waiters()).toEqual([]);
    // without tickets and beyond their grace they are forgotten
    expect(world.table.statistics().sessions).toBe(2);
  });

  test("keeps what it holds until the duration is over, not a moment shorter", () => {
    const world = new World();
    world.openWith("A", { graceMs: 1_000 });
    world.hold("A", { durationMs: 30_000 });
    disconnect(world, "A");
    world.advance(29_999);
    expect(world.holders()).toEqual(["A"]);
    world.advance(1);
    expect(world.sessionsIn("unlocking")).toEqual(["A"]);
    world.advance(5_000);
    expect(world.table.statistics()).toMatchObject({ sessions: 0, tickets: 0, objects: 0 });
  });

  test("cannot ask for more", () => {
    const world = new World();
    world.open("A");
    disconnect(world, "A");
    expect(refusal(world.lock("A")).code).toBe("unavailable");
  });
});

test("a connected session that says nothing for its grace loses its waiting tickets too", () => {
  const world = new World();
  world.open("H");
  world.openWith("A", { graceMs: 3_000 });
  world.hold("H", { durationMs: 600_000 });
  world.wait("A");
  world.advance(2_000);
  world.renew("A", 0, { tokens: [] });
  expect(world.advance(2_999)).toEqual([]);
  expect(world.advance(1)).toEqual([expect.objectContaining({ kind: "lockfailed", session: "A", code: "lost" })]);
  expect(world.table.statistics().sessions).toBe(2);
});

describe("close", () => {
  test("drops what waits, lets what is held run out, and forgets the session after it", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("B", { objects: ["y"], durationMs: 600_000 });
    world.hold("A", { objects: ["x"], request: "r1", durationMs: 1_000, unlockDurationMs: 500 });
    world.wait("A", { objects: ["y"], request: "r2" });
    expect(world.step({ kind: "close", session: "A" })).toEqual({ kind: "done" });
    expect(world.effects).toEqual([expect.objectContaining({ kind: "lockfailed", request: "r2", code: "cancelled" })]);
    expect(world.holders("x")).toEqual(["A"]);
    expect(refusal(world.lock("A", { objects: ["z"] })).code).toBe("notfound");
    expect(refusal(world.renew("A", 0, { tokens: [] })).code).toBe("lost");
    world.advance(1_500);
    expect(world.table.statistics().sessions).toBe(1);
    expect(refusal(world.step({ kind: "close", session: "A" })).code).toBe("notfound");
  });

  test("without tickets it is forgotten at once, and its record is deleted", () => {
    const world = new World();
    world.open("A");
    world.step({ kind: "close", session: "A" });
    expect(world.table.statistics().sessions).toBe(0);
    expect([...world.stored.keys()]).not.toContain("s/A");
  });
});

describe("the list of sessions", () => {
  const listed = (world: World) => world.table.sessions({ after: null, limit: 10, nowMs: world.nowMs }).sessions.map(({ session, held, waiting }) => [session, held, waiting]);

  test("counts no detached lock as held, and leaves out who has nothing else and is gone", () => {
    const world = new World();
    world.open("A", "C");
    world.openWith("B", { graceMs: 5_000 });
    for (const session of ["A", "B"]) world.hold(session, { objects: [session], request: "r1", detached: true, durationMs: 600_000 });
    world.hold("C", { objects: ["c1"], request: "r1", detached: true, durationMs: 600_000 });
    world.hold("C", { objects: ["c2"], request: "r2", durationMs: 600_000 });
    expect(listed(world)).toEqual([["A", 0, 0], ["B", 0, 0], ["C", 1, 0]]);
    world.step({ kind: "close", session: "A" });
    disconnect(world, "B");
    world.step({ kind: "close", session: "C" });
    expect(listed(world)).toEqual([["B", 0, 0], ["C", 1, 0]]);
    world.advance(60_000);
    expect(listed(world)).toEqual([["C", 1, 0]]);
    // the locks are there all the same
    expect(world.tickets()).toHaveLength(4);
  });

  test("in pages passes over them without ending before the last", () => {
    const world = new World();
    world.open("A", "B", "C", "D");
    for (const session of ["A", "B", "C"]) {
      world.hold(session, { objects: [session], request: "r1", detached: true, durationMs: 600_000 });
      world.step({ kind: "close", session });
    }
    expect(world.table.sessions({ after: null, limit: 2 })).toEqual({ sessions: [], next: "B" });
    expect(world.table.sessions({ after: "B", limit: 2 })).toMatchObject({ sessions: [{ session: "D" }], next: null });
  });
});

describe("kick", () => {
  test("tells the holder to leave, fails what waits, and ends the session", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("B", { objects: ["y"], durationMs: 600_000 });
    const grant = world.hold("A", { objects: ["x"], request: "r1", unlockDurationMs: 800 });
    world.wait("A", { objects: ["y"], request: "r2" });
    expect(world.step({ kind: "kick", session: "A", reason: "stuck", by: "admin" })).toEqual({ kind: "kicked", tickets: 2 });
    expect(world.effects).toEqual([
      { kind: "unlocking", session: "A", request: "r1", token: grant.token, leftMs: 800, reason: "kicked" },
      expect.objectContaining({ kind: "lockfailed", request: "r2", code: "cancelled", message: "the session was kicked by admin: stuck" }),
    ]);
    expect(world.events.filter((event) => event.event === "kicked")).toHaveLength(2);
    expect(refusal(world.openWith("A", { generation: 2 })).code).toBe("denied");
    expect(refusal(world.renew("A", 1, { tokens: [grant.token] })).message).toContain("kicked by admin");
    // it has heard: the last that this session has to say
    expect(refusal(world.renew("A", 1, { tokens: [] })).code).toBe("lost");
    world.advance(800);
    expect(world.effects).toEqual([expect.objectContaining({ kind: "unlocked", reason: "kicked" })]);
    expect(world.openWith("A", { generation: 1 })).toMatchObject({ kind: "opened", resumed: false });
  });

  test("leaves a detached lock to its handle, and ends what waits to become one", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("B", { objects: ["y"], durationMs: 600_000 });
    const grant = world.hold("A", { objects: ["x"], request: "r1", detached: true, durationMs: 600_000 });
    world.wait("A", { objects: ["y"], request: "r2", detached: true });
    expect(world.step({ kind: "kick", session: "A", reason: "stuck", by: "admin" })).toEqual({ kind: "kicked", tickets: 1 });
    expect(world.effects).toEqual([expect.objectContaining({ kind: "lockfailed", request: "r2", code: "cancelled" })]);
    expect(world.step({ kind: "kick", session: "A", reason: "dead", by: "admin", dead: true })).toEqual({ kind: "kicked", tickets: 0 });
    expect(world.tickets().filter(({ object }) => object === "x")).toEqual([expect.objectContaining({ state: "locked", token: grant.token })]);
  });

  test("of an unknown session is refused, as is everything else of one", () => {
    const world = new World();
    expect(refusal(world.step({ kind: "kick", session: "A", reason: "", by: "" })).code).toBe("notfound");
    expect(refusal(world.lock("A")).code).toBe("notfound");
    expect(refusal(world.cancel("A")).code).toBe("notfound");
    expect(refusal(world.renew("A", 0, { tokens: [] })).code).toBe("notfound");
    expect(disconnect(world, "A")).toEqual({ kind: "done" });
  });
});

describe("restart", () => {
  test("nobody is connected, held locks keep their ends, waiting ones their places", () => {
    const world = new World();
    world.open("A");
    world.openWith("B", { graceMs: 5_000 });
    world.openWith("C", { graceMs: 5_000 });
    const grant = world.hold("A", { durationMs: 10_000 });
    world.wait("B");
    world.wait("C");
    world.advance(4_000);
    world.recover();
    world.step({ kind: "restart", rebooted: false });
    expect(world.tickets()[0]?.expiresMs).toBe(world.nowMs + 6_000);
    expect(world.table.sessions({ after: null, limit: 10 }).sessions.every((session) => !session.connected)).toBe(true);
    world.openWith("C", { generation: 2, graceMs: 5_000 });
    world.openWith("B", { generation: 2, graceMs: 5_000 });
    world.unlock(grant.handle);
    expect(world.effects).toEqual([expect.objectContaining({ kind: "locked" })]);
    expect(world.granted()).toEqual(["B"]);
  });

  test("who does not come back within the grace from the restart loses what waits", () => {
    const world = new World();
    world.open("A");
    world.openWith("B", { graceMs: 5_000 });
    world.hold("A", { durationMs: 600_000 });
    world.wait("B");
    world.advance(4_000);
    world.recover();
    world.step({ kind: "restart", rebooted: false });
    expect(world.advance(4_999)).toEqual([]);
    expect(world.advance(1)).toEqual([expect.objectContaining({ kind: "lockfailed", session: "B", code: "lost" })]);
  });

  test("after a reboot each lease and each grace starts anew", () => {
    const world = new World();
    world.open("A", "B");
    const renewed = world.hold("A", { objects: ["a"], request: "a", durationMs: 10_000 });
    world.keepAlive("A", [renewed]);
    world.hold("B", { objects: ["b"], durationMs: 500, unlockDurationMs: 8_000 });
    world.advance(5_000);
    world.recover();
    world.step({ kind: "restart", rebooted: true });
    expect(world.tickets("a")[0]?.expiresMs).toBe(world.nowMs + 10_000);
    expect(world.tickets("b")[0]?.freeAtMs).toBe(world.nowMs + 8_000);
  });

  test("a lease that ended while the server was down is over, and tokens go on rising", () => {
    const world = new World();
    world.open("A");
    const grant = world.hold("A", { durationMs: 1_000 });
    world.recover();
    world.nowMs += 60_000;
    world.step({ kind: "restart", rebooted: false });
    expect(world.tickets()).toEqual([]);
    world.open("B");
    expect(world.hold("B").token).toBe(grant.token + 1);
    expect(refusal(world.unlock(grant.handle)).code).toBe("lost");
  });
});

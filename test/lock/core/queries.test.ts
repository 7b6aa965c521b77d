import { describe, expect, test } from "bun:test";
import { World } from "./kit.ts";

describe("list", () => {
  test("one holder and five waiters: everybody's position, falling by one with each release", () => {
    const world = new World();
    world.open("H", "W1", "W2", "W3", "W4", "W5");
    let handle = world.hold("H", { value: "build 7" }).handle;
    const handles = ["W1", "W2", "W3", "W4", "W5"].map((session) => world.wait(session, { waitMs: 60_000 }));
    expect(world.tickets()[0]).toMatchObject({
      object: "x",
      state: "locked",
      mode: "exclusive",
      holder: { name: "H", host: "H.example", pid: 101, program: "job", address: "192.0.2.1:5000" },
      session: "H",
      detached: false,
      token: 1,
      sinceMs: world.nowMs,
      value: "build 7",
    });
    expect(world.tickets()[0]).not.toHaveProperty("position");
    expect(world.tickets()[1]).toMatchObject({ position: 1, waitDeadlineMs: world.nowMs + 60_000 });
    expect(world.tickets()[1]).not.toHaveProperty("token");
    for (const next of handles) {
      const positions = world.tickets().flatMap((ticket) => ticket.position ?? []);
      expect(positions).toEqual(positions.map((_, index) => index + 1));
      world.unlock(handle);
      handle = next;
    }
    expect(world.holders()).toEqual(["W5"]);
  });

  test("shows the command line only where it is shared, and the permits of a semaphore", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("A", { objects: ["a"], commandLine: "deploy --fast" });
    world.hold("B", { objects: ["b"], mode: "semaphore", permits: 3, count: 2 });
    expect(world.tickets()[0]?.holder.commandLine).toBe("deploy --fast");
    expect(world.tickets()[1]?.holder).not.toHaveProperty("commandLine");
    expect(world.tickets()[1]).toMatchObject({ permits: 3, count: 2 });
  });

  test("pages of any size give every row once, in order, and end", () => {
    const world = new World();
    world.open("A", "B", "C");
    world.hold("A", { objects: ["a", "b", "b/1", "c"] });
    world.wait("B", { objects: ["b", "b/1"] });
    world.wait("C", { objects: ["b"] });
    const all = world.tickets().map((ticket) => `${ticket.object} ${ticket.number}`);
    expect(all).toEqual(["a 1", "b 1", "b 2", "b 3", "b/1 1", "b/1 2", "c 1"]);
    for (const limit of [1, 2, 3, 7, 8]) {
      const rows: string[] = [];
      let after: readonly [string, number] | null = null;
      for (let pages = 0; pages < 20; pages++) {
        const page: ReturnType<typeof world.table.list> = world.table.list({ prefix: "", after, limit });
        expect(page.tickets.length).toBeLessThanOrEqual(limit);
        rows.push(...page.tickets.map((ticket) => `${ticket.object} ${ticket.number}`));
        after = page.next;
        if (after === null) break;
      }
      expect(rows).toEqual(all);
    }
  });

  test("a prefix matches the beginning of the name and nothing else", () => {
    const world = new World();
    world.open("A");
    world.hold("A", { objects: ["a", "ab", "ab/c", "b", "ba"] });
    const under = (prefix: string) => world.tickets(prefix).map((ticket) => ticket.object);
    expect(under("ab")).toEqual(["ab", "ab/c"]);
    expect(under("b")).toEqual(["b", "ba"]);
    expect(under("c")).toEqual([]);
    expect(world.table.list({ prefix: "b", after: ["ab", 1], limit: 9 }).tickets).toHaveLength(2);
    expect(world.table.list({ prefix: "ab", after: ["b", 1], limit: 9 }).tickets).toEqual([]);
  });

  test("goes on where it was when tickets left in between", () => {
    const world = new World();
    world.open("A", "B", "C");
    const first = world.hold("A", { mode: "shared" });
    const second = world.hold("B", { mode: "shared" });
    world.hold("C", { mode: "shared" });
    const page = world.table.list({ prefix: "", after: null, limit: 2 });
    world.unlock(first.handle);
    world.unlock(second.handle);
    const rest = world.table.list({ prefix: "", after: page.next, limit: 2 });
    expect(rest.tickets.map((ticket) => ticket.session)).toEqual(["C"]);
  });
});

describe("why", () => {
  test("names holders and waiters, counts those it does not show, and tells the delay", () => {
    const world = new World();
    world.open("R1", "R2", "W1", "W2", "W3");
    world.hold("R1", { mode: "shared", durationMs: 500, unlockDurationMs: 500, lockDelayMs: 9_000 });
    world.hold("R2", { mode: "shared", durationMs: 600_000 });
    for (const session of ["W1", "W2", "W3"]) world.wait(session);
    world.advance(1_000);
    const view = world.table.why("x", { waitersMax: 2 });
    expect(view.holders.map((ticket) => ticket.session)).toEqual(["R2"]);
    expect(view.waiters.map((ticket) => ticket.session)).toEqual(["W1", "W2"]);
    expect(view).toMatchObject({ holdersTotal: 1, waitersTotal: 3, delayUntilMs: world.nowMs + 9_000, cycle: [] });
  });

  test("of an object that nobody knows is empty", () => {
    expect(new World().table.why("x", { waitersMax: 5 })).toEqual({
      holders: [],
      holdersTotal: 0,
      waiters: [],
      waitersTotal: 0,
      delayUntilMs: null,
      cycle: [],
    });
  });
});

test("an object is free when nobody holds it, waits for it, or is kept from it", () => {
  const world = new World();
  world.open("A", "B", "C");
  expect(world.table.isFree("x", world.nowMs)).toBe(true);
  const y = world.hold("A", { objects: ["y"] });
  world.wait("B", { objects: ["x", "y"] });
  expect(world.table.isFree("x", world.nowMs)).toBe(false);
  world.cancel("B");
  expect(world.table.isFree("x", world.nowMs)).toBe(true);
  expect(world.table.isFree("y", world.nowMs)).toBe(false);
  world.unlock(y.handle);
  expect(world.table.isFree("y", world.nowMs)).toBe(true);
});

test("sessions come in pages, ordered by id", () => {
  const world = new World();
  world.open("B", "A", "C");
  world.hold("A", { objects: ["x"] });
  world.wait("B", { objects: ["x"] });
  const first = world.table.sessions({ after: null, limit: 2 });
  expect(first.sessions).toMatchObject([
    { session: "A", generation: 1, connected: true, held: 1, waiting: 0, heardMs: world.nowMs },
    { session: "B", held: 0, waiting: 1 },
  ]);
  expect(world.table.sessions({ after: first.next, limit: 2 })).toMatchObject({ sessions: [{ session: "C" }], next: null });
  expect(world.table.statistics()).toEqual({ objects: 1, tickets: 2, held: 1, waiting: 1, sessions: 3, lastToken: 1, lastNumber: 2 });
});

describe("position reports", () => {
  test("come when the position changes, to those who asked, with the new one", () => {
    const world = new World();
    world.open("H", "A", "B", "C");
    const grant = world.hold("H");
    const first = world.wait("A");
    world.wait("B", { reportQueue: true });
    world.wait("C");
    expect(world.effects).toEqual([]);
    world.unlock(grant.handle);
    expect(world.effects).toEqual([
      expect.objectContaining({ kind: "locked" }),
      { kind: "queue", session: "B", request: "B", position: 1 },
    ]);
    world.cancel("C");
    expect(world.effects.map((effect) => effect.kind)).toEqual(["lockfailed"]);
    world.unlock(first);
    expect(world.effects.map((effect) => effect.kind)).toEqual(["locked"]);
  });

  test("tell of somebody who comes back in front", () => {
    const world = new World();
    world.open("H", "A", "B");
    world.hold("H");
    world.wait("A");
    world.wait("B", { reportQueue: true });
    world.step({ kind: "disconnect", session: "A", generation: 1 });
    expect(world.effects).toEqual([{ kind: "queue", session: "B", request: "B", position: 1 }]);
    world.openWith("A", { generation: 2 });
    expect(world.effects).toEqual([{ kind: "queue", session: "B", request: "B", position: 2 }]);
  });

  test("every position told last is the true one, however the work was divided", () => {
    for (const workPerStepMax of [1, 3, 1_000]) {
      const world = new World({ ...new World().limits, workPerStepMax });
      world.open("H");
      const told = new Map<string, number>();
      const hear = () => {
        for (const effect of world.effects) if (effect.kind === "queue") told.set(effect.session, effect.position);
      };
      let holder = world.hold("H").handle;
      const handles: string[] = [];
      for (let index = 0; index < 40; index++) {
        world.open(`W${index}`);
        handles.push(world.wait(`W${index}`, { reportQueue: true }));
        told.set(`W${index}`, index + 1);
      }
      for (let round = 0; round < 10; round++) {
        // a change, some of the reports on it, and another change before the rest
        world.single({ kind: "unlock", handle: holder });
        hear();
        for (let tick = 0; tick < 7; tick++) {
          world.single({ kind: "tick" });
          hear();
        }
        world.unlock(handles[2 * round] ?? "");
        hear();
        holder = handles[2 * round + 1] ?? "";
        const waiting = world.tickets().filter((ticket) => ticket.state === "waiting");
        expect(waiting).toHaveLength(38 - 2 * round);
        for (const { session, position } of waiting) expect([session, told.get(session)]).toEqual([session, position]);
      }
    }
  });
});

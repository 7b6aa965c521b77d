import { describe, expect, test } from "bun:test";
import { World, refusal } from "./kit.ts";

const detect = { detectDeadlock: true, durationMs: 600_000 } as const;

describe("a cycle of waiting", () => {
  test("of two is refused to the one who closes it, in words", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("A", { ...detect, objects: ["x"], request: "x" });
    world.hold("B", { ...detect, objects: ["y"], request: "y" });
    world.wait("A", { ...detect, objects: ["y"], request: "y" });
    const answer = refusal(world.lock("B", { ...detect, objects: ["x"], request: "x" }));
    expect(answer.code).toBe("deadlock");
    expect(answer.message).toBe(
      'deadlock: B on B.example (pid 101, job) waits for "x" held by A on A.example (pid 101, job); ' +
        'A on A.example (pid 101, job) waits for "y" held by B on B.example (pid 101, job)',
    );
    expect(world.effects).toEqual([]);
    expect(world.waiters("x")).toEqual([]);
    expect(world.eventsOf("B").slice(-2)).toEqual(["waiting", "failed"]);
    // a retry of that very request hears the same
    expect(refusal(world.lock("B", { ...detect, objects: ["x"], request: "x" })).code).toBe("deadlock");
  });

  test("fails the youngest that asked for detection when the closing one did not", () => {
    const world = new World();
    world.open("A", "B", "C");
    for (const [session, object] of [["A", "x"], ["B", "y"], ["C", "z"]] as const) {
      world.hold(session, { objects: [object], request: "held", durationMs: 600_000 });
    }
    world.wait("A", { ...detect, objects: ["y"], request: "next" });
    world.wait("B", { ...detect, objects: ["z"], request: "next" });
    world.wait("C", { objects: ["x"], request: "next" });
    expect(world.effects).toEqual([expect.objectContaining({ kind: "lockfailed", session: "B", code: "deadlock" })]);
    expect(world.waiters("x")).toEqual(["C"]);
  });

  test("stays when nobody asked for detection, and why shows it", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("A", { objects: ["x"], request: "x" });
    world.hold("B", { objects: ["y"], request: "y" });
    world.wait("A", { objects: ["y"], request: "y" });
    expect(world.table.why("y", { waitersMax: 10 }).cycle).toEqual([]);
    world.wait("B", { objects: ["x"], request: "x" });
    for (const object of ["x", "y"]) {
      const { cycle } = world.table.why(object, { waitersMax: 10 });
      expect(new Set(cycle.map((edge) => `${edge.waiter.session} waits for ${edge.object} of ${edge.holder.session}`))).toEqual(
        new Set(["A waits for y of B", "B waits for x of A"]),
      );
    }
  });

  test("through somebody who waits in front, not only through who holds", () => {
    const world = new World();
    world.open("A", "B", "H");
    world.hold("H", { ...detect, objects: ["x"] });
    world.hold("A", { ...detect, objects: ["y"], request: "y" });
    world.wait("B", { ...detect, objects: ["x"], request: "x" });
    world.wait("A", { ...detect, objects: ["x"], request: "x" });
    expect(refusal(world.lock("B", { ...detect, objects: ["y"], request: "y" })).code).toBe("deadlock");
  });

  test("closed by a session that comes back into its old place", () => {
    const world = new World();
    world.open("A", "B");
    world.hold("A", { ...detect, objects: ["x"], request: "x" });
    world.hold("B", { ...detect, objects: ["y"], request: "y" });
    world.wait("A", { ...detect, objects: ["y"], request: "y" });
    world.step({ kind: "disconnect", session: "A", generation: 1 });
    world.wait("B", { ...detect, objects: ["x"], request: "x" });
    world.openWith("A", { generation: 2 });
    expect(world.effects).toEqual([expect.objectContaining({ kind: "lockfailed", session: "B", code: "deadlock" })]);
  });
});

describe("nested requests act for the session that holds their parent", () => {
  test("two nested runs in crossed order are a deadlock", () => {
    const world = new World();
    world.open("outer 1", "outer 2", "inner 1", "inner 2");
    const x = world.hold("outer 1", { ...detect, objects: ["x"] });
    const y = world.hold("outer 2", { ...detect, objects: ["y"] });
    world.wait("inner 1", { ...detect, objects: ["y"], parents: [x.handle] });
    expect(refusal(world.lock("inner 2", { ...detect, objects: ["x"], parents: [y.handle] })).code).toBe("deadlock");
  });

  test("so is a nested request for what its own parent holds", () => {
    const world = new World();
    world.open("outer", "inner");
    const x = world.hold("outer", { ...detect, mode: "shared" });
    expect(refusal(world.lock("inner", { ...detect, parents: [x.handle] })).code).toBe("deadlock");
    expect(world.lock("inner", { ...detect, mode: "shared", parents: [x.handle], request: "read" }).kind).toBe("locked");
  });

  test("two readers that both upgrade: the second is refused", () => {
    const world = new World();
    world.open("R1", "R2", "U1", "U2");
    const first = world.hold("R1", { ...detect, mode: "shared", objects: ["x"] });
    const second = world.hold("R2", { ...detect, mode: "shared", objects: ["x"] });
    const upgrades = [world.lock("U1", { ...detect, parents: [first.handle] }), world.lock("U2", { ...detect, parents: [second.handle] })];
    expect(upgrades.map((answer) => refusal(answer).code)).toEqual(["deadlock", "deadlock"]);
    expect(world.holders()).toEqual(["R1", "R2"]);
  });

  test("through three levels", () => {
    const world = new World();
    world.open("S1", "S2", "S3", "T");
    const x = world.hold("S1", { ...detect, objects: ["x"] });
    const y = world.hold("S2", { ...detect, objects: ["y"], parents: [x.handle] });
    world.hold("T", { ...detect, objects: ["z"], request: "z" });
    world.wait("T", { ...detect, objects: ["x"], request: "x" });
    expect(refusal(world.lock("S3", { ...detect, objects: ["z"], parents: [y.handle] })).code).toBe("deadlock");
  });

  test("a parent that is not held any more says nothing", () => {
    const world = new World();
    world.open("outer", "inner", "other");
    const x = world.hold("outer", { ...detect, objects: ["x"] });
    world.unlock(x.handle);
    world.hold("other", { ...detect, objects: ["x"] });
    expect(world.lock("inner", { ...detect, objects: ["x"], parents: [x.handle, "never"] }).kind).toBe("waiting");
  });

  test("whom a ticket acts for survives a restart", () => {
    const world = new World();
    world.open("outer 1", "outer 2", "inner 1", "inner 2");
    const x = world.hold("outer 1", { ...detect, objects: ["x"] });
    const y = world.hold("outer 2", { ...detect, objects: ["y"] });
    world.wait("inner 1", { ...detect, objects: ["y"], parents: [x.handle] });
    world.recover();
    expect(refusal(world.lock("inner 2", { ...detect, objects: ["x"], parents: [y.handle] })).code).toBe("deadlock");
  });
});

describe("what is no deadlock", () => {
  test("waiting for a holder who only waits for something free to come", () => {
    const world = new World();
    world.open("A", "B", "C");
    world.hold("A", { ...detect, objects: ["x"], request: "x" });
    world.hold("B", { ...detect, objects: ["y"], request: "y" });
    world.wait("A", { ...detect, objects: ["y"], request: "y" });
    world.wait("C", { ...detect, objects: ["x"], request: "x" });
    expect(world.table.why("x", { waitersMax: 5 }).cycle).toEqual([]);
  });

  test("a semaphore whose other holder may leave", () => {
    const world = new World();
    const permits = { mode: "semaphore", permits: 2, count: 1 } as const;
    world.open("A", "B", "C");
    world.hold("A", { ...detect, ...permits, objects: ["x"], request: "x" });
    world.hold("B", { ...detect, ...permits, objects: ["x"], request: "x" });
    world.hold("C", { ...detect, objects: ["y"], request: "y" });
    world.wait("A", { ...detect, objects: ["y"], request: "y" });
    expect(world.lock("C", { ...detect, ...permits, objects: ["x"], request: "x" }).kind).toBe("waiting");
  });

  test("waiting for one's own lock while its grace runs out", () => {
    const world = new World();
    world.open("A");
    world.hold("A", { durationMs: 500, request: "r1" });
    world.advance(500);
    expect(world.lock("A", { ...detect, request: "r2" }).kind).toBe("waiting");
  });
});

describe("a search in a crowd", () => {
  /** The first of a crowd of readers waits for the last session, which then waits behind the crowd. */
  function closeBehind(readers: number): string {
    const world = new World({ ...new World().limits, waitersPerObjectMax: 10_000, sessionsMax: 10_000, ticketsMax: 20_000 });
    world.open("H", "LAST");
    world.hold("H", { ...detect, objects: ["x"] });
    world.hold("LAST", { ...detect, objects: ["own"], request: "own" });
    for (let index = 0; index < readers; index++) {
      world.open(`R${index}`);
      world.wait(`R${index}`, { ...detect, objects: ["x"], mode: "shared" });
    }
    world.wait("R0", { ...detect, objects: ["own"], request: "own" });
    const answer = world.lock("LAST", { ...detect, objects: ["x"] });
    return answer.kind === "refused" ? answer.code : answer.kind;
  }

  test("finds a cycle some hundreds of tickets away", () => expect(closeBehind(500)).toBe("deadlock"));
  test("ends at its bound, and the request waits", () => expect(closeBehind(5_000)).toBe("waiting"));
});

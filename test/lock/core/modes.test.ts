import { describe, expect, test } from "bun:test";
import { World, refusal } from "./kit.ts";

const shared = { mode: "shared" } as const;
const permits = (count: number, limit = 3) => ({ mode: "semaphore", permits: limit, count }) as const;

describe("shared", () => {
  test("readers hold together; a waiting writer stops later readers; then they come in order", () => {
    const world = new World();
    world.open("R1", "R2", "W", "R3", "R4");
    const first = world.hold("R1", shared);
    const second = world.hold("R2", shared);
    const writer = world.wait("W");
    world.wait("R3", shared);
    world.wait("R4", shared);
    world.unlock(first.handle);
    expect(world.granted()).toEqual([]);
    world.unlock(second.handle);
    expect(world.granted()).toEqual(["W"]);
    world.unlock(writer);
    expect(world.granted()).toEqual(["R3", "R4"]);
  });

  test("when the waiting writer gives up, the readers behind it join those who hold", () => {
    const world = new World();
    world.open("R1", "W", "R2");
    world.hold("R1", shared);
    world.wait("W", { waitMs: 1_000 });
    world.wait("R2", shared);
    world.advance(1_000);
    expect(world.granted()).toEqual(["R2"]);
    expect(world.holders()).toEqual(["R1", "R2"]);
  });
});

describe("semaphore", () => {
  test("as many permits as there are, in order, and a small request does not pass a large one", () => {
    const world = new World();
    world.open("A", "B", "C", "D");
    const one = world.hold("A", permits(1));
    world.hold("B", permits(1));
    world.wait("C", permits(2));
    world.wait("D", permits(1));
    expect(world.holders()).toEqual(["A", "B"]);
    world.unlock(one.handle);
    expect(world.granted()).toEqual(["C"]);
    expect(world.waiters()).toEqual(["D"]);
  });

  test("another number of permits is refused, naming the one in force, while any ticket lives", () => {
    const world = new World();
    world.open("A", "B");
    const grant = world.hold("A", permits(1, 3));
    const answer = refusal(world.lock("B", permits(1, 5)));
    expect(answer.code).toBe("invalid");
    expect(answer.message).toContain("limit mismatch");
    expect(answer.message).toContain("3 permits");
    world.advance(10_000);
    expect(world.sessionsIn("unlocking")).toEqual(["A"]);
    expect(refusal(world.lock("B", permits(1, 5))).code).toBe("invalid");
    world.unlock(grant.handle);
    expect(world.hold("B", permits(1, 5)).token).toBe(2);
  });

  test("more permits than there are can never be had", () => {
    const world = new World();
    world.open("A");
    expect(refusal(world.lock("A", permits(4, 3))).code).toBe("invalid");
  });

  test("other modes at the same object wait for each other", () => {
    const world = new World();
    world.open("A", "B", "C");
    const semaphore = world.hold("A", permits(1));
    const reader = world.wait("B", shared);
    world.wait("C");
    world.unlock(semaphore.handle);
    expect(world.granted()).toEqual(["B"]);
    world.unlock(reader);
    expect(world.granted()).toEqual(["C"]);
  });
});

describe("several objects", () => {
  test("all or none: it is granted when the last of them is free", () => {
    const world = new World();
    world.open("A", "B", "C");
    const x = world.hold("A", { objects: ["x"] });
    const y = world.hold("B", { objects: ["y"] });
    world.wait("C", { objects: ["x", "y"] });
    world.unlock(x.handle);
    expect(world.granted()).toEqual([]);
    expect(world.holders("x")).toEqual([]);
    world.unlock(y.handle);
    expect(world.granted()).toEqual(["C"]);
    expect(world.holders("x")).toEqual(["C"]);
    expect(world.holders("y")).toEqual(["C"]);
    expect(world.eventsOf("C")).toEqual(["waiting", "waiting", "granted", "granted"]);
  });

  test("while one of them is not free it keeps its place at the others", () => {
    const world = new World();
    world.open("A", "B", "C", "D");
    const y = world.hold("A", { objects: ["y"] });
    const both = world.wait("B", { objects: ["x", "y"] });
    world.wait("C", { objects: ["x"] });
    expect(world.holders("x")).toEqual([]);
    world.unlock(y.handle);
    expect(world.granted()).toEqual(["B"]);
    world.unlock(both);
    expect(world.granted()).toEqual(["C"]);
  });

  test("who goes together with it passes it, who does not waits behind it", () => {
    const world = new World();
    world.open("A", "B", "C", "D");
    world.hold("A", { objects: ["y"] });
    world.wait("B", { ...shared, objects: ["x", "y"] });
    expect(world.lock("C", { ...shared, objects: ["x"] }).kind).toBe("locked");
    expect(world.lock("D", { objects: ["x"] }).kind).toBe("waiting");
  });

  test("its permits count at each of its objects", () => {
    const world = new World();
    world.open("A", "B", "C");
    world.hold("A", { objects: ["y"] });
    world.wait("B", { ...permits(2), objects: ["x", "y"] });
    expect(world.lock("C", { ...permits(2), objects: ["x"] }).kind).toBe("waiting");
  });

  test("two such requests over crossed objects never lock each other out", () => {
    const world = new World();
    world.open("A", "B", "C");
    const first = world.hold("C", { objects: ["x", "y"] });
    world.wait("A", { objects: ["x", "y"], detectDeadlock: true });
    world.wait("B", { objects: ["x", "y"], detectDeadlock: true });
    world.unlock(first.handle);
    expect(world.granted()).toEqual(["A"]);
  });

  test("a reserved ticket that comes back after a disconnect is granted when it can be", () => {
    const world = new World();
    world.open("A", "B");
    const x = world.hold("A", { objects: ["x"] });
    world.wait("B", { objects: ["x", "y"] });
    world.step({ kind: "disconnect", session: "B", generation: 1 });
    world.openWith("B", { generation: 2 });
    world.unlock(x.handle);
    expect(world.granted()).toEqual(["B"]);
  });

  test("a ticket that comes back in front takes the place of those reserved behind it", () => {
    const world = new World();
    world.open("H", "FRONT", "BOTH", "Z");
    const y = world.hold("H", { objects: ["y"] });
    world.hold("Z", { objects: ["x"], request: "hold" });
    world.wait("FRONT", { objects: ["x"] });
    world.step({ kind: "disconnect", session: "FRONT", generation: 1 });
    world.cancel("Z", "hold");
    world.wait("BOTH", { objects: ["x", "y"] });
    // x is free and reserved for BOTH; now somebody with an earlier number is back
    world.openWith("FRONT", { generation: 2 });
    expect(world.granted()).toEqual(["FRONT"]);
    world.unlock(y.handle);
    expect(world.holders("y")).toEqual([]);
    world.cancel("FRONT");
    expect(world.granted()).toEqual(["BOTH"]);
  });

  test("a lock-delay at one object stops a ticket that was eligible there", () => {
    const world = new World();
    world.open("A", "B", "C");
    world.hold("A", { objects: ["x"], ...shared, durationMs: 1_000, unlockDurationMs: 500, lockDelayMs: 10_000 });
    const y = world.hold("B", { objects: ["y"], durationMs: 60_000 });
    world.wait("C", { objects: ["x", "y"], ...shared });
    world.advance(1_500);
    world.unlock(y.handle);
    expect(world.granted()).toEqual([]);
    world.advance(10_000);
    expect(world.granted()).toEqual(["C"]);
  });
});

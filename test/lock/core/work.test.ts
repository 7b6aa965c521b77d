import { describe, expect, test } from "bun:test";
import type { LockEffect } from "../../../plugins/lock/core/types.ts";
import { LIMITS, World, specOf } from "./kit.ts";

const CROWD = 200;

function crowd(workPerStepMax: number): World {
  return new World({ ...LIMITS, workPerStepMax });
}

/** The effects of each step until nothing is due. */
function ticks(world: World): LockEffect[][] {
  const steps: LockEffect[][] = [];
  while (world.isDue()) {
    const { effects, more } = world.single({ kind: "tick" });
    steps.push([...effects]);
    expect(more).toBe(world.isDue());
    expect(steps.length).toBeLessThan(10_000);
  }
  return steps;
}

describe("a step does a bounded amount of work and says that there is more", () => {
  test("many readers behind a writer are granted in parts, in order", () => {
    const world = crowd(10);
    world.open("W");
    const writer = world.hold("W");
    for (let index = 0; index < CROWD; index++) {
      world.open(`R${index}`);
      world.wait(`R${index}`, { mode: "shared" });
    }
    const first = world.single({ kind: "unlock", handle: writer.handle });
    expect(first.more).toBe(true);
    expect(first.effects).toHaveLength(10);
    const steps = [[...first.effects], ...ticks(world)];
    for (const step of steps) expect(step.length).toBeLessThanOrEqual(10);
    const granted = steps.flat().map((effect) => (effect.kind === "locked" ? effect.grant.session : effect.kind));
    expect(granted).toEqual(Array.from({ length: CROWD }, (_, index) => `R${index}`));
  });

  test("between the parts, a request that excludes them waits, and one that joins them is granted", () => {
    const world = crowd(10);
    world.open("W", "LATE", "WRITER");
    const writer = world.hold("W");
    for (let index = 0; index < CROWD; index++) {
      world.open(`R${index}`);
      world.wait(`R${index}`, { mode: "shared" });
    }
    world.single({ kind: "unlock", handle: writer.handle });
    const spec = specOf({ waitMs: 0 });
    const late = world.single({ kind: "lock", session: "LATE", request: "r", spec: { ...spec, mode: "shared" }, handle: "late", message: 1 });
    expect(late.answer.kind).toBe("locked");
    const exclusive = world.single({ kind: "lock", session: "WRITER", request: "r", spec, handle: "excl", message: 1 });
    expect(exclusive.answer).toMatchObject({ kind: "refused", code: "timedout" });
    expect(exclusive.more).toBe(true);
  });

  test("leases that end at once do not delay an unrelated lock by a single step", () => {
    const world = crowd(10);
    world.open("A", "B");
    for (let index = 0; index < CROWD; index++) {
      world.hold("A", { objects: [`held ${index}`], request: `r${index}`, durationMs: 1_000 });
    }
    world.nowMs += 1_000;
    const spec = specOf({ objects: ["other"] });
    const result = world.single({ kind: "lock", session: "B", request: "r", spec, handle: "b", message: 1 });
    expect(result.answer.kind).toBe("locked");
    expect(result.more).toBe(true);
    expect(result.effects.length).toBeLessThanOrEqual(10);
    expect(ticks(world).flat().filter((effect) => effect.kind === "unlocking").length + result.effects.length).toBe(CROWD);
  });

  test("a handed-on lock comes in the same step, although much other work is due", () => {
    const world = crowd(10);
    world.open("A", "B", "C");
    for (let index = 0; index < CROWD; index++) {
      world.hold("A", { objects: [`held ${index}`], request: `r${index}`, durationMs: 1_000 });
    }
    const grant = world.hold("B", { objects: ["other"] });
    world.wait("C", { objects: ["other"] });
    world.nowMs += 1_000;
    const { effects } = world.single({ kind: "unlock", handle: grant.handle });
    expect(effects).toContainEqual(expect.objectContaining({ kind: "locked", grant: expect.objectContaining({ session: "C" }) }));
  });

  test("nor does a crowd that is being let in delay it", () => {
    const world = crowd(10);
    world.open("W", "B", "C");
    const writer = world.hold("W");
    for (let index = 0; index < CROWD; index++) {
      world.open(`R${index}`);
      world.wait(`R${index}`, { mode: "shared" });
    }
    const grant = world.hold("B", { objects: ["other"] });
    world.wait("C", { objects: ["other"] });
    world.single({ kind: "unlock", handle: writer.handle });
    const { effects, more } = world.single({ kind: "unlock", handle: grant.handle });
    expect(more).toBe(true);
    expect(effects).toContainEqual(expect.objectContaining({ kind: "locked", grant: expect.objectContaining({ session: "C" }) }));
  });

  test("a session with many tickets is dropped, passed over and kicked in parts", () => {
    for (const end of ["close", "disconnect", "kick"] as const) {
      const world = crowd(10);
      world.open("H", "A", "NEXT");
      for (let index = 0; index < CROWD; index++) {
        world.hold("H", { objects: [`o${index}`], request: `r${index}`, durationMs: 600_000 });
        world.wait("A", { objects: [`o${index}`], request: `r${index}` });
      }
      world.wait("NEXT", { objects: ["o150"] });
      const { answer, more } = world.single(
        end === "close"
          ? { kind: "close", session: "A" }
          : end === "kick"
            ? { kind: "kick", session: "A", reason: "", by: "" }
            : { kind: "disconnect", session: "A", generation: 1 },
      );
      expect(answer.kind === "refused").toBe(false);
      expect(more).toBe(true);
      // a ticket that was not reached yet is not granted either
      world.single({ kind: "cancel", session: "H", request: "r150", message: 1 });
      const steps = ticks(world);
      for (const step of steps) expect(step.length).toBeLessThanOrEqual(10);
      expect(world.holders("o150")).toEqual(["NEXT"]);
    }
  });
});

test("a keep-alive of many locks does not leave a deadline for each of them", () => {
  const world = crowd(10);
  world.open("A");
  const grants = Array.from({ length: CROWD }, (_, index) =>
    world.hold("A", { objects: [`o${index}`], request: `r${index}`, durationMs: 1_000 }),
  );
  world.advance(500);
  world.keepAlive("A", grants);
  expect(world.table.nextDeadlineMs()).toBe(world.nowMs + 1_000);
  world.advance(900);
  world.keepAlive("A", grants);
  world.nowMs += 100;
  // the old deadline is moved in one step, however many locks stand behind it
  const { more, effects } = world.single({ kind: "tick" });
  expect(more).toBe(false);
  expect(effects).toEqual([]);
  expect(world.table.nextDeadlineMs()).toBe(world.nowMs + 900);
});

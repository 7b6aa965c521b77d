import { describe, expect, test } from "bun:test";
import { refusal, World } from "./kit.ts";

const values = (world: World): unknown[] => world.tickets().map(({ value }) => value);
const valueEvents = (world: World): unknown[] => world.events.flatMap(({ event, value, token, object }) => (event === "value" ? [[object, token, value]] : []));

describe("the value of a held lock", () => {
  test("changes with a renewal by handle, is listed, recorded once for each change, and survives a restart", () => {
    const world = new World();
    world.open("A");
    const { handle, token } = world.hold("A", { value: "one" });
    const renew = (value?: string) => world.step({ kind: "renewHandle", handle, durationMs: null, ...(value === undefined ? {} : { value }) });
    for (const [value, expected] of [["two", "two"], ["two", "two"], [undefined, "two"], ["", ""], ["three", "three"]] as const) {
      expect(renew(value)).toMatchObject({ kind: "renewedHandle", token });
      expect(values(world)).toEqual([expected]);
    }
    expect(valueEvents(world)).toEqual([["x", token, "two"], ["x", token, ""], ["x", token, "three"]]);
    world.recover();
    expect(values(world)).toEqual(["three"]);
    expect(renew()).toMatchObject({ kind: "renewedHandle", token });
    expect(values(world)).toEqual(["three"]);
  });

  test("of several objects changes at each of them", () => {
    const world = new World();
    world.open("A");
    const { handle, token } = world.hold("A", { objects: ["a", "b"] });
    world.step({ kind: "renewHandle", handle, durationMs: null, value: "v" });
    expect(values(world)).toEqual(["v", "v"]);
    expect(valueEvents(world)).toEqual([["a", token, "v"], ["b", token, "v"]]);
  });

  test("is not changed by who waits, has lost the lock, or is refused", () => {
    const world = new World();
    world.open("A", "B");
    const { handle } = world.hold("A", { durationMs: 1_000, unlockDurationMs: 500, value: "of A" });
    const waiting = world.wait("B", { value: "of B" });
    const code = (name: string, durationMs: number | null = null) => refusal(world.step({ kind: "renewHandle", handle: name, durationMs, value: "new" })).code;
    expect([code(waiting), code(handle, 500)]).toEqual(["notheld", "invalid"]);
    world.advance(1_000);
    expect(code(handle)).toBe("lost");
    world.advance(500);
    expect(code(handle)).toBe("lost");
    expect([values(world), valueEvents(world)]).toEqual([["of B"], []]);
  });
});

import { expect, test } from "bun:test";
import type { LockEvent } from "../../../plugins/lock/core/types.ts";
import { type Freedom, Watchers } from "../../../plugins/lock/server/watchers.ts";
import { FakeClock } from "../../../src/clock/fake.ts";
import { holderOf } from "../core/kit.ts";
import { FakeConnection } from "./kit.ts";

const event = (object: string): LockEvent => ({
  id: 1, wallMs: 1, event: "released", object, ticket: "t", mode: "exclusive", session: "s", holder: holderOf("s"),
});

/** Watchers whose looks are answered by hand. */
function world() {
  const looks: { object: string; found: (freedom: Freedom) => void }[] = [];
  const clock = new FakeClock();
  const sees = { sees: () => true };
  const watchers = new Watchers({ ...sees, timers: clock, look: (object, found) => void looks.push({ object, found }) });
  const answer = (free: boolean, delayLeftMs: number | null = null): void => looks.shift()?.found({ free, delayLeftMs });
  return { watchers, clock, looks, answer, connection: new FakeConnection() };
}

test("what happens while an object is looked at makes it be looked at once more", () => {
  const { watchers, looks, answer, connection } = world();
  watchers.waitFree(connection, 1, "x", null);
  watchers.notify([event("x"), event("x")]);
  watchers.notify([event("x")]);
  expect(looks).toHaveLength(1);
  answer(false);
  expect(looks).toHaveLength(1);
  answer(true);
  expect(connection.take()).toEqual(["FREE 1"]);
  expect(looks).toEqual([]);
});

test("only what somebody waits for is looked at, once for all who wait and all events of a batch", () => {
  const { watchers, looks, answer, connection } = world();
  watchers.notify([event("x"), event("y")]);
  expect(looks).toEqual([]);
  for (let id = 1; id <= 5; id++) watchers.waitFree(connection, id, "x", null);
  answer(false);
  answer(false);
  expect(looks).toEqual([]);
  watchers.notify([event("x"), event("y"), event("x")]);
  expect(looks.map(({ object }) => object)).toEqual(["x"]);
});

test("an answer that comes when nobody waits any more is nobody's", async () => {
  const { watchers, answer, connection, clock } = world();
  watchers.waitFree(connection, 1, "x", 100);
  await connection.end();
  const other = new FakeConnection();
  watchers.waitFree(other, 2, "x", null);
  answer(true);
  expect([connection.frames, other.frames]).toEqual([[], []]);
  answer(true);
  expect(other.take()).toEqual(["FREE 2"]);
  expect(clock.pending).toBe(0);
});

test("with no patience is answered at the first look, with others waiting on", () => {
  const { watchers, answer, connection } = world();
  watchers.waitFree(connection, 1, "x", null);
  watchers.waitFree(connection, 2, "x", 0);
  answer(false);
  expect(connection.take()).toEqual(["ERROR 2 timedout"]);
});

test("a stop leaves no timer, and whoever is looked at then hears nothing", () => {
  const { watchers, answer, connection, clock } = world();
  watchers.waitFree(connection, 1, "x", 1_000);
  answer(false, 500);
  watchers.waitFree(connection, 2, "y", 1_000);
  expect(clock.pending).toBe(3);
  watchers.stop();
  expect(clock.pending).toBe(0);
  answer(true);
  watchers.notify([event("x"), event("y")]);
  expect(connection.frames).toEqual([]);
});

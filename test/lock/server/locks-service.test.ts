import { describe, expect, test } from "bun:test";
import type { LockEvent } from "../../../plugins/lock/core/types.ts";
import { History } from "../../../plugins/lock/server/history.ts";
import { LocksForPlugins } from "../../../plugins/lock/server/locks-service.ts";
import { LockdError } from "../../../src/errors.ts";
import type { LogLine } from "../../../src/observe/log-format.ts";
import { loggerInto } from "../../../src/observe/logging.ts";
import { serviceWorld } from "./service-kit.ts";
import { turn } from "./kit.ts";

const holder = { name: "n", host: "h", pid: 1, program: "p", address: "a:1" };
const event = (id: number, object = "x"): LockEvent => ({ id, wallMs: 5, event: "granted", object, ticket: "t", mode: "exclusive", session: "s", holder, token: id });

async function world(options: { historyMax?: number; first?: number } = {}) {
  const { engine } = await serviceWorld();
  const history = new History(options.historyMax ?? 100);
  if (options.first !== undefined) history.startAt(options.first);
  const logged: LogLine[] = [];
  const locks = new LocksForPlugins({ engine, history, logger: loggerInto((line) => logged.push(line), "info").logger });
  const happen = (...events: LockEvent[]): void => {
    for (const one of events) history.add(one);
    locks.notify(events);
  };
  return { locks, happen, logged };
}

describe("a subscriber", () => {
  test("hears new events of its prefix in order, and nothing after it has stopped", async () => {
    const { locks, happen } = await world();
    happen(event(1, "a/1"));
    const heard: string[] = [];
    const subscription = locks.subscribe(({ id, object }) => heard.push(`${id} ${object}`), { prefix: "a/" });
    expect(subscription.firstId).toBe(2);
    happen(event(2, "a/2"), event(3, "b/1"), event(4, "a/1"));
    subscription.stop();
    happen(event(5, "a/1"));
    expect(heard).toEqual(["2 a/2", "4 a/1"]);
  });

  test("from an id hears what is kept first, then what is new, each once", async () => {
    const { locks, happen } = await world();
    happen(event(1), event(2), event(3));
    const heard: number[] = [];
    expect(locks.subscribe(({ id }) => heard.push(id), { from: 2 }).firstId).toBe(2);
    expect(heard).toEqual([2, 3]);
    happen(event(4));
    expect(heard).toEqual([2, 3, 4]);
  });

  test("learns from firstId that the history was cut, or is shorter than it remembers", async () => {
    const { locks, happen } = await world({ historyMax: 2 });
    happen(event(1), event(2), event(3), event(4));
    const heard: number[] = [];
    expect(locks.subscribe(({ id }) => heard.push(id), { from: 1 }).firstId).toBe(3);
    expect(heard).toEqual([3, 4]);
    expect(locks.subscribe(() => undefined, { from: 5 }).firstId).toBe(5);
    expect(locks.subscribe(() => undefined, { from: 90 }).firstId).toBe(5);
    expect(() => locks.subscribe(() => undefined, { from: Number.NaN })).toThrow(LockdError);
  });

  test("that throws is logged and goes on; the others hear everything, unchanged", async () => {
    const { locks, happen, logged } = await world();
    const bad: number[] = [];
    const good: string[] = [];
    locks.subscribe((one) => {
      bad.push(one.id);
      one.object = "changed";
      throw new Error("no luck");
    });
    locks.subscribe(({ object }) => good.push(object));
    happen(event(1), event(2));
    expect([bad, good]).toEqual([[1, 2], ["x", "x"]]);
    expect(logged).toMatchObject([{ level: "error", msg: "lock-listener-failed", fields: { event: 1 } }, { fields: { event: 2, error: expect.stringContaining("no luck") } }]);
  });

  test("may stop itself or another while it is told", async () => {
    const { locks, happen } = await world();
    const heard: string[] = [];
    const first = locks.subscribe(() => {
      heard.push("first");
      first.stop();
      second.stop();
    });
    const second = locks.subscribe(() => heard.push("second"));
    happen(event(1), event(2));
    expect(heard).toEqual(["first"]);
  });
});

test("list and why answer from what is durable, in pages and of one object", async () => {
  const { engine, join, lock, namespace } = await serviceWorld({ immediate: false });
  const locks = new LocksForPlugins({ engine, history: new History(10), logger: loggerInto(() => undefined, "info").logger });
  const opened = join("a");
  await namespace.landAll();
  const a = await opened;
  for (const object of ["a/1", "a/2", "b"]) lock(a, object, { objects: [object] });
  let told = false;
  const page = locks.list({ prefix: "a/", limit: 1 }).finally(() => (told = true));
  await turn();
  expect(told).toBe(false);
  await namespace.landAll();
  const { tickets, next } = await page;
  expect([tickets.map(({ object }) => object), next?.[0]]).toEqual([["a/1"], "a/1"]);
  expect((await locks.list({ prefix: "a/", after: next })).tickets).toMatchObject([{ object: "a/2", state: "locked" }]);
  expect(await locks.why("b")).toMatchObject({ object: "b", holders: [{ state: "locked", holder: { name: expect.any(String) } }], waiters: [] });
});

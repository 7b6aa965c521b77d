import { describe, expect, test } from "bun:test";
import type { Body } from "../../../src/wire/types.ts";
import { FakeConnection, turn } from "./kit.ts";
import { serviceWorld } from "./service-kit.ts";

describe("EVENTS with follow", () => {
  test("gives the page, and then each event once, in order, under the id of its request", async () => {
    const { ask, join, lock } = await serviceWorld();
    const a = await join("a");
    lock(a, "1");
    await turn();
    const follower = new FakeConnection();
    const id = ask(follower, "EVENTS", { follow: true, from: 1 });
    expect(follower.last("EVENTS")).toMatchObject({ oldest: 1, next: 2, events: [{ id: 1, event: "granted" }] });
    ask(a, "UNLOCK", { request: "1" });
    lock(a, "2", { objects: ["y"] });
    await turn();
    expect(follower.frames.slice(1)).toMatchObject([
      { type: "EVENT", id, body: { id: 2, event: "released", object: "x" } },
      { type: "EVENT", id, body: { id: 3, event: "granted", object: "y" } },
    ]);
  });

  test("hears nothing that is not durable", async () => {
    const { ask, join, lock, namespace } = await serviceWorld({ immediate: false });
    const a = await join("a");
    const follower = new FakeConnection();
    ask(follower, "EVENTS", { follow: true });
    follower.take();
    lock(a, "1");
    await turn();
    expect(follower.take()).toEqual([]);
    await namespace.landAll();
    expect(follower.frames).toMatchObject([{ type: "EVENT", body: { event: "granted" } }]);
  });

  test("hears of its prefix only, each follow of a connection by itself, also twice with one id", async () => {
    const { ask, join, lock } = await serviceWorld();
    const a = await join("a");
    const follower = new FakeConnection();
    ask(follower, "EVENTS", { follow: true, prefix: "job/" }, 900);
    ask(follower, "EVENTS", { follow: true, prefix: "job/1" }, 901);
    ask(follower, "EVENTS", { follow: true, prefix: "other" }, 902);
    ask(follower, "EVENTS", { follow: true, prefix: "job/2" }, 902);
    follower.take();
    for (const object of ["job/1", "job/2", "job", "other", "Job/1"]) lock(a, object, { objects: [object] });
    await turn();
    expect(follower.frames.map(({ id, body }) => `${id} ${String(body["object"])}`)).toEqual(["900 job/1", "901 job/1", "900 job/2", "902 job/2"]);
  });

  test("behind a full page begins only when the rest was read", async () => {
    const { ask, join, lock } = await serviceWorld();
    const a = await join("a");
    for (const object of ["1", "2", "3"]) lock(a, object, { objects: [object] });
    await turn();
    const follower = new FakeConnection();
    ask(follower, "EVENTS", { follow: true, from: 1, limit: 2 });
    lock(a, "4", { objects: ["4"] });
    await turn();
    expect(follower.take()).toHaveLength(1);
    ask(follower, "EVENTS", { follow: true, from: 3, limit: 3 });
    lock(a, "5", { objects: ["5"] });
    await turn();
    expect(follower.frames.map(({ body }) => (Array.isArray(body["events"]) ? body["events"].length : body["object"]))).toEqual([2, "5"]);
  });

  test("ends with UNFOLLOW, the others of the connection go on", async () => {
    const { ask, join, lock } = await serviceWorld();
    const a = await join("a");
    const follower = new FakeConnection();
    const left = ask(follower, "EVENTS", { follow: true });
    const kept = ask(follower, "EVENTS", { follow: true });
    const unfollow = ask(follower, "UNFOLLOW", { follow: left });
    const nothing = ask(follower, "UNFOLLOW", { follow: 12_345 });
    expect(follower.take().slice(2)).toEqual([`UNFOLLOWED ${unfollow}`, `UNFOLLOWED ${nothing}`]);
    lock(a, "1");
    await turn();
    expect(follower.take()).toEqual([`EVENT ${kept}`]);
    ask(follower, "UNFOLLOW", { follow: kept });
    lock(a, "2", { objects: ["y"] });
    await turn();
    expect(follower.take().filter((frame) => frame.startsWith("EVENT"))).toEqual([]);
  });

  test("is limited for each connection, and one that is left makes room", async () => {
    const { ask } = await serviceWorld();
    const follower = new FakeConnection();
    for (let id = 1; id <= 100; id++) ask(follower, "EVENTS", { follow: true }, id);
    ask(follower, "EVENTS", { follow: true }, 101);
    expect(follower.take().at(-1)).toBe("ERROR 101 overflow");
    ask(follower, "UNFOLLOW", { follow: 7 }, 102);
    ask(follower, "EVENTS", { follow: true }, 101);
    expect(follower.take()).toEqual(["UNFOLLOWED 102", "EVENTS 101"]);
  });

  test("followed and left a thousand times leaves one listener on the connection", async () => {
    const { ask, join, lock } = await serviceWorld();
    const follower = new FakeConnection();
    for (let count = 0; count < 1000; count++) ask(follower, "UNFOLLOW", { follow: ask(follower, "EVENTS", { follow: true }) });
    expect(follower.closeListeners.length).toBeLessThanOrEqual(1);
    await follower.end();
    follower.take();
    lock(await join("a"), "1");
    await turn();
    expect(follower.frames).toEqual([]);
  });
});

describe("WAITFREE", () => {
  const wait = (waitMs: number | null): Body => ({ object: "x", wait: waitMs });

  test("is answered at once when nobody holds or waits", async () => {
    const { ask, clock } = await serviceWorld();
    const waiter = new FakeConnection();
    const ids = [ask(waiter, "WAITFREE", wait(0)), ask(waiter, "WAITFREE", wait(null)), ask(waiter, "WAITFREE", wait(50))];
    expect(waiter.take()).toEqual(ids.map((id) => `FREE ${id}`));
    expect(clock.pending).toBe(0);
  });

  test("waits for the unlock to be durable", async () => {
    const { ask, join, lock, namespace } = await serviceWorld({ immediate: false });
    const a = await join("a");
    lock(a, "1");
    await turn();
    await namespace.landAll();
    const waiter = new FakeConnection();
    const early = ask(waiter, "WAITFREE", wait(null));
    ask(a, "UNLOCK", { request: "1" });
    await turn();
    const late = ask(waiter, "WAITFREE", wait(null));
    await turn();
    expect(waiter.take()).toEqual([]);
    await namespace.landAll();
    expect(waiter.take().sort()).toEqual([`FREE ${early}`, `FREE ${late}`].sort());
  });

  test("does not wake up while nothing happens", async () => {
    const { ask, join, lock, clock } = await serviceWorld();
    const a = await join("a");
    lock(a, "1");
    await turn();
    const before = clock.pending;
    const waiter = new FakeConnection();
    for (let count = 0; count < 10; count++) ask(waiter, "WAITFREE", wait(null));
    expect(clock.pending).toBe(before);
  });

  test("goes on while others wait for the lock, and ends with the last of them", async () => {
    const { ask, join, lock } = await serviceWorld();
    const [a, b] = [await join("a"), await join("b")];
    lock(a, "1");
    lock(b, "1");
    await turn();
    const waiter = new FakeConnection();
    const id = ask(waiter, "WAITFREE", wait(null));
    ask(a, "UNLOCK", { request: "1" });
    await turn();
    expect(waiter.take()).toEqual([]);
    ask(b, "UNLOCK", { request: "1" });
    await turn();
    expect(waiter.take()).toEqual([`FREE ${id}`]);
  });

  test("ends by timedout when the object is not free by then, with 0 at once", async () => {
    const { ask, join, lock, clock } = await serviceWorld();
    lock(await join("a"), "1", { duration: 60_000 });
    await turn();
    const waiter = new FakeConnection();
    const now = ask(waiter, "WAITFREE", wait(0));
    expect(waiter.take()).toEqual([`ERROR ${now} timedout`]);
    const later = ask(waiter, "WAITFREE", wait(300));
    clock.advance(299);
    expect(waiter.take()).toEqual([]);
    clock.advance(1);
    expect(waiter.take()).toEqual([`ERROR ${later} timedout`]);
  });

  test("hears of the end of a lock-delay, which no event tells, and of one that was made longer", async () => {
    const { ask, join, lock, clock } = await serviceWorld();
    const a = await join("a");
    lock(a, "1", { lockDelay: 3_000, unlockDuration: 500, detached: true });
    await turn();
    const admin = new FakeConnection();
    const early = ask(admin, "WAITFREE", wait(null));
    ask(admin, "RELEASE", { object: "x", token: 1 });
    await turn();
    clock.advance(501);
    await turn();
    const late = ask(admin, "WAITFREE", wait(null));
    admin.take();
    clock.advance(2_990);
    await turn();
    expect(admin.take()).toEqual([]);
    clock.advance(20);
    await turn();
    expect(admin.take()).toEqual([`FREE ${early}`, `FREE ${late}`]);
    clock.advance(60_000);
    expect(clock.pending).toBe(0);
  });

  test("of a connection that went away leaves neither waiters nor timers behind", async () => {
    const { ask, join, lock, clock } = await serviceWorld();
    const a = await join("a");
    lock(a, "1");
    await turn();
    const before = clock.pending;
    const waiter = new FakeConnection();
    for (let count = 0; count < 50; count++) ask(waiter, "WAITFREE", wait(60_000));
    expect(clock.pending).toBe(before + 50);
    expect(waiter.closeListeners).toHaveLength(1);
    await waiter.end();
    expect(clock.pending).toBe(before);
    const other = new FakeConnection();
    const id = ask(other, "WAITFREE", wait(null));
    ask(a, "UNLOCK", { request: "1" });
    await turn();
    expect(other.take()).toEqual([`FREE ${id}`]);
    expect(waiter.frames).toEqual([]);
  });

  test("that timed out while it was looked at is answered once", async () => {
    const { ask, join, lock, clock, namespace } = await serviceWorld({ immediate: false });
    const a = await join("a");
    lock(a, "1");
    await turn();
    await namespace.landAll();
    const waiter = new FakeConnection();
    const id = ask(waiter, "WAITFREE", wait(100));
    ask(a, "UNLOCK", { request: "1" });
    await turn();
    const second = ask(waiter, "WAITFREE", wait(100));
    clock.advance(100);
    await namespace.landAll();
    expect(waiter.take()).toEqual([`ERROR ${id} timedout`, `ERROR ${second} timedout`]);
  });

  test("is limited for each connection", async () => {
    const { ask, join, lock } = await serviceWorld();
    lock(await join("a"), "1");
    await turn();
    const waiter = new FakeConnection();
    for (let count = 0; count < 10_000; count++) ask(waiter, "WAITFREE", wait(null));
    expect(waiter.take()).toEqual([]);
    const surplus = ask(waiter, "WAITFREE", wait(null));
    expect(waiter.take()).toEqual([`ERROR ${surplus} overflow`]);
  });
});

describe("listings", () => {
  test("come in pages that together show every ticket and session once", async () => {
    const { ask, join, lock } = await serviceWorld();
    const a = await join("a");
    await join("b");
    for (let count = 0; count < 25; count++) lock(a, `${count}`, { objects: [`job/${String(count).padStart(2, "0")}`] });
    lock(a, "other", { objects: ["other"] });
    await turn();
    const reader = new FakeConnection();
    const objects: unknown[] = [];
    for (let after: unknown = null, pages = 0; pages === 0 || after !== null; pages++) {
      ask(reader, "LISTTICKETS", { prefix: "job/", after, limit: 10 });
      const { tickets, next } = reader.last("TICKETLIST");
      if (!Array.isArray(tickets)) throw new Error("no list");
      for (const ticket of tickets) objects.push(ticket.object);
      after = next;
    }
    expect(objects).toEqual(Array.from({ length: 25 }, (_, count) => `job/${String(count).padStart(2, "0")}`));
    ask(reader, "SESSIONS", { limit: 1 });
    const first = reader.last("SESSIONS");
    ask(reader, "SESSIONS", { limit: 1, after: first["next"] });
    expect([first, reader.last("SESSIONS")]).toMatchObject([{ sessions: [{ held: 26, connected: true }] }, { sessions: [{ held: 0 }], next: null }]);
  });

  test("say in relative times when a lock ends, and why shows the newest events with it", async () => {
    const { ask, join, lock, clock } = await serviceWorld();
    lock(await join("a"), "1", { duration: 10_000, unlockDuration: 2_000, value: "v" });
    const b = await join("b");
    lock(b, "1", { wait: 60_000 });
    await turn();
    clock.advance(4_000);
    const reader = new FakeConnection();
    ask(reader, "LISTTICKETS");
    expect(reader.last("TICKETLIST")).toMatchObject({
      tickets: [
        { state: "locked", sinceAgo: 4_000, expiresIn: 6_000, freeIn: 8_000, token: 1, value: "v", detached: false },
        { state: "waiting", position: 1, waitLeft: 56_000 },
      ],
    });
    ask(b, "UNLOCK", { request: "1" });
    ask(reader, "WHY", { object: "x" });
    await turn();
    expect(reader.last("WHY")).toMatchObject({ waitersTotal: 0, events: [{ event: "granted" }, { event: "waiting" }, { event: "cancelled" }] });
  });

  test("a thousand queries change nothing", async () => {
    const { ask, join, lock, engine, namespace } = await serviceWorld();
    lock(await join("a"), "1");
    lock(await join("b"), "1");
    await turn();
    const hash = (): string => engine.peek((table) => table.stateHash());
    const before = [hash(), namespace.batches.length];
    const reader = new FakeConnection();
    for (let count = 0; count < 200; count++) {
      for (const [type, body] of [["LISTTICKETS", {}], ["WHY", { object: "x" }], ["SESSIONS", {}], ["EVENTS", {}], ["LOCKSTATUS", {}]] as const) ask(reader, type, body);
    }
    await turn();
    expect(reader.frames).toHaveLength(1000);
    expect([hash(), namespace.batches.length]).toEqual(before);
  });
});

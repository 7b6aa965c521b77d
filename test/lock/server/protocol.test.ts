import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { LockdClient } from "../../../src/client/client.ts";
import type { Frame } from "../../../src/wire/types.ts";
import type { TicketBody } from "../../../src/client/protocol.ts";
import { eventually } from "../../e2e/kit.ts";
import { until } from "../../net/kit.ts";
import { join, type LockServer, startLockServer, type Wire } from "./protocol-kit.ts";

let server: LockServer;
let clients: LockdClient[] = [];

let observer: LockdClient;

beforeEach(async () => {
  server = await startLockServer();
  observer = (await joined()).client;
});

afterEach(async () => {
  await Promise.all(clients.map((client) => client.close()));
  clients = [];
  await server.stop();
});

async function joined(options: Parameters<typeof join>[1] = {}): Promise<{ client: LockdClient; wire: Wire }> {
  const both = await join(server, options);
  clients.push(both.client);
  return both;
}

const tickets = async (object = ""): Promise<TicketBody[]> => {
  const found: TicketBody[] = [];
  for await (const ticket of observer.list(object)) if (object === "" || ticket.object === object) found.push(ticket);
  return found;
};
const tokens = async (object: string): Promise<(number | undefined)[]> => (await tickets(object)).map(({ token }) => token);
const asked = (type: string): Frame[] => server.asked.filter((frame) => frame.type === type);
describe("a lost LOCKED", () => {
  test("with its connection: the take-over finds the same grant, and it is drawn once", async () => {
    const { client, wire } = await joined();
    wire.loseNext("LOCKED");
    const waiting = client.lock("x");
    await until("the grant was lost", () => wire.lost.length > 0);
    wire.cut();
    const lock = await waiting;
    expect(lock.token).toBe(1);
    expect(lock.expiresIn()).toBeGreaterThan(0);
    expect(await tokens("x")).toEqual([1]);
    expect(wire.given.filter((frame) => frame.type === "LOCKED")).toEqual([]);
    await lock.release();
    expect(await tickets()).toEqual([]);
  });

  test("on a connection that stands: once a later grant is seen the digests differ, the unknown one is taken back, and a new one drawn", async () => {
    const { client, wire } = await joined({ graceMs: 500 });
    wire.loseNext("LOCKED");
    const waiting = client.lock("x");
    await until("the grant was lost", () => wire.lost.length > 0);
    const other = await client.lock("y");
    const lock = await waiting;
    expect(wire.lost).toMatchObject([{ body: { token: 1 } }]);
    expect(lock.token).toBeGreaterThan(other.token);
    expect(await tokens("x")).toEqual([lock.token]);
    expect(asked("RENEW").some((frame) => frame.body["tokens"] !== undefined)).toBe(true);
    expect(other.lost).toBeNull();
    await lock.release();
    await other.release();
    expect(await tickets()).toEqual([]);
  });

  test("of a waiting request, granted while no connection stood, is told at the take-over", async () => {
    const holder = await joined();
    const waiter = await joined();
    const held = await holder.client.lock("x");
    const waiting = waiter.client.lock("x");
    await eventually("it waits", async () => (await tickets()).some(({ state }) => state === "waiting"));
    waiter.wire.lose = () => true;
    await held.release();
    waiter.wire.cut();
    waiter.wire.lose = () => false;
    expect((await waiting).token).toBe(2);
    expect(await tokens("x")).toEqual([2]);
  });
});

describe("a lost answer", () => {
  test("to SESSION: the session is opened again by a higher generation, and the request is asked once more under its id", async () => {
    const { client, wire } = await joined();
    wire.lose = (frame) => frame.type === "SESSION" || frame.type === "LOCKED";
    const waiting = client.lock("x");
    await until("both answers were lost", () => wire.lost.length === 2);
    wire.lose = () => false;
    wire.cut();
    expect((await waiting).token).toBe(1);
    expect(asked("SESSION").map((frame) => frame.body["generation"])).toEqual([1, 2]);
    expect(new Set(asked("LOCK").map((frame) => frame.body["request"])).size).toBe(1);
    expect(await tokens("x")).toEqual([1]);
  });

  test("to UNLOCK: it is repeated, and that nothing is held any more counts as done", async () => {
    const { client, wire } = await joined();
    const lock = await client.lock("x");
    wire.loseNext("UNLOCKED");
    const released = lock.release();
    await until("the answer was lost", () => wire.lost.length > 0);
    wire.cut();
    await released;
    expect(asked("UNLOCK")).toHaveLength(2);
    expect(await tickets()).toEqual([]);
  });

  test("to RENEW: the next one renews all the same", async () => {
    const { client, wire } = await joined({ graceMs: 500 });
    const lock = await client.lock("x", { duration: 900 });
    let dropped = 0;
    wire.lose = (frame) => frame.type === "RENEWED" && dropped++ % 2 === 0;
    await until("answers were lost and others came", () => wire.lost.length >= 4 && wire.given.filter((frame) => frame.type === "RENEWED").length >= 4);
    expect(lock.lost).toBeNull();
    expect(await tokens("x")).toEqual([1]);
  });
});

test("an event stream that is left ends at the server too, and its connection goes on", async () => {
  const { client } = await joined();
  const lock = await client.lock("a");
  const seen: string[] = [];
  for await (const event of client.events({ follow: true, from: 1 })) {
    seen.push(`${event.event} ${event.object}`);
    if (seen.length === 1) await lock.release();
    else break;
  }
  expect(seen).toEqual(["granted a", "released a"]);
  await until("it is not followed", () => asked("UNFOLLOW").length > 0);
  const follow = asked("UNFOLLOW").at(-1)?.body["follow"];
  expect(asked("EVENTS").at(-1)?.id).toBe(typeof follow === "number" ? follow : -1);
  await (await client.lock("b")).release();
  expect(asked("SESSION")).toHaveLength(1);
});

test("a session that was kicked starts over, also for what it sends right behind its SESSION", async () => {
  const { client, wire } = await joined();
  const admin = await joined();
  const lock = await client.lock("x", { unlockDuration: 500 });
  const former = client.session;
  wire.lose = (frame) => frame.type === "UNLOCKING" || frame.type === "UNLOCKED";
  await admin.client.kick(former);
  wire.cut();
  wire.lose = () => false;
  // asked while there is no connection: it is sent behind the SESSION that is refused
  const next = await client.lock("y");
  expect(client.session).not.toBe(former);
  expect(next.token).toBeGreaterThan(lock.token);
  expect(lock.lost).toMatchObject({ code: "lost" });
});

test("many cycles over one connection need no list of tokens: seen numbers and digests agree all the time", async () => {
  const { client, wire } = await joined({ graceMs: 500 });
  // one lock stays, so that there is always something to renew
  const kept = await client.lock("kept", { duration: 900 });
  const renewed = (): number => wire.given.filter((frame) => frame.type === "RENEWED").length;
  const work = async (name: string): Promise<void> => {
    while (renewed() < 5) {
      const lock = await client.lock(name, { duration: 900 });
      await Bun.sleep(Math.random() * 4);
      await lock.release();
    }
  };
  await Promise.all(["a", "b", "c", "a", "d"].map((name, index) => work(name === "a" ? `${name}${index}` : name)));
  await kept.release();
  expect(asked("RENEW").filter((frame) => frame.body["tokens"] !== undefined)).toEqual([]);
  expect(await tickets()).toEqual([]);
});

test("a hundred broken connections: who holds keeps its token, who waits gets in by turns, never two at once", async () => {
  const keeper = await joined();
  const follower = await joined();
  const workers = [await joined(), await joined(), await joined()];
  const kept = await keeper.client.lock("kept", { duration: 20_000 });
  let followed = 0;
  const following = follower.client.lock("kept", { wait: null }).then((lock) => {
    followed = lock.token;
  });
  const inside = new Set<string>();
  const grants: { token: number; worker: string }[] = [];
  let crowded = 0;
  let losses = 0;
  let working = true;
  const work = async ({ client }: { client: LockdClient }): Promise<void> => {
    while (working) {
      const lock = await client.lock("shared", { wait: null, duration: 20_000 });
      if (inside.size > 0) crowded++;
      inside.add(client.session);
      grants.push({ token: lock.token, worker: client.session });
      await Bun.sleep(Math.random() * 5);
      if (lock.lost !== null) losses++;
      inside.delete(client.session);
      await lock.release();
    }
  };
  const shifts = workers.map(work);
  const wires = [keeper, follower, ...workers].map(({ wire }) => wire);
  for (let cuts = 0; cuts < 100; ) {
    await Bun.sleep(Math.random() * 15);
    const wire = wires[Math.floor(Math.random() * wires.length)];
    // half of the time an answer or a push is lost with the connection
    if (wire !== undefined && Math.random() < 0.5) {
      wire.lose = ({ type }) => type !== "HELLO";
      await Bun.sleep(Math.random() * 5);
    }
    if (wire?.cut() === true) cuts++;
    if (wire !== undefined) wire.lose = () => false;
  }
  working = false;
  await Promise.all(shifts);
  expect({ crowded, losses }).toEqual({ crowded: 0, losses: 0 });
  expect(grants.map(({ token }) => token)).toEqual(grants.map(({ token }) => token).sort((one, other) => one - other));
  expect(new Set(grants.map(({ token }) => token)).size).toBe(grants.length);
  expect(new Set(grants.map(({ worker }) => worker)).size).toBe(3);
  expect(kept.lost).toBeNull();
  expect(followed).toBe(0);
  expect(await tokens("kept")).toEqual([kept.token, undefined]);
  await kept.release();
  await following;
  expect(followed).toBeGreaterThan(kept.token);
  await eventually("nothing is left of the work", async () => (await tokens("shared")).length === 0);
});

import { describe, expect, test } from "bun:test";
import { tokenDigest } from "../../../src/client/protocol.ts";
import type { Body } from "../../../src/wire/types.ts";
import { FakeConnection, turn } from "./kit.ts";
import { idOf, secretOf, serviceWorld, sessionBody } from "./service-kit.ts";

describe("SESSION", () => {
  test("may be followed by LOCK at once: both are answered, in order", async () => {
    const { ask, lock } = await serviceWorld();
    const connection = new FakeConnection();
    const session = ask(connection, "SESSION", sessionBody("a"));
    const locked = lock(connection, "1");
    await turn();
    expect(connection.take()).toEqual([`SESSION ${session}`, `LOCKED ${locked}`]);
  });

  test("with a wrong secret is denied, told before what came behind it, and touches nothing of the session", async () => {
    const { ask, join, lock } = await serviceWorld();
    const owner = await join("a");
    lock(owner, "1");
    await turn();
    const handle = String(owner.last("LOCKED")["handle"]);
    owner.take();

    const thief = new FakeConnection();
    const session = ask(thief, "SESSION", { ...sessionBody("a", 9), secret: secretOf("b") });
    const behind = [
      lock(thief, "2", { objects: ["y"] }),
      ask(thief, "UNLOCK", { request: "1" }),
      ask(thief, "RENEW", { seen: 1, tokens: [] }),
      ask(thief, "GOODBYE", { session: idOf("a") }),
    ];
    await turn();
    expect(thief.take()).toEqual([`ERROR ${session} denied`, ...behind.map((id) => `ERROR ${id} invalid`)]);
    expect(owner.take()).toEqual([]);
    expect(owner.closed).toBe(false);
    ask(owner, "RENEW", { seen: 1, count: 1, digest: tokenDigest([1]) });
    await turn();
    expect(owner.last("RENEWED")).toMatchObject({ mismatch: false, lost: [] });
    ask(owner, "UNLOCK", { handle });
    await turn();
    expect(owner.last("UNLOCKED")).toEqual({ token: 1, held: true });
  });

  test("that was refused can be tried again over the same connection", async () => {
    const { ask, join } = await serviceWorld();
    await join("a", 5);
    const connection = new FakeConnection();
    const stale = ask(connection, "SESSION", sessionBody("a", 5));
    await turn();
    const fresh = ask(connection, "SESSION", sessionBody("other"));
    await turn();
    expect(connection.take()).toEqual([`ERROR ${stale} denied`, `SESSION ${fresh}`]);
  });

  test("twice over one connection is invalid, decided or not", async () => {
    const { ask, namespace } = await serviceWorld({ immediate: false });
    const connection = new FakeConnection();
    ask(connection, "SESSION", sessionBody("a"));
    const second = ask(connection, "SESSION", sessionBody("b"));
    await turn();
    expect(connection.take()).toEqual([`ERROR ${second} invalid`]);
    await namespace.landAll();
    const third = ask(connection, "SESSION", sessionBody("b"));
    expect(connection.take().at(-1)).toBe(`ERROR ${third} invalid`);
  });

  test("is needed by requests of a session, and by no other", async () => {
    const { ask, lock } = await serviceWorld();
    const connection = new FakeConnection();
    const needed = [lock(connection, "1"), ask(connection, "UNLOCK", { request: "1" }), ask(connection, "RENEW", { seen: 0, tokens: [] }), ask(connection, "GOODBYE")];
    const free = [
      ask(connection, "UNLOCK", { handle: "h" }), ask(connection, "RENEW", { handle: "h" }),
      ask(connection, "RELEASE", { object: "x", token: 1 }), ask(connection, "KICK", { session: idOf("a") }),
    ];
    await turn();
    expect(connection.take()).toEqual([
      ...needed.map((id) => `ERROR ${id} invalid`),
      `ERROR ${free[0]} notheld`, `ERROR ${free[1]} notheld`, `ERROR ${free[2]} notfound`, `ERROR ${free[3]} notfound`,
    ]);
  });

  test("opened and closed many times over one connection leaves one listener behind", async () => {
    const { ask } = await serviceWorld();
    const connection = new FakeConnection();
    for (let generation = 1; generation <= 20; generation++) {
      ask(connection, "SESSION", sessionBody("a", generation));
      ask(connection, "GOODBYE");
      await turn();
    }
    expect(connection.take()).toHaveLength(40);
    expect(connection.closeListeners).toHaveLength(1);
  });
});

describe("a take-over", () => {
  test("by a higher generation tells and closes the old connection, whose late end does not disconnect the new one", async () => {
    const { ask, join, lock, engine } = await serviceWorld();
    const old = await join("a");
    const granted = lock(old, "1");
    const waiting = lock(old, "2", { objects: ["y"], mode: "shared" });
    await turn();
    expect(old.take()).toEqual([`LOCKED ${granted}`, `LOCKED ${waiting}`]);
    const young = new FakeConnection();
    const session = ask(young, "SESSION", sessionBody("a", 2));
    await turn();
    expect(old.take()).toEqual(["ERROR 0 denied"]);
    expect(old.closed).toBe(true);
    expect(young.last("SESSION")).toMatchObject({ resumed: true, generation: 2, tickets: [{ request: "1", state: "locked", grant: { token: 1 } }, { request: "2" }] });
    expect(young.take()).toEqual([`SESSION ${session}`]);
    await old.end();
    const connected = engine.peek((table) => table.sessions({ after: null, limit: 9 }).sessions.map((one) => one.connected));
    expect(connected).toEqual([true]);
  });

  test("answers over the newer connection what was asked over the older: a grant comes as a push", async () => {
    const { ask, join, lock } = await serviceWorld();
    const holder = await join("a");
    lock(holder, "1");
    const old = await join("b");
    lock(old, "1");
    await turn();
    const handle = String(holder.last("LOCKED")["handle"]);
    const young = await join("b", 2);
    ask(holder, "UNLOCK", { handle });
    await turn();
    expect(young.take()).toEqual(["LOCKED 0"]);
    expect(old.frames.filter((frame) => frame.type === "LOCKED")).toEqual([]);
  });

  test("finds a grant whose LOCKED was not durable yet when the old connection broke", async () => {
    const { ask, join, lock, namespace } = await serviceWorld({ immediate: false });
    const old = await join("a");
    lock(old, "1");
    await turn();
    await old.end();
    const young = new FakeConnection();
    ask(young, "SESSION", sessionBody("a", 2));
    const again = lock(young, "1");
    await turn();
    expect(young.frames).toEqual([]);
    await namespace.landAll();
    expect(young.last("SESSION")).toMatchObject({ tickets: [{ state: "locked", grant: { token: 1 } }] });
    expect(young.last("LOCKED")).toMatchObject({ token: 1 });
    expect(young.take()).toEqual([expect.stringContaining("SESSION"), `LOCKED ${again}`]);
    expect(old.frames).toEqual([]);
  });

  test("by a connection that broke before its answer leaves the session disconnected", async () => {
    const { ask, join, lock, namespace, clock, engine } = await serviceWorld({ immediate: false });
    await join("b");
    lock(await join("c"), "1");
    await turn();
    // the disk is full meanwhile, so that the SESSION is decided late
    await namespace.one.fail("overflow");
    const lost = new FakeConnection();
    ask(lost, "SESSION", sessionBody("b", 2));
    await lost.end();
    clock.advance(1_000);
    await namespace.one.land();
    await namespace.landAll();
    const sessions = engine.peek((table) => table.sessions({ after: null, limit: 9 }).sessions);
    expect(sessions.find((one) => one.session === idOf("b"))).toMatchObject({ generation: 2, connected: false });
    expect(lost.frames).toEqual([]);
  });

  test("frees nothing when the connection ends: waiting is given up after the grace only", async () => {
    const { join, lock, engine, clock } = await serviceWorld();
    const holder = await join("a");
    lock(holder, "1");
    const waiter = await join("b");
    lock(waiter, "1");
    await turn();
    await waiter.end();
    const waiting = (): number => engine.peek((table) => table.statistics().waiting);
    clock.advance(4_900);
    await turn();
    expect(waiting()).toBe(1);
    clock.advance(200);
    await turn();
    expect(waiting()).toBe(0);
  });
});

describe("LOCK", () => {
  test("that waits is answered when its turn comes, with the id of its newest request", async () => {
    const { ask, join, lock } = await serviceWorld();
    const a = await join("a");
    const b = await join("b");
    lock(a, "1");
    lock(b, "1");
    const newest = lock(b, "1");
    await turn();
    expect(b.take()).toEqual([]);
    ask(a, "UNLOCK", { request: "1" });
    await turn();
    expect(b.take()).toEqual([`LOCKED ${newest}`]);
  });

  test("that did not get in names who is in the way, at once or after its wait", async () => {
    const { join, lock, clock } = await serviceWorld();
    const a = await join("a");
    const b = await join("b");
    lock(a, "1", { duration: 60_000 });
    await turn();
    clock.advance(700);
    const now = lock(b, "1", { wait: 0 });
    const later = lock(b, "2", { wait: 1_000 });
    await turn();
    expect(b.last("LOCKFAILED")).toMatchObject({
      request: "1", code: "timedout",
      holders: [{ object: "x", token: 1, sinceAgo: 700, state: "locked", holder: { name: "a", host: "desk", pid: 77, session: idOf("a") } }],
    });
    clock.advance(1_002);
    await turn();
    expect(b.last("LOCKFAILED")).toMatchObject({ request: "2", code: "timedout", position: 1, holders: [{ token: 1, sinceAgo: 1_701 }] });
    expect(b.take()).toEqual([`LOCKFAILED ${now} timedout`, `LOCKFAILED ${later} timedout`]);
  });

  test("tells the position when asked to, at first and when it changes", async () => {
    const { ask, join, lock } = await serviceWorld();
    const [a, b, c] = [await join("a"), await join("b"), await join("c")];
    lock(a, "1");
    lock(b, "1");
    lock(c, "1", { queue: true });
    await turn();
    expect(c.last("QUEUE")).toEqual({ request: "1", position: 2 });
    ask(b, "UNLOCK", { request: "1" });
    await turn();
    expect(c.last("QUEUE")).toEqual({ request: "1", position: 1 });
    expect(c.take()).toEqual(["QUEUE 0", "QUEUE 0"]);
  });

  test("draws a handle that begins with a letter and holds 18 fresh random bytes each time", async () => {
    const { join, lock } = await serviceWorld();
    const a = await join("a");
    const handles = new Set<string>();
    for (let count = 0; count < 600; count++) {
      lock(a, `${count}`, { objects: [`${count}`] });
      if (count % 100 === 99) await turn();
    }
    for (const { body } of a.frames) handles.add(String(body["handle"]));
    expect(handles.size).toBe(600);
    for (const handle of handles) expect(handle).toMatch(/^h[A-Za-z0-9_-]{24}$/);
  });
});

describe("UNLOCK", () => {
  test("of a waiting request answers both, once each, and leaves no ticket", async () => {
    const { ask, join, lock, engine } = await serviceWorld();
    lock(await join("a"), "1");
    const b = await join("b");
    const waiting = lock(b, "1");
    const cancelled = ask(b, "UNLOCK", { request: "1" });
    await turn();
    expect(b.last("UNLOCKED")).toEqual({ token: null, held: false });
    expect(b.take().sort()).toEqual([`LOCKFAILED ${waiting} cancelled`, `UNLOCKED ${cancelled}`]);
    expect(engine.peek((table) => table.statistics())).toMatchObject({ waiting: 0, held: 1 });
    const second = ask(b, "UNLOCK", { request: "1" });
    await turn();
    expect(b.take()).toEqual([`ERROR ${second} notheld`]);
  });

  test("right behind its LOCK takes back what was granted", async () => {
    const { ask, join, lock, engine } = await serviceWorld();
    const a = await join("a");
    const asked = lock(a, "1");
    const unlocked = ask(a, "UNLOCK", { request: "1" });
    await turn();
    expect(a.take()).toEqual([`LOCKED ${asked}`, `UNLOCKED ${unlocked}`]);
    expect(engine.peek((table) => table.statistics().tickets)).toBe(0);
  });

  test("by handle works from anywhere, and tells the session that owns the lock", async () => {
    const { ask, join, lock } = await serviceWorld();
    for (const other of [new FakeConnection(), await join("b")]) {
      const a = await join("a", other.id);
      lock(a, `${other.id}`);
      await turn();
      const { handle, token } = a.last("LOCKED");
      a.take();
      const unlocked = ask(other, "UNLOCK", { handle });
      await turn();
      expect(other.take()).toEqual([`UNLOCKED ${unlocked}`]);
      expect(a.frames).toMatchObject([{ type: "UNLOCKED", id: 0, body: { token, reason: "lost" } }]);
    }
  });

  test("by handle of the session's own lock is answered only", async () => {
    const { ask, join, lock } = await serviceWorld();
    const a = await join("a");
    lock(a, "1");
    await turn();
    const { handle } = a.last("LOCKED");
    a.take();
    const unlocked = ask(a, "UNLOCK", { handle });
    const again = ask(a, "UNLOCK", { handle });
    await turn();
    expect(a.take()).toEqual([`UNLOCKED ${unlocked}`, `ERROR ${again} notheld`]);
  });
});

describe("RENEW", () => {
  test("by handle tells what is left, and may change the duration; of what ended it says so", async () => {
    const { ask, join, lock, clock } = await serviceWorld();
    const a = await join("a");
    lock(a, "1", { detached: true, duration: 2_000, unlockDuration: 1_000 });
    await turn();
    const { handle } = a.last("LOCKED");
    const other = new FakeConnection();
    const id = ask(other, "RENEW", { handle, duration: 4_000 });
    await turn();
    expect(other.last("RENEWED")).toEqual({ token: 1, left: 4_000, duration: 4_000, unlockDuration: 1_000, processed: id });
    clock.advance(4_001);
    await turn();
    other.take();
    const late = ask(other, "RENEW", { handle });
    await turn();
    clock.advance(1_001);
    await turn();
    const gone = ask(other, "UNLOCK", { handle });
    await turn();
    expect(other.take()).toEqual([`ERROR ${late} lost`, `ERROR ${gone} lost`]);
  });

  test("of a session names what it lost, and asks for tokens when the digest is another", async () => {
    const { ask, join, lock } = await serviceWorld();
    const a = await join("a");
    lock(a, "1");
    await turn();
    ask(a, "RENEW", { seen: 1, count: 1, digest: [1, 1] });
    await turn();
    expect(a.last("RENEWED")).toMatchObject({ mismatch: true });
    const id = ask(a, "RENEW", { seen: 1, tokens: [1, 99] });
    await turn();
    expect(a.last("RENEWED")).toEqual({ processed: id, mismatch: false, lost: [{ token: 99, reason: "lost" }] });
  });
});

describe("an administrator", () => {
  test("takes a lock by force: the holder is told before the next is granted", async () => {
    const { ask, join, lock, clock } = await serviceWorld();
    const order: string[] = [];
    const a = await join("a");
    const b = await join("b");
    a.onSend = ({ type }) => void order.push(`a ${type}`);
    b.onSend = ({ type }) => void order.push(`b ${type}`);
    // detached: its grace counts from the order
    lock(a, "1", { unlockDuration: 2_000, detached: true });
    lock(b, "1");
    await turn();
    const admin = new FakeConnection({ name: "root" });
    const wrong = ask(admin, "RELEASE", { object: "x", token: 2 });
    const right = ask(admin, "RELEASE", { object: "x", token: 1, reason: "it hangs" });
    await turn();
    expect(admin.last("RELEASING")).toMatchObject({ freeIn: 2_000, holder: { name: "a", session: idOf("a") } });
    expect(admin.take()).toEqual([`ERROR ${wrong} notfound`, `RELEASING ${right}`]);
    expect(a.last("UNLOCKING")).toEqual({ request: "1", token: 1, left: 2_000, reason: "forced" });
    clock.advance(2_001);
    await turn();
    expect(order).toEqual(["a LOCKED", "a UNLOCKING", "a UNLOCKED", "b LOCKED"]);
  });

  test("kicks a session: its waiting requests fail, it is told to leave, and cannot come back", async () => {
    const { ask, join, lock } = await serviceWorld();
    const a = await join("a");
    const b = await join("b");
    lock(a, "1");
    lock(b, "1", { objects: ["y"] });
    const waiting = lock(b, "2");
    await turn();
    b.take();
    const admin = new FakeConnection();
    ask(admin, "KICK", { session: idOf("b"), reason: "gone mad" });
    await turn();
    expect(admin.last("KICKED")).toEqual({ tickets: 2 });
    expect(b.take().sort()).toEqual([`LOCKFAILED ${waiting} cancelled`, "UNLOCKING 0"]);
    const young = new FakeConnection();
    const session = ask(young, "SESSION", sessionBody("b", 2));
    await turn();
    expect(young.take()).toEqual([`ERROR ${session} denied`]);
  });
});

describe("GOODBYE", () => {
  test("answers what still waits, and then itself; the session is gone", async () => {
    const { ask, join, lock, engine } = await serviceWorld();
    lock(await join("a"), "1");
    const b = await join("b");
    const waiting = lock(b, "1");
    const bye = ask(b, "GOODBYE", { session: idOf("b") });
    const late = lock(b, "2");
    await turn();
    expect(b.take()).toEqual([`LOCKFAILED ${waiting} cancelled`, `GOODBYE ${bye}`, `LOCKFAILED ${late} notfound`]);
    expect(engine.peek((table) => table.statistics())).toMatchObject({ waiting: 0, sessions: 1 });
    await b.end();
    expect(engine.peek((table) => table.statistics())).toMatchObject({ sessions: 1 });
  });

  test("does not answer again what was granted just before it", async () => {
    const { ask, join, lock } = await serviceWorld();
    const a = await join("a");
    const granted = lock(a, "1");
    const bye = ask(a, "GOODBYE", { session: idOf("a") });
    await turn();
    expect(a.take()).toEqual([`LOCKED ${granted}`, `GOODBYE ${bye}`]);
  });
});

describe("while the disk is full", () => {
  async function fullWorld() {
    const world = await serviceWorld({ immediate: false });
    const a = await world.join("a");
    const idle = new FakeConnection();
    world.lock(a, "1");
    const byHandle = world.ask(idle, "UNLOCK", { handle: "h" });
    await turn();
    await world.namespace.one.fail("overflow");
    return { ...world, a, idle, byHandle };
  }

  test("connections with a session are told why and closed, requests of others are answered", async () => {
    const { a, idle, byHandle } = await fullWorld();
    expect(a.take()).toEqual(["ERROR 0 unavailable"]);
    expect(a.closed).toBe(true);
    expect(idle.last("ERROR")).toMatchObject({ retryable: true });
    expect(idle.take()).toEqual([`ERROR ${byHandle} unavailable`]);
  });

  test("LOCK behind SESSION is answered by its deadline, and served when there is room before that", async () => {
    const { ask, lock, clock, namespace } = await fullWorld();
    const young = new FakeConnection();
    const session = ask(young, "SESSION", sessionBody("a", 2));
    const never = lock(young, "now", { wait: 0, objects: ["n"] });
    const short = lock(young, "short", { wait: 500, objects: ["s"] });
    const long = lock(young, "long", { wait: 60_000 });
    clock.advance(0);
    expect(young.take()).toEqual([`LOCKFAILED ${never} unavailable`]);
    clock.advance(500);
    expect(young.take()).toEqual([`LOCKFAILED ${short} unavailable`]);
    clock.advance(500);
    await namespace.one.land();
    await namespace.landAll();
    expect(young.take()).toEqual([`SESSION ${session}`, `LOCKED ${long}`]);
    expect(clock.pending).toBeLessThanOrEqual(1);
  });

  test("only so many requests wait behind a SESSION", async () => {
    const { ask, lock } = await fullWorld();
    const young = new FakeConnection();
    ask(young, "SESSION", sessionBody("a", 2));
    for (let count = 0; count < 1_000; count++) lock(young, `${count}`, { objects: [`${count}`] });
    expect(young.take()).toEqual([]);
    const surplus = lock(young, "surplus", { wait: 100 });
    expect(young.take()).toEqual([`ERROR ${surplus} overflow`]);
  });
});

test("a request that wants no answer gets none, whatever becomes of it", async () => {
  const { ask, join } = await serviceWorld();
  const a = await join("a");
  for (const [type, body] of [
    ["UNLOCK", { handle: "h" }], ["UNLOCK", { request: "none" }], ["RENEW", { handle: "h" }], ["RENEW", { seen: 0, tokens: [] }],
    ["RELEASE", { object: "x", token: 1 }], ["KICK", { session: idOf("z") }], ["LISTTICKETS", {}], ["WHY", { object: "x" }],
    ["EVENTS", { follow: true }], ["SESSIONS", {}], ["WAITFREE", { object: "x", wait: 0 }], ["LOCKSTATUS", {}], ["LOCK", { request: "" }],
  ] as const) {
    ask(a, type, body, 0);
    await turn();
  }
  expect(a.take()).toEqual([]);
});

test("an answer that no frame can carry becomes an error, and the others are answered", async () => {
  const { ask, join } = await serviceWorld();
  const a = await join("a");
  const refuse = new Error("too large");
  a.onSend = ({ type }) => {
    if (type === "SESSION" || type === "TICKETLIST" || type === "RENEWED") throw refuse;
  };
  const list = ask(a, "LISTTICKETS");
  const renew = ask(a, "RENEW", { seen: 0, tokens: [] });
  const goodbye = ask(a, "GOODBYE");
  await turn();
  expect(a.take().sort()).toEqual([`ERROR ${list} failed`, `ERROR ${renew} failed`, `GOODBYE ${goodbye}`].sort());
});

test("no answer and no push but LOCKED and SESSION ever shows a handle, and none a secret", async () => {
  const { ask, join, lock, clock } = await serviceWorld();
  const connections = [await join("a"), await join("b"), new FakeConnection()];
  const [a, b, admin] = connections;
  if (a === undefined || b === undefined || admin === undefined) throw new Error("three were made");
  ask(admin, "EVENTS", { follow: true });
  lock(a, "1", { value: "v", commandLine: "job --all", unlockDuration: 500, detached: true });
  lock(b, "1", { queue: true, detectDeadlock: true });
  await turn();
  const secrets = [String(a.last("LOCKED")["handle"]), ...["a", "b"].map((name) => Buffer.from(secretOf(name)).toString())];
  lock(b, "2", { wait: 0 });
  for (const [type, body] of [
    ["LISTTICKETS", {}], ["WHY", { object: "x" }], ["SESSIONS", {}], ["EVENTS", { from: 1 }],
    ["RELEASE", { object: "x", token: 1, reason: "r" }], ["UNLOCK", { handle: "wrong" }], ["RENEW", { handle: secrets[0] }],
  ] as const) ask(admin, type, body);
  await turn();
  clock.advance(501);
  await turn();
  secrets.push(String(b.last("LOCKED")["handle"]));
  ask(admin, "KICK", { session: idOf("b") });
  ask(admin, "RENEW", { handle: secrets.at(-1) });
  await turn();
  const open = connections.flatMap(({ frames }) => frames).filter(({ type }) => type !== "LOCKED" && type !== "SESSION");
  expect(new Set(open.map(({ type }) => type)).size).toBeGreaterThan(10);
  const shown = (body: Body): string => JSON.stringify(body, (_key, value: unknown) => (value instanceof Uint8Array ? Buffer.from(value).toString() : value));
  for (const { type, body } of open) for (const secret of secrets) expect([type, shown(body).includes(secret)]).toEqual([type, false]);
});

import { afterEach, describe, expect, test } from "bun:test";
import { createServer } from "node:net";
import { connect, type ConnectOptions, LockdClient } from "../../src/client/client.ts";
import { LockFailedError, LockLostError } from "../../src/client/errors.ts";
import type { Lock } from "../../src/client/lock.ts";
import { FakeClock } from "../../src/clock/fake.ts";
import { asLockdError, LockdError } from "../../src/errors.ts";
import { FakeServer } from "./fake-server.ts";

const servers: { stop(): Promise<void> }[] = [];
const cleanUps: (() => Promise<void>)[] = [];

afterEach(async () => {
  // clients first: they say goodbye
  for (const cleanUp of cleanUps.splice(0)) await cleanUp();
  for (const server of servers.splice(0)) await server.stop();
});

async function start(port = 0): Promise<FakeServer> {
  const server = await FakeServer.start(port);
  servers.push(server);
  return server;
}

async function connected(server: FakeServer, options: Partial<ConnectOptions> = {}): Promise<LockdClient> {
  const client = await connect({ servers: [server.address], ...options });
  cleanUps.push(() => closed(client, options.clock));
  return client;
}

/** Closes; a fake clock has to be moved for what waits for a server that is gone. */
async function closed(client: LockdClient, clock: unknown): Promise<void> {
  const done = client.close();
  if (clock instanceof FakeClock) for (let ms = 0; ms < 5000; ms += 500) await clock.advanceAsync(500);
  await done;
}

/** The error that a promise rejects with. */
async function rejection(promise: Promise<unknown>): Promise<LockdError> {
  return promise.then(
    () => {
      throw new Error("resolved, though it should reject");
    },
    (error: unknown) => asLockdError(error),
  );
}

const lost = (lock: Lock): Promise<LockLostError> =>
  new Promise((resolve) => {
    lock.signal.addEventListener("abort", () => resolve(lock.signal.reason));
  });

/** A port on which nobody listens. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

describe("connect", () => {
  test("greets with what the program says about itself, first of all", async () => {
    const server = await start();
    const client = await connected(server, { name: "n", host: "h", pid: 7, program: "p", software: "s" });
    expect(server.frames[0]).toMatchObject({
      type: "HELLO", id: 0, body: { protocol: 1, role: "client", name: "n", host: "h", pid: 7, program: "p", software: "s", features: [] },
    });
    expect(client.server).toEqual({ name: "fake", cluster: "c", software: "test", features: [] });
  });

  test("takes the next server when the first cannot be reached", async () => {
    const server = await start();
    const dead = `127.0.0.1:${await freePort()}`;
    const client = await connect({ servers: [dead, server.address] });
    cleanUps.push(() => client.close());
    expect(client.server?.name).toBe("fake");
  });

  test("fails after one round with a reason for each server", async () => {
    const [first, second] = [await freePort(), await freePort()];
    const error = await rejection(connect({ servers: [`127.0.0.1:${first}`, `localhost:${second}`] }));
    expect(error.code).toBe("unavailable");
    expect(error.exitCode).toBe(69);
    expect(error.message).toContain(`127.0.0.1:${first}: connection refused`);
    expect(error.message).toContain(`localhost:${second}: connection refused`);
  });

  test("gives up on a server that accepts and never speaks after its time, and takes the next", async () => {
    const mute = await start();
    mute.mute = true;
    const server = await start();
    const client = await connect({ servers: [mute.address, server.address], connectTimeoutMs: 100 });
    cleanUps.push(() => client.close());
    expect(client.server?.name).toBe("fake");
    const error = await rejection(connect({ servers: [mute.address], connectTimeoutMs: 100 }));
    expect(error.code).toBe("unavailable");
    expect(error.message).toContain("no answer within 100 ms");
  });

  test("passes on a refusal that all servers share", async () => {
    const server = await start();
    server.script = (frame, connection) => {
      if (frame.type !== "HELLO") return false;
      connection.send("ERROR", 0, { code: "denied", message: "who are you?", hint: "say it", retryable: false });
      connection.end();
      return true;
    };
    const error = await rejection(connect({ servers: [server.address], wait: 60_000 }));
    expect(error).toMatchObject({ code: "denied", message: "who are you?", hint: "say it" });
  });

  test("refuses a server of another protocol version", async () => {
    const server = await start();
    server.script = (frame, connection) => {
      connection.send("HELLO", 0, { protocol: 2, role: "server", name: "new" });
      return frame.type === "HELLO";
    };
    expect((await rejection(connect({ servers: [server.address] }))).code).toBe("protocol");
  });

  test("survives a peer that speaks something else", async () => {
    const server = createServer((socket) => socket.resume().end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    cleanUps.push(() => new Promise((resolve) => server.close(() => resolve())));
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    const error = await rejection(connect({ servers: [`127.0.0.1:${address.port}`], wait: 60_000 }));
    expect(error).toMatchObject({ code: "unavailable", retryable: false, message: expect.stringContaining("does not speak the protocol of lockd") });
  });

  test("keeps trying until its wait is over", async () => {
    const port = await freePort();
    const pending = connect({ servers: [`127.0.0.1:${port}`], wait: 30_000 });
    await new Promise((resolve) => setTimeout(resolve, 120));
    await start(port);
    const client = await pending;
    cleanUps.push(() => client.close());
    expect(client.server?.name).toBe("fake");
  });

  test("tries at least one round, and ends when the wait is over", async () => {
    const port = await freePort();
    expect((await rejection(connect({ servers: [`127.0.0.1:${port}`], wait: 0 }))).code).toBe("unavailable");
    expect((await rejection(connect({ servers: [`127.0.0.1:${port}`], wait: 150 }))).code).toBe("unavailable");
  });

  test("looks the name up at each dial and tries every address", async () => {
    const server = await start();
    const asked: string[] = [];
    const client = await connect({
      servers: [`service.example:${server.port}`],
      resolve: async (host) => {
        asked.push(host);
        return ["127.0.0.99", "127.0.0.1"];
      },
    });
    cleanUps.push(() => client.close());
    const lock = await client.lock("x");
    server.cut();
    await server.until(() => server.of("SESSION").length === 2);
    expect(asked).toEqual(["service.example", "service.example"]);
    await lock.release();
  });

  test("says which name cannot be looked up", async () => {
    const error = await rejection(
      connect({
        servers: ["nowhere.example:4050"],
        resolve: async () => {
          throw Object.assign(new Error("getaddrinfo"), { code: "ENOTFOUND" });
        },
      }),
    );
    expect(error.code).toBe("unavailable");
    expect(error.message).toContain("nowhere.example:4050");
    expect(error.message).toContain("host name not found");
  });

  test("ends when the signal aborts, before and during the search", async () => {
    const mute = await start();
    mute.mute = true;
    const abort = new AbortController();
    const pending = connect({ servers: [mute.address], wait: null, signal: abort.signal });
    await mute.arrived("HELLO");
    abort.abort();
    expect((await rejection(pending)).code).toBe("cancelled");
    expect((await rejection(connect({ servers: [mute.address], signal: AbortSignal.abort() }))).code).toBe("cancelled");
  });

  test.each(["", "host", "host:", "host:0", "host:65536", ":1", "a b:1", "::1:4050", "[::1]", "host:1:2"])(
    "refuses the address %p",
    async (address) => {
      expect((await rejection(connect({ servers: [address] }))).code).toBe("invalid");
    },
  );

  test("refuses an empty list of servers", async () => {
    expect((await rejection(connect({ servers: [] }))).code).toBe("invalid");
  });
});

describe("lock", () => {
  test("a free object is granted and given back", async () => {
    const server = await start();
    const client = await connected(server);
    const lock = await client.lock("a");
    expect(lock).toMatchObject({ objects: ["a"], token: 1, durationMs: 10_000, unlockDurationMs: 5_000, lost: null });
    expect(lock.expiresIn()).toBeGreaterThan(5_000);
    expect(lock.expiresIn()).toBeLessThanOrEqual(9_750);
    await lock.release();
    expect(server.tickets).toEqual([]);
    expect(lock.expiresIn()).toBe(0);
  });

  test("all options reach the server under their wire names", async () => {
    const server = await start();
    const client = await connected(server);
    await client.lock(["a", "b"], {
      mode: "semaphore", permits: 5, count: 2, wait: 1234, duration: 7000, unlockDuration: 800, lockDelay: 9, value: "v",
      detectDeadlock: true, parents: ["p"], commandLine: "c", onQueue: () => undefined,
    });
    expect(server.of("LOCK")[0]?.body).toEqual({
      request: "1", objects: ["a", "b"], mode: "semaphore", permits: 5, count: 2, wait: 1234, duration: 7000, unlockDuration: 800,
      lockDelay: 9, value: "v", detectDeadlock: true, parents: ["p"], commandLine: "c", queue: true,
    });
  });

  test("waits 5 s unless told otherwise", async () => {
    const server = await start();
    const client = await connected(server);
    await client.lock("a");
    await client.lock("b", { wait: null });
    expect(server.of("LOCK").map((frame) => frame.body["wait"])).toEqual([5000, null]);
  });

  test.each([{ wait: -1 }, { wait: 0.5 }, { wait: Number.NaN }, { wait: 1e12 }, { duration: Number.POSITIVE_INFINITY }, { permits: 1.5 }])(
    "refuses %p before anything is sent",
    async (options) => {
      const server = await start();
      const client = await connected(server);
      expect((await rejection(client.lock("a", options))).code).toBe("invalid");
      expect(server.of("LOCK")).toEqual([]);
    },
  );

  test("refuses a name that is not Unicode instead of locking another one", async () => {
    const server = await start();
    const client = await connected(server);
    expect((await rejection(client.lock("a\ud800"))).code).toBe("invalid");
    const lock = await client.lock("a\n|/,🔒");
    expect(lock.objects).toEqual(["a\n|/,🔒"]);
  });

  test("release may be called many times and is sent once", async () => {
    const server = await start();
    const client = await connected(server);
    const lock = await client.lock("a");
    const first = lock.release();
    expect(lock.release()).toBe(first);
    await first;
    await lock.release();
    expect(server.of("UNLOCK")).toHaveLength(1);
  });

  test("a scope with `await using` gives it back", async () => {
    const server = await start();
    const client = await connected(server);
    {
      await using lock = await client.lock("a");
      expect(server.tickets.map((ticket) => ticket.token)).toEqual([lock.token]);
    }
    expect(server.tickets).toEqual([]);
  });

  test("requests of one turn leave in one write and are all granted: 128 acquires over one connection", async () => {
    const server = await start();
    const client = await connected(server);
    let inside = 0;
    let most = 0;
    const tokens: number[] = [];
    await Promise.all(
      Array.from({ length: 128 }, async () => {
        const lock = await client.lock("one", { wait: null });
        inside += 1;
        most = Math.max(most, inside);
        tokens.push(lock.token);
        await Promise.resolve();
        inside -= 1;
        await lock.release();
      }),
    );
    expect(most).toBe(1);
    expect(tokens).toEqual([...tokens].sort((a, b) => a - b));
    expect(server.tickets).toEqual([]);
    expect(server.connections).toHaveLength(1);
  });

  test("a thousand locks released as soon as they are granted leave nothing: no ticket, no renewal", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock });
    for (let turn = 0; turn < 1000; turn += 1) await (await client.lock("quick")).release();
    expect(server.tickets).toEqual([]);
    expect(server.of("RENEW")).toEqual([]);
    // beyond every renewal, with the connection kept alive
    for (let turn = 1; turn <= 5; turn += 1) {
      await clock.advanceAsync(1500);
      await server.arrived("PING", turn);
      await client.lock(`later ${turn}`, { detached: true });
    }
    expect(server.of("RENEW").every((renew) => renew.body["count"] === 0)).toBe(true);
  });

  test("a refusal is an error with the holders in its details", async () => {
    const server = await start();
    const holder = { name: "n", host: "h", pid: 1, program: "p", address: "a", session: "s" };
    server.script = (frame, connection) => {
      if (frame.type !== "LOCK") return false;
      connection.send("LOCKFAILED", frame.id, {
        request: frame.body["request"], code: "timedout", message: "held by p",
        holders: [{ object: "a", holder, token: 5, sinceAgo: 10, state: "locked" }], position: 1,
      });
      return true;
    };
    const client = await connected(server);
    const error = await rejection(client.lock("a", { wait: 0 }));
    expect(error).toBeInstanceOf(LockFailedError);
    expect(error).toMatchObject({ code: "timedout", exitCode: 75, details: { position: 1, holders: [{ holder, token: 5 }] } });
  });

  test("positions in the queue reach onQueue, and its throw does not disturb the lock", async () => {
    const server = await start();
    const positions: number[] = [];
    const client = await connected(server);
    const first = await client.lock("a");
    const second = client.lock("a", { onQueue: (position) => void positions.push(position) });
    const request = await server.arrived("LOCK", 2);
    server.last.send("QUEUE", 0, { request: request.body["request"], position: 1 });
    await first.release();
    await (await second).release();
    expect(positions).toEqual([1]);
  });
});

describe("cancelling a wait", () => {
  test("rejects when the ticket is gone at the server", async () => {
    const server = await start();
    const client = await connected(server);
    const held = await client.lock("a");
    const abort = new AbortController();
    const waiting = client.lock("a", { signal: abort.signal });
    await server.arrived("LOCK", 2);
    abort.abort(new Error("why"));
    const error = await rejection(waiting);
    expect(error.code).toBe("cancelled");
    expect(error.cause).toBe(abort.signal.reason);
    expect(server.tickets).toHaveLength(1);
    await held.release();
  });

  test("before the call sends nothing", async () => {
    const server = await start();
    const client = await connected(server);
    expect((await rejection(client.lock("a", { signal: AbortSignal.abort() }))).code).toBe("cancelled");
    expect(server.of("LOCK")).toEqual([]);
  });

  test("in the moment of the grant leaves either a holder or nobody, and the next is served, 300 times", async () => {
    const server = await start();
    const client = await connected(server);
    let granted = 0;
    for (let turn = 0; turn < 300; turn += 1) {
      const first = await client.lock("a");
      const abort = new AbortController();
      const second = client.lock("a", { signal: abort.signal }).then(
        (lock) => lock,
        (error: unknown) => asLockdError(error),
      );
      const released = first.release();
      if (turn % 3 === 0) await released;
      if (turn % 3 === 1) await new Promise((resolve) => setImmediate(resolve));
      abort.abort();
      const outcome = await second;
      await released;
      if (outcome instanceof LockdError) expect(outcome.code).toBe("cancelled");
      else {
        granted += 1;
        await outcome.release();
      }
      await (await client.lock("a", { wait: 5000 })).release();
    }
    expect(server.tickets).toEqual([]);
    expect(granted).toBeLessThan(300);
  });

  test("of a server that does not answer is over in a second", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock });
    const held = await client.lock("a");
    const abort = new AbortController();
    const waiting = rejection(client.lock("a", { signal: abort.signal, wait: null }));
    await server.arrived("LOCK", 2);
    server.mute = true;
    abort.abort();
    await server.arrived("UNLOCK");
    await clock.advanceAsync(1000);
    expect((await waiting).code).toBe("cancelled");
    server.mute = false;
    expect(held.expiresIn()).toBeGreaterThan(0);
  });
});

describe("a lock that cannot be renewed", () => {
  test("is lost at its deadline without any call: the signal aborts with the reason", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock });
    const lock = await client.lock("a", { duration: 2000 });
    const loss = lost(lock);
    await server.stop();
    await clock.advanceAsync(2000);
    const reason = await loss;
    expect(reason).toBeInstanceOf(LockLostError);
    expect(reason.reason).toBe("unreachable");
    expect(lock.lost).toBe(reason);
    expect((await rejection(lock.release())).code).toBe("lost");
  });

  test("is not held after a pause beyond the lease, even if the program asks first", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock });
    const lock = await client.lock("a", { duration: 2000 });
    clock.suspend(5000);
    expect(lock.expiresIn()).toBe(0);
    expect(lock.lost?.reason).toBe("expired");
    expect(lock.signal.aborted).toBe(true);
    expect(lock.signal.reason).toBe(lock.lost);
  });

  test("is known to be lost by whoever asks for the loss, or releases, first after a pause", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock });
    const asked = await client.lock("a", { duration: 2000 });
    const released = await client.lock("b", { duration: 60_000 });
    clock.suspend(5000);
    expect(asked.lost?.reason).toBe("expired");
    clock.suspend(60_000);
    expect((await rejection(released.release())).code).toBe("lost");
  });

  test("is lost soon after the machine wakes up, though timers slept with it", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock });
    const lock = await client.lock("a", { duration: 60_000 });
    const loss = lost(lock);
    clock.suspend(60_000);
    await clock.advanceAsync(500);
    expect((await loss).reason).toBe("expired");
  });

  test("is kept over a pause that is shorter than the lease", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock });
    const lock = await client.lock("a", { duration: 10_000 });
    clock.pause(8000);
    await server.until(() => server.of("RENEW").length > 0);
    await client.lock("b");
    expect(lock.expiresIn()).toBeGreaterThan(9000);
    await lock.release();
  });

  test("is told of a forced release at once", async () => {
    const server = await start();
    const client = await connected(server);
    const lock = await client.lock("a");
    const loss = lost(lock);
    server.expire("a", "forced", "UNLOCKING");
    expect((await loss).reason).toBe("forced");
    expect(lock.expiresIn()).toBe(0);
    // giving it back frees the object at once, and the loss is not hidden
    expect((await rejection(lock.release())).code).toBe("lost");
    await server.until(() => server.tickets.length === 0);
  });

  test("a signal that is asked for after the loss is aborted already", async () => {
    const server = await start();
    const client = await connected(server);
    const lock = await client.lock("a");
    server.expire("a", "kicked");
    while (lock.lost === null) await new Promise((resolve) => setImmediate(resolve));
    expect(lock.signal.aborted).toBe(true);
  });

  test("tells each renewal with the new deadline, and a listener that throws does not end renewing", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock });
    const lock = await client.lock("a", { duration: 3000 });
    const deadlines: number[] = [lock.deadline];
    const stop = lock.onRenewed((deadlineMs) => void deadlines.push(deadlineMs));
    for (let turn = 1; turn <= 3; turn += 1) {
      await clock.advanceAsync(1100);
      await server.arrived("RENEW", turn);
      await client.lock(`after ${turn}`);
    }
    stop();
    expect(deadlines).toHaveLength(4);
    expect(deadlines).toEqual([...deadlines].sort((a, b) => a - b));
    expect(lock.deadline).toBe(deadlines[3] ?? 0);
    expect(lock.deadline - clock.bootMs()).toBeLessThanOrEqual(3000 * 0.98 - 50);
  });
});

describe("a broken connection", () => {
  test("does not end what is held: the session goes on, nothing is lost", async () => {
    const server = await start();
    const client = await connected(server);
    const lock = await client.lock("a");
    server.cut();
    await server.until(() => server.of("SESSION").length === 2);
    await server.arrived("RENEW");
    expect(lock.lost).toBeNull();
    await lock.release();
    expect(server.tickets).toEqual([]);
  });

  test("does not end a wait, whatever was under way", async () => {
    const server = await start();
    const client = await connected(server);
    const first = await client.lock("a");
    const second = client.lock("a", { wait: null });
    await server.arrived("LOCK", 2);
    for (let turn = 2; turn < 6; turn += 1) {
      server.cut();
      await server.until(() => server.of("SESSION").length === turn);
    }
    await first.release();
    expect((await second).token).toBe(2);
  });

  test("whose server is back after a while is replaced, and the wait goes on", async () => {
    const port = await freePort();
    const before = await start(port);
    const client = await connected(before);
    const waiting = client.lock("a", { wait: null });
    await before.arrived("LOCK");
    const loss = lost(await waiting);
    const second = client.lock("a", { wait: null });
    await before.arrived("LOCK", 2);
    await before.stop();
    // a server that forgot everything
    const after = await start(port);
    expect((await second).token).toBe(1);
    expect((await loss).reason).toBe("revoked");
    expect(after.of("LOCK").map((frame) => frame.body["request"])).toEqual(["2"]);
  });

  test("is replaced by one to the next server, not by the one that broke", async () => {
    const [first, second] = [await start(), await start()];
    const client = await connect({ servers: [first.address, second.address] });
    cleanUps.push(() => client.close());
    const loss = lost(await client.lock("a"));
    first.cut();
    await loss;
    expect([first.connections.length, second.connections.length]).toEqual([1, 1]);
  });

  test("again and again makes the client wait longer each time, up to a second", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock, random: () => 1 });
    server.script = (frame, connection) => {
      if (frame.type === "SESSION") connection.destroy();
      return frame.type !== "HELLO";
    };
    const waiting = client.lock("a", { wait: null });
    waiting.catch(() => undefined);
    const before = clock.monotonicMs();
    while (clock.monotonicMs() - before < 10_000) {
      await clock.advanceAsync(25);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    // 100, 200, 400, 800 ms and then every second: about a dozen, where 50 ms each would be 200
    expect(server.connections.length).toBeGreaterThan(5);
    expect(server.connections.length).toBeLessThan(20);
  });

  test("whose servers are all gone is named by a wait that ends without one", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock });
    await server.stop();
    const failed = rejection(client.lock("a", { wait: 500 }));
    for (let ms = 0; ms < 1500; ms += 50) {
      await clock.advanceAsync(50);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    const error = await failed;
    expect(error.code).toBe("unavailable");
    expect(error.message).toContain(`${server.address}: connection refused`);
  });

  test("that nobody closes is noticed: a black hole is left for another connection", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock });
    const lock = await client.lock("a", { duration: 60_000 });
    server.script = (_frame, connection) => connection.number === 0;
    for (let ms = 0; ms < 3500; ms += 100) await clock.advanceAsync(100);
    await server.until(() => server.of("SESSION").length === 2);
    expect(server.of("PING")).toHaveLength(1);
    expect(lock.lost).toBeNull();
  });

  test("in the middle of answers loses neither grants nor tickets", async () => {
    const server = await start();
    const client = await connected(server, { random: () => 0 });
    let cuts = 0;
    server.script = (frame, connection) => {
      // the service does it, the answer never arrives
      if ((frame.type === "LOCK" || frame.type === "UNLOCK") && cuts < 6 && frame.id % 3 === 0) {
        cuts += 1;
        server.honest(frame, { ...connection, send: () => undefined });
        connection.destroy();
        return true;
      }
      return false;
    };
    const tokens: number[] = [];
    for (let turn = 0; turn < 30; turn += 1) {
      const lock = await client.lock("a", { wait: null });
      tokens.push(lock.token);
      await lock.release();
    }
    expect(cuts).toBe(6);
    expect(new Set(tokens).size).toBe(30);
    expect(server.tickets).toEqual([]);
  });

  test("fails plain requests with unavailable, and changes with unknown", async () => {
    const server = await start();
    server.script = (frame, connection) => {
      if (frame.type !== "STATUS" && frame.type !== "KICK") return false;
      connection.destroy();
      return true;
    };
    const client = await connected(server);
    expect((await rejection(client.status())).code).toBe("unavailable");
    const kick = await rejection(client.kick("s"));
    expect(kick.code).toBe("unknown");
    expect(kick.exitCode).toBe(1);
  });

  test("is reached again by the next request after the server left with a goodbye", async () => {
    const server = await start();
    const client = await connected(server);
    const lock = await client.lock("a");
    server.last.send("GOODBYE", 0, {});
    await server.until(() => server.of("SESSION").length === 2);
    expect(lock.lost).toBeNull();
  });

  test("ends when answers are malformed, and the session goes on over a new one", async () => {
    const server = await start();
    const client = await connected(server);
    const lock = await client.lock("a");
    server.last.send("UNLOCKING", 0, { nonsense: true });
    await server.until(() => server.of("SESSION").length === 2);
    expect(lock.lost).toBeNull();
    await lock.release();
  });

  test("frame ids go on rising over all connections", async () => {
    const server = await start();
    const client = await connected(server);
    await client.lock("a");
    server.cut();
    await server.until(() => server.of("SESSION").length === 2);
    await client.lock("b");
    const ids = server.frames.map((frame) => frame.id).filter((id) => id > 0);
    expect(ids).toEqual([...ids].sort((a, b) => a - b));
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe("close", () => {
  test("gives back what is held, withdraws what waits, says goodbye, and is done once", async () => {
    const server = await start();
    const client = await connected(server);
    await client.lock("a");
    const waiting = rejection(client.lock("a", { wait: null }));
    await server.arrived("LOCK", 2);
    expect(client.close()).toBe(client.close());
    await client.close();
    expect(server.tickets).toEqual([]);
    expect((await waiting).code).toBe("cancelled");
    expect(server.of("GOODBYE").map((frame) => frame.body)).toEqual([{}]);
    expect((await rejection(client.lock("a"))).code).toBe("cancelled");
    expect((await rejection(client.status())).code).toBe("cancelled");
  });

  test("gives back over a new connection what the broken one could not", async () => {
    const server = await start();
    const client = await connected(server);
    await client.lock("a");
    server.script = (frame, connection) => {
      if (frame.type !== "UNLOCK" || connection.number > 0) return false;
      connection.destroy();
      return true;
    };
    await client.close();
    expect(server.tickets).toEqual([]);
    expect(server.of("GOODBYE").map((frame) => frame.connection)).toEqual([1]);
  });

  test("leaves detached locks alone", async () => {
    const server = await start();
    const client = await connected(server);
    await client.lock("a", { detached: true });
    await client.close();
    expect(server.of("UNLOCK")).toEqual([]);
  });

  test("says nothing when no session was opened", async () => {
    const server = await start();
    const client = await connected(server);
    await client.close();
    expect(server.frames.map((frame) => frame.type)).toEqual(["HELLO"]);
  });

  test("ends though the server does not answer, and though there is none", async () => {
    const server = await start();
    const clock = new FakeClock();
    const client = await connected(server, { clock, timers: clock });
    await client.lock("a");
    server.mute = true;
    const closed = client.close();
    for (let ms = 0; ms < 5000; ms += 500) await clock.advanceAsync(500);
    await closed;
    expect(clock.pending).toBeLessThanOrEqual(1);
  });
});

test("a client may be made before any server is there", async () => {
  const port = await freePort();
  const client = new LockdClient({ servers: [`127.0.0.1:${port}`] });
  cleanUps.push(() => client.close());
  const pending = client.lock("a", { wait: 20_000 });
  await start(port);
  expect((await pending).token).toBe(1);
});

test("who gives up finding a server does so at once, and alone: others that wait for the same round go on", async () => {
  const server = await start();
  server.mute = true;
  const client = new LockdClient({ servers: [server.address] });
  cleanUps.push(() => client.close());
  const stop = new AbortController();
  const first = rejection(client.connected(0, stop.signal));
  const others = [client.connected(0), client.connected(0, new AbortController().signal)];
  await server.arrived("HELLO");
  const late = new AbortController();
  const joined = rejection(client.connected(0, late.signal));
  stop.abort();
  late.abort();
  expect([(await first).code, (await joined).code]).toEqual(["cancelled", "cancelled"]);
  server.mute = false;
  server.last.send("HELLO", 0, { protocol: 1, role: "server", name: "fake", cluster: "c", software: "test", features: [], frameBytesMax: 2 ** 24 });
  await Promise.all(others);
  expect(client.server?.name).toBe("fake");
});

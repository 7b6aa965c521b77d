import { afterEach, describe, expect, test } from "bun:test";
import { connect, type LockdClient } from "../../src/client/client.ts";
import { LockFailedError, LockLostError } from "../../src/client/errors.ts";
import type { Lock } from "../../src/client/lock.ts";
import type { LockOptions } from "../../src/client/lock-options.ts";
import { asLockdError, type LockdError } from "../../src/errors.ts";
import { FakeServer } from "./fake-server.ts";

const cleanUps: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

interface World {
  server: FakeServer;
  client: LockdClient;
  again(objects: string | readonly string[], options?: LockOptions): Promise<Lock>;
}

async function world(): Promise<World> {
  const server = await FakeServer.start();
  cleanUps.push(() => server.stop());
  const client = await connect({ servers: [server.address] });
  cleanUps.push(() => client.close());
  return { server, client, again: (objects, options = {}) => client.lock(objects, { reentrant: true, ...options }) };
}

const rejection = (promise: Promise<unknown>): Promise<LockdError> =>
  promise.then(
    () => {
      throw new Error("resolved, though it should reject");
    },
    (error: unknown) => asLockdError(error),
  );

const heldBy = (server: FakeServer): readonly string[] => server.tickets.map(({ objects }) => objects.join("+"));

describe("a reentrant lock", () => {
  test("is asked of the server once, and given back with its last handle, in whatever order they are released", async () => {
    for (const order of [[0, 1, 2], [2, 1, 0], [1, 0, 2]]) {
      const { server, again } = await world();
      const handles = [await again("x"), await again("x"), await again("x")];
      expect(new Set(handles.map(({ token, handle }) => `${token} ${handle}`)).size).toBe(1);
      for (const [turn, index] of order.entries()) {
        expect(heldBy(server)).toEqual(["x"]);
        await handles[index]?.release();
        expect(server.of("UNLOCK")).toHaveLength(turn === 2 ? 1 : 0);
      }
      expect([heldBy(server), server.of("LOCK").length]).toEqual([[], 1]);
    }
  });

  test("counts a handle once, however often it is released", async () => {
    const { server, again } = await world();
    const [first, second] = [await again("x"), await again("x")];
    await Promise.all([first.release(), first.release()]);
    await first[Symbol.asyncDispose]();
    expect(heldBy(server)).toEqual(["x"]);
    expect([first.expiresIn(), second.expiresIn() > 0]).toEqual([0, true]);
    await second.release();
    expect(heldBy(server)).toEqual([]);
  });

  test("is asked for anew after its last release, also in the same turn", async () => {
    const { server, again } = await world();
    const first = await again("x");
    const released = first.release();
    const second = await again("x");
    await released;
    expect(second.token).toBeGreaterThan(first.token);
    await second.release();
    expect(heldBy(server)).toEqual([]);
  });

  test("covers a part of its objects, and no more than them", async () => {
    const { server, again } = await world();
    const both = await again(["a", "b"]);
    const part = await again("b");
    expect(part.token).toBe(both.token);
    const more = await again(["c"]);
    expect(more.token).not.toBe(both.token);
    await both.release();
    expect(heldBy(server)).toEqual(["a+b", "c"]);
    await part.release();
    expect(heldBy(server)).toEqual(["c"]);
    const beyond = again(["b", "c"], { wait: 100 });
    await server.arrived("LOCK", 3);
    // refused or granted by the server, which alone can say
    await more.release();
    expect((await beyond).objects).toEqual(["b", "c"]);
  });

  test("is refused as duplicate in another mode, with other permits or another count, whether held or asked for", async () => {
    const { again } = await world();
    const held = again("x", { mode: "semaphore", permits: 3, count: 1 });
    for (const other of [{}, { mode: "shared" }, { mode: "semaphore", permits: 4, count: 1 }, { mode: "semaphore", permits: 3, count: 2 }] as const) {
      const error = await rejection(again("x", other));
      expect([error instanceof LockFailedError, error.code, error.exitCode]).toEqual([true, "duplicate", 73]);
      await held;
    }
    expect((await again("x", { mode: "semaphore", permits: 3, count: 1 })).token).toBe((await held).token);
  });

  test("cannot be detached", async () => {
    const { server, again } = await world();
    expect((await rejection(again("x", { detached: true }))).code).toBe("invalid");
    expect(server.of("LOCK")).toEqual([]);
  });

  test("tells its loss to every handle, and is asked for anew then", async () => {
    const { server, again } = await world();
    const [first, second] = [await again("x"), await again("x")];
    const lost = Promise.all([first, second].map((lock) => new Promise((resolve) => lock.signal.addEventListener("abort", resolve))));
    server.expire("x", "forced");
    await lost;
    for (const lock of [first, second]) expect([lock.lost?.reason, lock.expiresIn()]).toEqual(["forced", 0]);
    const third = await again("x");
    expect(third.token).toBeGreaterThan(first.token);
    for (const lock of [first, second]) expect(await rejection(lock.release())).toBeInstanceOf(LockLostError);
    expect([heldBy(server), third.lost]).toEqual([["x"], null]);
    await third.release();
  });

  test("asked for while the first request waits comes with that one, to as many as ask", async () => {
    const { server, client, again } = await world();
    const other = await connect({ servers: [server.address] });
    cleanUps.push(() => other.close());
    const held = await other.lock("x");
    const asked = [again("x"), again("x"), again("x")];
    await server.arrived("LOCK", 2);
    await held.release();
    const tokens = (await Promise.all(asked)).map(({ token }) => token);
    expect([new Set(tokens).size, server.of("LOCK").length]).toEqual([1, 2]);
    await client.close();
    expect(heldBy(server)).toEqual([]);
  });

  test("asked for while the first request waits is waited for no longer than its own wait and signal say", async () => {
    const { server, again } = await world();
    const other = await connect({ servers: [server.address] });
    cleanUps.push(() => other.close());
    const held = await other.lock("x");
    const first = again("x", { wait: null });
    await server.arrived("LOCK", 2);
    expect((await rejection(again("x", { wait: 0 }))).code).toBe("timedout");
    expect((await rejection(again("x", { wait: 30 }))).code).toBe("timedout");
    const stop = new AbortController();
    const stopped = again("x", { wait: null, signal: stop.signal });
    stop.abort();
    expect((await rejection(stopped)).code).toBe("cancelled");
    await held.release();
    await (await first).release();
    expect(heldBy(server)).toEqual([]);
  });

  test("whose first request is given up is asked for by those who still want it", async () => {
    const { server, again } = await world();
    const other = await connect({ servers: [server.address] });
    cleanUps.push(() => other.close());
    const held = await other.lock("x");
    const stop = new AbortController();
    const first = again("x", { wait: null, signal: stop.signal });
    await server.arrived("LOCK", 2);
    const second = again("x", { wait: null });
    stop.abort();
    expect((await rejection(first)).code).toBe("cancelled");
    await server.arrived("LOCK", 3);
    await held.release();
    await (await second).release();
    expect(heldBy(server)).toEqual([]);
  });

  test("leaves nothing behind: after 1,000 names the next request for each goes to the server", async () => {
    const { server, again } = await world();
    for (let turn = 0; turn < 2; turn += 1) {
      const locks = await Promise.all(Array.from({ length: 1_000 }, (_, index) => again(`n${index}`)));
      await Promise.all(locks.map((lock) => lock.release()));
    }
    expect([server.of("LOCK").length, heldBy(server).length]).toEqual([2_000, 0]);
  });
});

describe("withLock", () => {
  test("gives back what the work returned, after the lock was released", async () => {
    const { server, client } = await world();
    const seen = await client.withLock("x", {}, (signal, lock) => [signal.aborted, lock.token, heldBy(server).length]);
    expect(seen).toEqual([false, 1, 1]);
    expect(heldBy(server)).toEqual([]);
  });

  test("rejects with what the work threw, after the lock was released", async () => {
    const { server, client } = await world();
    const thrown = new Error("of the work");
    await expect(client.withLock("x", {}, async () => Promise.reject(thrown))).rejects.toBe(thrown);
    expect(heldBy(server)).toEqual([]);
  });

  test("does not begin the work when the lock is not obtained", async () => {
    const { client } = await world();
    const held = await client.lock("x");
    let begun = false;
    const refused = client.withLock("x", { wait: 0, signal: AbortSignal.abort() }, () => {
      begun = true;
    });
    expect([(await rejection(refused)).code, begun]).toEqual(["cancelled", false]);
    await held.release();
  });

  test("aborts the signal when the lock is lost, and rejects though the work returned", async () => {
    const { server, client } = await world();
    const done = client.withLock("x", {}, async (signal) => {
      const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
      server.expire("x", "forced");
      await aborted;
      return "done";
    });
    expect(await rejection(done)).toMatchObject({ code: "lost", reason: "forced" });
  });
});

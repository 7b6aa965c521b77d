import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { LockdClient } from "../../src/client/client.ts";
import { eventually } from "./kit.ts";
import { connectTo } from "./locks-client.ts";
import { LockWorld, output } from "./locks-kit.ts";

let world: LockWorld;
const clients: LockdClient[] = [];

beforeAll(async () => {
  world = await LockWorld.start("queue");
});
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});
afterAll(() => world.clear());

/** Clients with a connection and a session each; they are closed after the test. */
async function connectMany(count: number): Promise<LockdClient[]> {
  const made = await Promise.all(Array.from({ length: count }, () => connectTo(world.server.address)));
  clients.push(...made);
  return made;
}

async function connectOne(): Promise<LockdClient> {
  const [client] = await connectMany(1);
  if (client === undefined) throw new Error("a client is needed");
  return client;
}

const codeOf = (error: unknown): unknown => (error instanceof Error && "code" in error ? error.code : error);
const grants = async (object: string): Promise<number> => (await world.events(object)).filter(({ event }) => event === "granted").length;

/** Numbers in [0, 1) that are the same in every run. */
function chance(start: number): () => number {
  let seed = start;
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

describe("waiters", () => {
  test("50 that were killed do not hold up the one that lives, and none of them is granted", async () => {
    const holder = await world.holder("dead");
    const waiters = Array.from({ length: 50 }, () => world.start(["lock", "dead", "--hold"]));
    await eventually("50 wait", async () => (await world.ticketsOf("dead")).length === 51);
    const alive = await world.waiter("dead");
    for (const waiter of waiters) waiter.kill("SIGKILL");
    await Promise.all(waiters.map((waiter) => waiter.finished()));
    await eventually("the server has noticed it", async () => {
      const sessions = output(await world.run("sessions", "--json")).trimEnd().split("\n");
      return sessions.filter((line) => line.includes('"connected":true') && line.includes('"waiting":1')).length === 1;
    });
    holder.closeStdin();
    await alive.line(0);
    expect(await grants("dead")).toBe(2);
  });

  test("that timed out, 1,000 in all, leave nothing in the queue", async () => {
    const holder = await world.holder("timeouts");
    const waiting = await connectMany(50);
    for (let round = 0; round < 20; round += 1) {
      const codes = await Promise.all(waiting.map((client) => client.lock("timeouts", { wait: 5 }).catch(codeOf)));
      expect(new Set(codes)).toEqual(new Set(["timedout"]));
    }
    expect((await world.ticketsOf("timeouts")).length).toBe(1);
    holder.closeStdin();
    await holder.finished();
    output(await world.run("lock", "timeouts", "--wait", "0"));
  });

  test("that are interrupted at any moment leave no permit of a semaphore behind", async () => {
    const random = chance(1);
    const options = { mode: "semaphore", permits: 3, wait: null } as const;
    const all = await connectMany(10);
    await Promise.all(
      all.map(async (client) => {
        for (let round = 0; round < 40; round += 1) {
          const interrupted = AbortSignal.timeout(Math.floor(random() * 8));
          const outcome = await client.lock("permits", { ...options, signal: interrupted }).catch(codeOf);
          if (outcome !== "cancelled") expect(outcome).toHaveProperty("token");
          if (typeof outcome === "object" && outcome !== null && "release" in outcome && typeof outcome.release === "function") await outcome.release();
        }
      }),
    );
    await eventually("nobody holds or waits", async () => (await world.ticketsOf("permits")).length === 0);
    for (let permit = 0; permit < 3; permit += 1) output(await world.run("lock", "permits", "--permits", "3", "--wait", "0"));
  });

  test("200 on one object: each release wakes exactly one, in the order of their coming", async () => {
    const all = await connectMany(201);
    const order: number[] = [];
    const sections: Promise<void>[] = [];
    const everybodyAsked = Promise.withResolvers<void>();
    for (const [index, client] of all.entries()) {
      const section = async () => {
        const held = await client.lock("herd", { wait: null });
        if (index === 0) await everybodyAsked.promise;
        order.push(index);
        await held.release();
      };
      sections.push(section());
      // behind this answer on the same connection the request has its place
      await client.status();
    }
    everybodyAsked.resolve();
    await Promise.all(sections);
    expect(await grants("herd")).toBe(201);
    expect(order).toEqual(all.map((_client, index) => index));
  });

  test("one whose process is stopped loses its place after the session's grace, and asks anew when it goes on", async () => {
    const holder = await world.holder("stopped");
    const stopped = await world.waiter("stopped");
    const next = await world.waiter("stopped");
    stopped.kill("SIGSTOP");
    await eventually("it lost its place", async () => (await world.ticketsOf("stopped")).every((ticket) => ticket.holder.pid !== stopped.pid));
    expect(await world.ticketsOf("stopped")).toMatchObject([{ state: "locked" }, { position: 1, holder: { pid: next.pid } }]);
    holder.closeStdin();
    await next.line(0);
    stopped.kill("SIGCONT");
    await world.waits("stopped", stopped.pid);
    next.closeStdin();
    await stopped.line(0);
    expect(stopped.json<{ token: number }>(0).token).toBeGreaterThan(next.json<{ token: number }>(0).token);
  });
});

describe("races", () => {
  test("a wait that is cancelled in the moment of the release never takes the lock with it", async () => {
    const [holder, canceller, next] = await connectMany(3);
    if (holder === undefined || canceller === undefined || next === undefined) throw new Error("three clients are needed");
    const random = chance(2);
    let cancelled = 0;
    for (let round = 0; round < 200; round += 1) {
      const lock = await holder.lock("race", { wait: null });
      const cancel = new AbortController();
      const first = canceller.lock("race", { wait: null, signal: cancel.signal }).catch(codeOf);
      const second = next.lock("race", { wait: null });
      if (random() < 0.5) await canceller.status();
      const released = lock.release();
      if (random() < 0.5) await holder.status();
      cancel.abort();
      const outcome = await first;
      if (outcome === "cancelled") cancelled += 1;
      else if (typeof outcome === "object" && outcome !== null && "release" in outcome && typeof outcome.release === "function") await outcome.release();
      await (await second).release();
      await released;
    }
    expect(cancelled).toBeGreaterThan(0);
    expect(await world.ticketsOf("race")).toEqual([]);
  });

  test("a request that is withdrawn at once is neither granted nor left behind", async () => {
    const holder = await connectOne();
    const client = await connectOne();
    const lock = await holder.lock("withdrawn");
    for (let round = 0; round < 200; round += 1) {
      const cancel = new AbortController();
      const asked = client.lock("withdrawn", { wait: null, signal: cancel.signal }).catch(codeOf);
      cancel.abort();
      expect(await asked).toBe("cancelled");
    }
    await lock.release();
    await client.status();
    expect(await world.ticketsOf("withdrawn")).toEqual([]);
    expect(await grants("withdrawn")).toBe(1);
  });

  test("a lock released right after its grant stays released, 500 times", async () => {
    const client = await connectOne();
    const tokens: number[] = [];
    for (let round = 0; round < 500; round += 1) {
      const lock = await client.lock("brief", { duration: 500 });
      tokens.push(lock.token);
      await lock.release();
    }
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    expect(await world.ticketsOf("brief")).toEqual([]);
    for await (const session of client.sessions()) if (session.session === client.session) expect([session.held, session.waiting]).toEqual([0, 0]);
  });
});

describe("many at once", () => {
  test("128 requests over one connection all end: of one name one is granted and the others are duplicates", async () => {
    const client = await connectOne();
    const outcomes = await Promise.all(Array.from({ length: 128 }, () => client.lock("one", { wait: null }).catch(codeOf)));
    expect(outcomes.filter((outcome) => outcome === "duplicate").length).toBe(127);
    for (let round = 0; round < 5; round += 1) {
      const locks = await Promise.all(Array.from({ length: 128 }, (_none, index) => client.lock(`many/${index}`, { wait: null })));
      await Promise.all(locks.map((lock) => lock.release()));
    }
    expect(await world.tickets("many/")).toEqual([]);
  });

  test("128 clients and 10 processes for one name all get their turn, and leave no session", async () => {
    const before = output(await world.run("sessions", "--json")).split("\n").length;
    let inside = 0;
    const all = await connectMany(128);
    const sections = all.map(async (client) => {
      const lock = await client.lock("crowd", { wait: null });
      expect((inside += 1)).toBe(1);
      inside -= 1;
      await lock.release();
    });
    const processes = Array.from({ length: 10 }, async () => {
      for (let turn = 0; turn < 3; turn += 1) output(await world.run("exec", "crowd", "--", "true"));
    });
    await Promise.all([...sections, ...processes]);
    await Promise.all(clients.splice(0).map((client) => client.close()));
    expect(await world.ticketsOf("crowd")).toEqual([]);
    await eventually("the sessions are gone", async () => output(await world.run("sessions", "--json")).split("\n").length <= before);
  });

  test("2,000 leases that end together all end, and an unrelated lock goes on meanwhile", async () => {
    const client = await connectOne();
    await Promise.all(Array.from({ length: 2000 }, (_none, index) => client.lock(`storm/${index}`, { detached: true, duration: 1000, unlockDuration: 500 })));
    let worstMs = 0;
    await eventually("all have ended", async () => {
      for (let cycle = 0; cycle < 20; cycle += 1) {
        const startMs = performance.now();
        await (await client.lock("calm")).release();
        worstMs = Math.max(worstMs, performance.now() - startMs);
      }
      const status = await client.status();
      return status.tickets < 1000 && (await world.tickets("storm/")).length === 0;
    });
    expect(worstMs).toBeLessThan(2000);
  });

  test("a lock is kept beyond three of its durations by exec, lock --hold and the library", async () => {
    const short = ["--duration", "500ms", "--unlock-duration", "500ms"];
    const client = await connectOne();
    const lock = await client.lock("kept/library", { duration: 500, unlockDuration: 500 });
    const hold = await world.holder("kept/hold", ...short);
    const exec = world.start(["exec", "kept/exec", ...short, "--", "sh", "-c", "echo; cat"]);
    await exec.line(0);
    const tokens = async () => (await world.tickets("kept/")).map(({ object, token, state }) => [object, token, state]);
    const before = await tokens();
    expect(before.length).toBe(3);
    const startMs = Date.now();
    await eventually("three durations are over", async () => {
      expect(await tokens()).toEqual(before);
      return Date.now() - startMs > 1700;
    });
    expect(lock.lost).toBeNull();
    await lock.release();
    hold.closeStdin();
    exec.closeStdin();
    expect([(await hold.finished()).code, (await exec.finished()).code]).toEqual([0, 0]);
  });
});

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { LockFailedError } from "../../src/client/errors.ts";
import { eventually, LOCKD, temporaryDirectory } from "./kit.ts";
import { connectTo } from "./locks-client.ts";
import { errorOf, LockWorld, output } from "./locks-kit.ts";

const files = temporaryDirectory("modes");
let world: LockWorld;

beforeAll(async () => {
  world = await LockWorld.start("modes-server");
});
afterAll(async () => {
  await world.clear();
  files.remove();
});

const states = async (object: string) => (await world.ticketsOf(object)).map(({ state, mode }) => `${mode} ${state}`);

describe("shared", () => {
  test("readers share, a writer waits for all of them, and later readers wait behind it", async () => {
    const readers = [await world.holder("book", "--shared"), await world.holder("book", "--shared")];
    const writer = await world.waiter("book");
    const late = await world.waiter("book", "--shared");
    expect(await states("book")).toEqual(["shared locked", "shared locked", "exclusive waiting", "shared waiting"]);
    readers[0]?.closeStdin();
    await readers[0]?.finished();
    expect(writer.lines).toEqual([]);
    readers[1]?.closeStdin();
    await writer.line(0);
    expect(await states("book")).toEqual(["exclusive locked", "shared waiting"]);
    writer.closeStdin();
    await late.line(0);
    expect(late.json<{ token: number }>(0).token).toBeGreaterThan(writer.json<{ token: number }>(0).token);
  });
});

describe("semaphore", () => {
  test("gives out its permits and no more, in order", async () => {
    const three = ["--permits", "3"];
    const two = await world.holder("pool", ...three, "--count", "2");
    await world.holder("pool", ...three);
    const next = await world.waiter("pool", ...three);
    expect(await world.ticketsOf("pool")).toMatchObject([{ mode: "semaphore", permits: 3, count: 2 }, { count: 1 }, { state: "waiting", count: 1 }]);
    expect(output(await world.run("lock", "pool", ...three, "--wait", "0"), 75)).toBe("");
    two.closeStdin();
    await next.line(0);
    output(await world.run("lock", "pool", ...three));
    expect(output(await world.run("lock", "pool", ...three, "--wait", "0"), 75)).toBe("");
  });

  test("another number of permits is refused as a mismatch, and nothing is disturbed", async () => {
    const holder = await world.holder("limit", "--permits", "3");
    const refused = errorOf(await world.run("lock", "limit", "--permits", "5", "--json"), 64);
    expect(refused).toMatchObject({ code: "invalid", retryable: false });
    expect(refused.message).toContain("limit mismatch");
    expect(refused.message).toContain("3 permits, not 5");
    expect(output(await world.run("exec", "limit", "--permits", "5", "--", "true"), 64)).toBe("");
    expect((await world.ticketsOf("limit")).map(({ token }) => token)).toEqual([holder.lock.token]);
    holder.closeStdin();
    await holder.finished();
    output(await world.run("lock", "limit", "--permits", "5"));
  });

  test("permits and counts out of range, or together with --shared, are usage errors", async () => {
    for (const flags of [
      ["--permits=0"], ["--permits=-1"], ["--permits=4294967296"], ["--permits=1.5"], ["--permits=abc"], ["--permits=3", "--count=0"],
      ["--permits=3", "--count=4"], ["--count=2"], ["--permits=3", "--shared"],
    ]) {
      expect(output(await world.run("lock", "range", ...flags), 64)).toBe("");
      expect(output(await world.run("exec", "range", ...flags, "--", "true"), 64)).toBe("");
    }
    expect(await world.ticketsOf("range")).toEqual([]);
  });
});

describe("several objects", () => {
  test("are had all or none: what waits for one holds none of them", async () => {
    const holder = await world.holder("all/b");
    const both = world.start(["lock", "--hold", "--json", "all/a", "all/b", "all/c"]);
    await world.waits("all/a", both.pid);
    expect((await world.tickets("all/")).filter(({ state }) => state === "locked").map(({ object }) => object)).toEqual(["all/b"]);
    expect(output(await world.run("lock", "all/b", "all/d", "--wait", "0"), 75)).toBe("");
    expect(await world.ticketsOf("all/d")).toEqual([]);
    holder.closeStdin();
    await both.line(0);
    const { token } = both.json<{ token: number }>(0);
    expect(await world.tickets("all/")).toMatchObject(["all/a", "all/b", "all/c"].map((object) => ({ object, token, state: "locked" })));
    both.closeStdin();
    await both.finished();
    expect(await world.tickets("all/")).toEqual([]);
  });

  test("in opposite orders never deadlock", async () => {
    const loop = async (...objects: string[]) => {
      for (let turn = 0; turn < 8; turn += 1) output(await world.run("exec", ...objects, "--", "true"));
    };
    await Promise.all([loop("o/1", "o/2", "o/3"), loop("o/3", "o/1"), loop("o/2", "o/1")]);
    expect(await world.tickets("o/")).toEqual([]);
  });

  test("one named twice, or more than 64, are refused", async () => {
    expect(errorOf(await world.run("lock", "a", "b", "a", "--json"), 64).message).toContain('"a" is named twice');
    const many = Array.from({ length: 65 }, (_none, index) => `many/${index}`);
    expect(errorOf(await world.run("lock", ...many, "--json"), 64).message).toContain("64");
    output(await world.run("lock", ...many.slice(1)));
    expect((await world.tickets("many/")).length).toBe(64);
  });
});

describe("lock-delay", () => {
  const SHORT = ["--duration", "500ms", "--unlock-duration", "500ms"];

  test("keeps the object free after a loss, says so, and ends", async () => {
    const lost = await world.holder("delay", ...SHORT, "--lock-delay", "2s");
    const next = await world.waiter("delay");
    lost.kill("SIGKILL");
    await eventually("the delay has begun", async () => (await world.why("delay")).freeAt !== undefined);
    const why = await world.why("delay");
    expect(why.holders).toEqual([]);
    expect(why.waitersTotal).toBe(1);
    expect(output(await world.run("why", "delay"))).toContain("lock-delay");
    expect(output(await world.run("lock", "delay", "--wait", "0"), 75)).toBe("");
    expect(next.lines).toEqual([]);
    await next.line(0);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(why.freeAt ?? "") - 100);
  });

  test("does not follow a clean unlock, and 0 is none", async () => {
    const clean = await world.lock("clean", "--lock-delay", "1h");
    output(await world.run("unlock", clean.handle));
    output(await world.run("lock", "clean", "--wait", "0"));
    await world.lock("none", ...SHORT, "--lock-delay", "0");
    await eventually("it is lost", async () => (await world.ticketsOf("none")).length === 0);
    output(await world.run("lock", "none", "--wait", "0"));
  });
});

describe("duplicates", () => {
  test("the same session asking twice for one object is told so at once, held or waiting", async () => {
    const client = await connectTo(world.server.address);
    try {
      const lock = await client.lock("double");
      const again = client.lock(["double", "other"], { wait: null });
      await expect(again).rejects.toMatchObject({ code: "duplicate", exitCode: 73 });
      const other = await connectTo(world.server.address);
      const waiting = other.lock("double", { wait: null });
      await eventually("it waits", async () => (await world.ticketsOf("double")).length === 2);
      await expect(other.lock("double", { wait: null })).rejects.toMatchObject({ code: "duplicate" });
      await lock.release();
      await (await waiting).release();
      await other.close();
    } finally {
      await client.close();
    }
  });
});

describe("deadlock", () => {
  /** exec A → B and exec B → A, each asking for its second lock when both have the first. */
  const crossing = async () => {
    const barrier = (name: string, other: string) =>
      `touch ${join(files.path, name)}; while ! [ -e ${join(files.path, other)} ]; do sleep 0.01; done`;
    const nested = (outer: string, inner: string) =>
      world.start(["exec", `dead/${outer}`, "--", "sh", "-c", `${barrier(outer, inner)}; exec ${LOCKD} exec dead/${inner} -- true`]);
    return Promise.all([nested("A", "B").finished(), nested("B", "A").finished()]);
  };

  test("of nested commands: one gets 75 with the cycle, the other goes on", async () => {
    const ended = await crossing();
    expect(ended.map(({ code }) => code).sort()).toEqual([0, 75]);
    const refused = ended.find(({ code }) => code === 75)?.stderr ?? "";
    expect(refused).toContain("deadlock");
    expect(refused).toContain('"dead/A"');
    expect(refused).toContain('"dead/B"');
    expect(await world.tickets("dead/")).toEqual([]);
  });

  test("a nested exec of the same object, and two readers that both want to write, are refused instead of waiting for ever", async () => {
    const same = await world.run("exec", "self", "--", LOCKD, "exec", "self", "--", "true");
    expect(same.code).toBe(75);
    expect(same.stderr).toContain("deadlock");
    const upgrade = (own: string, other: string) => {
      const [mine, theirs] = [join(files.path, own), join(files.path, other)];
      const script = `touch ${mine}; while ! [ -e ${theirs} ]; do sleep 0.01; done; exec ${LOCKD} exec page -- true`;
      return world.start(["exec", "page", "--shared", "--", "sh", "-c", script]).finished();
    };
    const ended = await Promise.all([upgrade("r1", "r2"), upgrade("r2", "r1")]);
    expect(ended.map(({ code }) => code)).toContain(75);
    for (const { code, stderr } of ended) if (code !== 0) expect(stderr).toContain("deadlock");
  });

  test("is shown by why even when nobody asked for its detection, and ends when one gives up", async () => {
    const clients = [await connectTo(world.server.address), await connectTo(world.server.address)];
    const [first, second] = clients;
    if (first === undefined || second === undefined) throw new Error("two clients are needed");
    try {
      const one = await first.lock("ring/1");
      const two = await second.lock("ring/2");
      const stop = new AbortController();
      const firstWaits = first.lock("ring/2", { wait: null, signal: stop.signal });
      const secondWaits = second.lock("ring/1", { wait: null });
      await eventually("both wait", async () => (await world.tickets("ring/")).length === 4);
      const { cycle } = await world.why("ring/1");
      expect(cycle.map(({ object }) => object).sort()).toEqual(["ring/1", "ring/2"]);
      expect(new Set(cycle.map(({ waiter }) => waiter.session))).toEqual(new Set(clients.map(({ session }) => session)));
      expect(output(await world.run("why", "ring/2"))).toContain("deadlock:");
      stop.abort();
      await expect(firstWaits).rejects.toMatchObject({ code: "cancelled" });
      expect((await world.why("ring/1")).cycle).toEqual([]);
      await one.release();
      await (await secondWaits).release();
      await two.release();
    } finally {
      for (const client of clients) await client.close();
    }
  });

  test("the youngest waiter that asked for detection gives way, with an error of its own code", async () => {
    const [first, second] = [await connectTo(world.server.address), await connectTo(world.server.address)];
    try {
      await first.lock("young/1");
      await second.lock("young/2");
      const waits = first.lock("young/2", { wait: null, detectDeadlock: true });
      await eventually("it waits", async () => (await world.tickets("young/")).length === 3);
      const refused = await second.lock("young/1", { wait: null, detectDeadlock: true }).catch((error: unknown) => error);
      if (!(refused instanceof LockFailedError)) throw new Error("a LockFailedError was expected");
      expect(refused.code).toBe("deadlock");
      await second.close();
      await (await waits).release();
    } finally {
      await first.close();
      await second.close();
    }
  });
});

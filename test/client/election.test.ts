import { describe, expect, test } from "bun:test";
import { connect, type LockdClient } from "../../src/client/client.ts";
import { type Leader, leaderOf, type LeaderSource, observeLeader } from "../../src/client/election.ts";
import type { HolderBody, TicketBody } from "../../src/client/protocol.ts";
import { ConnectionBrokenError, type FrameSink } from "../../src/client/requests.ts";
import { LockdError } from "../../src/errors.ts";
import type { Frame } from "../../src/wire/types.ts";
import { FakeServer } from "./fake-server.ts";

const holder: HolderBody = { name: "n", host: "h", pid: 1, program: "p", address: "a", session: "s" };
const leads = (token: number, value: string | null = null): Leader => ({ token, value, holder, sinceAgo: 5 });

/** A server of one election, as an observer meets it. */
class Scripted implements LeaderSource {
  now: Leader | null = null;
  sink: FrameSink | null = null;
  retries = 0;
  looks = 0;
  /** thrown by the next calls, one each */
  readonly failures: Error[] = [];
  readonly timers = { after: (_ms: number, fire: () => void) => ({ cancel: () => undefined, fired: void queueMicrotask(fire) }) };

  follow(_body: unknown, sink: FrameSink): Promise<unknown> {
    const failure = this.failures.shift();
    if (failure !== undefined) return Promise.reject(failure);
    this.sink = sink;
    return Promise.resolve({});
  }
  forget(sink: FrameSink): void {
    if (this.sink === sink) this.sink = null;
  }
  leader(): Promise<Leader | null> {
    this.looks += 1;
    return Promise.resolve(this.now);
  }
  retry(): Promise<void> {
    this.retries += 1;
    return Promise.resolve();
  }
  change(now: Leader | null, object = "e"): void {
    this.now = now;
    this.sink?.frame({ type: "EVENT", id: 7, body: { object } });
  }
}

const broken = (): ConnectionBrokenError => new ConnectionBrokenError(new LockdError("unavailable", "cut"));

describe("an observer", () => {
  test("is told what is, then each change of leader and of value, and nothing twice", async () => {
    const source = new Scripted();
    const seen = observeLeader(source, "e", undefined);
    const next = async (): Promise<unknown> => (await seen.next()).value;
    expect(await next()).toBeNull();
    for (const leader of [leads(1, "a"), leads(1, "b"), leads(2, "b"), null, leads(3)]) {
      const told = next();
      source.change(source.now);
      source.change(leader);
      expect(await told).toEqual(leader);
    }
    await seen.return();
    expect(source.sink).toBeNull();
  });

  test("does not look for what happens to other objects with its name at their beginning", async () => {
    const source = new Scripted();
    const seen = observeLeader(source, "e", undefined);
    await seen.next();
    const told = seen.next();
    await Bun.sleep(0);
    source.change(leads(1), "election");
    await Bun.sleep(0);
    expect(source.looks).toBe(1);
    source.change(leads(1));
    expect((await told).value).toEqual(leads(1));
    await seen.return();
  });

  test("that is slow gets the newest of many changes, and none of those before it", async () => {
    const source = new Scripted();
    const seen = observeLeader(source, "e", undefined);
    await seen.next();
    for (let token = 1; token <= 100_000; token += 1) source.change(leads(token));
    expect((await seen.next()).value).toEqual(leads(100_000));
    const told = seen.next();
    source.change(leads(100_001));
    expect((await told).value).toEqual(leads(100_001));
    await seen.return();
  });

  test("goes on over broken connections and servers that are not ready, and hears what changed meanwhile", async () => {
    const source = new Scripted();
    const seen = observeLeader(source, "e", undefined);
    source.failures.push(broken(), new LockdError("unavailable", "not ready"));
    source.now = leads(1);
    expect((await seen.next()).value).toEqual(leads(1));
    expect(source.retries).toBe(2);
    const told = seen.next();
    source.now = leads(2);
    source.sink?.closed(new LockdError("unavailable", "cut"));
    expect((await told).value).toEqual(leads(2));
    await seen.return();
  });

  test("ends with the error when it may not look", async () => {
    const source = new Scripted();
    source.failures.push(new LockdError("denied", "no"));
    await expect(observeLeader(source, "e", undefined).next()).rejects.toMatchObject({ code: "denied" });
  });

  test("ends quietly when its signal aborts, while it waits as well", async () => {
    const source = new Scripted();
    const stop = new AbortController();
    const seen = observeLeader(source, "e", stop.signal);
    await seen.next();
    const told = seen.next();
    stop.abort();
    expect((await told).done).toBe(true);
    expect(source.sink).toBeNull();
  });
});

describe("a leader", () => {
  const start = async (): Promise<{ server: FakeServer; client: LockdClient; end(): Promise<void> }> => {
    const server = await FakeServer.start();
    const client = await connect({ servers: [server.address] });
    return { server, client, end: async () => void (await client.close(), await server.stop()) };
  };
  const isProclamation = ({ type, body }: Frame): boolean => type === "RENEW" && body["value"] !== undefined;

  test("that waits for its value to be told hears at once that it does not lead any more", async () => {
    const { server, client, end } = await start();
    server.script = isProclamation;
    const leadership = await client.campaign("e");
    const told = leadership.proclaim("v").catch((error: unknown) => error);
    const behind = leadership.proclaim("w").catch((error: unknown) => error);
    await server.until(() => server.frames.some(isProclamation));
    server.expire("e", "forced");
    for (const error of [await told, await behind]) expect(error).toMatchObject({ code: "lost", reason: "forced" });
    expect(server.frames.filter(isProclamation)).toHaveLength(1);
    await end();
  });

  test("tells its values one after the other, again after a broken connection, in their order", async () => {
    const { server, client, end } = await start();
    const answered: unknown[] = [];
    let broken = 0;
    server.script = (frame, connection) => {
      if (!isProclamation(frame)) return false;
      const { id, body } = frame;
      if (body["value"] === "b" && (broken += 1) === 1) connection.destroy();
      else {
        answered.push(body["value"]);
        connection.send("RENEWED", id, { token: 1, left: 10_000, duration: 10_000, unlockDuration: 5_000, processed: id });
      }
      return true;
    };
    const leadership = await client.campaign("e");
    await Promise.all(["a", "b", "c"].map((value) => leadership.proclaim(value)));
    expect(answered).toEqual(["a", "b", "c"]);
    await leadership.resign();
    await end();
  });
});

describe("the leader in an answer to WHY", () => {
  const ticket = (fields: Partial<TicketBody>): TicketBody => ({
    object: "e", ticket: "1/s", state: "locked", mode: "exclusive", holder, detached: false, token: 4, sinceAgo: 5, ...fields,
  });
  const why = (...holders: readonly TicketBody[]): Leader | null => leaderOf({ object: "e", holders, waiters: [], waitersTotal: 0, cycle: [], events: [] });

  test("is who holds the object alone, with its value", () => {
    expect(why(ticket({ value: "v" }))).toEqual(leads(4, "v"));
    expect(why(ticket({}))).toEqual(leads(4));
  });
  test("is nobody when it was told to leave, when others share the object, and when nobody holds it", () => {
    expect([why(ticket({ state: "unlocking" })), why(ticket({ mode: "shared" })), why(ticket({ mode: "semaphore" })), why()]).toEqual([null, null, null, null]);
  });
});

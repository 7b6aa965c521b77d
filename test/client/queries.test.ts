import { afterEach, describe, expect, test } from "bun:test";
import { connect, type ConnectOptions, type LockdClient } from "../../src/client/client.ts";
import type { EventBody } from "../../src/client/protocol.ts";
import { asLockdError, type LockdError } from "../../src/errors.ts";
import type { Body, Frame } from "../../src/wire/types.ts";
import { type FakeConnection, FakeServer } from "./fake-server.ts";

let server: FakeServer;
let client: LockdClient;

async function begin(answers: Record<string, (frame: Frame, connection: FakeConnection) => void>, options: Partial<ConnectOptions> = {}) {
  server = await FakeServer.start();
  server.script = (frame, connection) => {
    const answer = answers[frame.type];
    answer?.(frame, connection);
    return answer !== undefined;
  };
  client = await connect({ servers: [server.address], random: () => 0, ...options });
}

afterEach(async () => {
  await client.close();
  await server.stop();
});

const rejection = async (promise: Promise<unknown>): Promise<LockdError> =>
  promise.then(
    () => {
      throw new Error("resolved, though it should reject");
    },
    (error: unknown) => asLockdError(error),
  );

const holder = { name: "n", host: "h", pid: 1, program: "p", address: "a", session: "s" };
const ticket = (object: string): Body => ({
  object, ticket: "00000001/s", state: "locked", mode: "exclusive", holder, detached: false, token: 5, sinceAgo: 1, expiresIn: -3,
});
const event = (id: number, object = "x"): EventBody => ({
  id, time: 1, event: "granted", object, ticket: "t", mode: "exclusive", holder,
});

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) found.push(value);
  return found;
}

describe("list", () => {
  test("asks page after page and yields everything in order", async () => {
    await begin({
      LISTTICKETS: (frame, connection) => {
        const first = frame.body["after"] === null;
        connection.send("TICKETLIST", frame.id, {
          tickets: first ? [ticket("a"), ticket("b")] : [ticket("c")],
          next: first ? ["b", 2] : null,
        });
      },
    });
    expect((await all(client.list("pre"))).map((one) => one.object)).toEqual(["a", "b", "c"]);
    expect(server.of("LISTTICKETS").map((frame) => [frame.body["prefix"], frame.body["after"]])).toEqual([
      ["pre", null],
      ["pre", ["b", 2]],
    ]);
  });

  test("stops asking when the reader has seen enough", async () => {
    await begin({
      LISTTICKETS: (frame, connection) => connection.send("TICKETLIST", frame.id, { tickets: [ticket("a")], next: ["a", 1] }),
    });
    for await (const _one of client.list()) break;
    expect(server.of("LISTTICKETS")).toHaveLength(1);
  });

  test("a malformed answer says which field", async () => {
    await begin({
      LISTTICKETS: (frame, connection) => {
        connection.send("TICKETLIST", frame.id, { tickets: [{ ...ticket("a"), holder: { ...holder, pid: "7" } }], next: null });
      },
    });
    const error = await rejection(all(client.list()));
    expect(error.code).toBe("protocol");
    expect(error.message).toContain("tickets.0.holder.pid");
  });
});

describe("single answers", () => {
  test("status, why, kick and a forced release are typed results", async () => {
    const status = {
      name: "n", mode: "serve", version: "1", ready: true, reason: null, readyIn: null,
      cluster: { id: "c", size: 1, quorum: 1, members: [] }, leaders: ["n"], epoch: 1, term: 0, commit: 0, applied: 0,
      tickets: 3, waiting: 1, uptime: 12.5,
    };
    const why = { object: "x", holders: [ticket("x")], waiters: [], waitersTotal: 0, cycle: [], events: [event(1)] };
    await begin({
      STATUS: (frame, connection) => connection.send("STATUS", frame.id, { ...status, future: 1 }),
      WHY: (frame, connection) => connection.send("WHY", frame.id, why),
      KICK: (frame, connection) => connection.send("KICKED", frame.id, { tickets: 2 }),
      RELEASE: (frame, connection) => connection.send("RELEASING", frame.id, { holder, freeIn: 5000 }),
      SESSIONS: (frame, connection) => connection.send("SESSIONS", frame.id, { sessions: [], next: null }),
    });
    expect(await client.status()).toEqual(status);
    expect((await client.why("x")).holders).toHaveLength(1);
    expect(await client.kick("s", { reason: "why", dead: true })).toEqual({ tickets: 2 });
    expect(await client.releaseByForce("x", 5, { reason: "why", dead: true })).toEqual({ holder, freeIn: 5000 });
    expect(await all(client.sessions())).toEqual([]);
    expect(server.of("RELEASE")[0]?.body).toEqual({ object: "x", token: 5, reason: "why", dead: true });
    expect(server.of("KICK")[0]?.body).toEqual({ session: "s", reason: "why", dead: true });
  });

  test("errors of the server come through with code, hint and exit code", async () => {
    await begin({
      WHY: (frame, connection) => connection.send("ERROR", frame.id, { code: "denied", message: "no", hint: "ask", retryable: false }),
      RENEW: (frame, connection) => connection.send("LOCKFAILED", frame.id, { code: "lost", message: "it was lost" }),
    });
    expect(await rejection(client.why("x"))).toMatchObject({ code: "denied", hint: "ask", exitCode: 77 });
    expect(await rejection(client.renewHandle("h"))).toMatchObject({ code: "lost", exitCode: 76 });
    expect(await rejection(client.status())).toMatchObject({ code: "protocol" });
  });

  test("an answer of another type is a breach of the protocol", async () => {
    await begin({ STATUS: (frame, connection) => connection.send("WHY", frame.id, {}) });
    expect((await rejection(client.status())).message).toContain("answered by WHY");
  });

  test("no answer at all is unavailable after the time of one request, though the server is alive", async () => {
    await begin({ STATUS: () => undefined }, { requestTimeoutMs: 50 });
    expect(await rejection(client.status())).toMatchObject({ code: "unavailable" });
  });
});

describe("by handle", () => {
  test("unlock tells whether it was held; renew may change the duration", async () => {
    await begin({
      UNLOCK: (frame, connection) => connection.send("UNLOCKED", frame.id, { token: 4, held: true }),
      RENEW: (frame, connection) => {
        connection.send("RENEWED", frame.id, { token: 4, left: 9, duration: 9, unlockDuration: 5, processed: frame.id });
      },
    });
    expect(await client.unlockHandle("h")).toEqual({ token: 4, held: true });
    expect((await client.renewHandle("h", { duration: 9000 })).token).toBe(4);
    expect(server.of("RENEW")[0]?.body).toEqual({ handle: "h", duration: 9000 });
  });

  test("unlock of what is not held is notheld, exit code 66", async () => {
    await begin({ UNLOCK: (frame, connection) => connection.send("ERROR", frame.id, { code: "notheld", message: "no" }) });
    expect(await rejection(client.unlockHandle("h"))).toMatchObject({ code: "notheld", exitCode: 66 });
  });

  test("an unlock whose answer was lost with the connection is repeated, and notheld then means done", async () => {
    await begin({
      UNLOCK: (frame, connection) => {
        if (connection.number === 0) connection.destroy();
        else connection.send("ERROR", frame.id, { code: "notheld", message: "no" });
      },
    });
    expect(await client.unlockHandle("h")).toEqual({ token: null, held: true });
    expect(server.of("UNLOCK")).toHaveLength(2);
  });

  test("an unlock or a renewal that was sent and never answered may have been done: unknown, exit code 1", async () => {
    await begin({ UNLOCK: () => undefined, RENEW: () => undefined }, { requestTimeoutMs: 60 });
    expect(await rejection(client.unlockHandle("h"))).toMatchObject({ code: "unknown", exitCode: 1, retryable: false });
    expect(await rejection(client.renewHandle("h"))).toMatchObject({ code: "unknown", exitCode: 1 });
    expect(server.of("UNLOCK").length).toBeGreaterThan(0);
  });
});

describe("waitFree", () => {
  test("goes on over broken connections with the time that is left", async () => {
    await begin({
      WAITFREE: (frame, connection) => {
        if (connection.number < 2) connection.destroy();
        else connection.send("FREE", frame.id, {});
      },
    });
    await client.waitFree("x", 60_000);
    const waits = server.of("WAITFREE").map((frame) => Number(frame.body["wait"]));
    expect(waits).toHaveLength(3);
    expect(waits).toEqual([...waits].sort((a, b) => b - a));
  });

  test("ends with the server's timedout, by its own clock when the server is silent, and by the signal", async () => {
    await begin({
      WAITFREE: (frame, connection) => {
        if (frame.body["object"] === "told") connection.send("ERROR", frame.id, { code: "timedout", message: "held by p" });
      },
    });
    expect(await rejection(client.waitFree("told", 10))).toMatchObject({ code: "timedout", message: "held by p" });
    const abort = new AbortController();
    const waiting = rejection(client.waitFree("silent", null, abort.signal));
    await server.arrived("WAITFREE", 2);
    abort.abort();
    expect((await waiting).code).toBe("cancelled");
    expect((await rejection(client.waitFree("silent", 0))).code).toBe("unavailable");
  });
});

describe("events", () => {
  /** A history of so many events of which the page limit shows a part; follows with what `push` adds. */
  function history(length: number) {
    const events = Array.from({ length }, (_, index) => event(index + 1));
    const followers: { id: number; connection: FakeConnection }[] = [];
    return {
      events,
      push: (one: EventBody) => {
        events.push(one);
        for (const { id, connection } of followers) connection.send("EVENT", id, { ...one });
      },
      answer: (frame: Frame, connection: FakeConnection) => {
        const { from, follow, limit } = frame.body;
        const next = (events.at(-1)?.id ?? 0) + 1;
        const start = typeof from === "number" ? from : follow === true ? next : 1;
        const page = events.filter((one) => one.id >= start).slice(0, Number(limit));
        connection.send("EVENTS", frame.id, { events: page, oldest: events[0]?.id ?? next, next });
        if (follow === true && page.length < Number(limit)) followers.push({ id: frame.id, connection });
      },
    };
  }

  test("without follow are the whole history, over many pages", async () => {
    const past = history(2500);
    await begin({ EVENTS: past.answer });
    const ids = (await all(client.events({ from: 1 }))).map((one) => one.id);
    expect(ids).toEqual(past.events.map((one) => one.id));
    expect(server.of("EVENTS").length).toBeGreaterThan(2);
  });

  test("with follow go on over broken connections, each once and in order", async () => {
    const past = history(3);
    await begin({ EVENTS: past.answer });
    const abort = new AbortController();
    const ids: number[] = [];
    const reading = (async () => {
      for await (const one of client.events({ from: 2, follow: true, signal: abort.signal })) {
        ids.push(one.id);
        if (one.id === 8) abort.abort();
      }
    })();
    await server.arrived("EVENTS");
    past.push(event(4));
    server.cut();
    // happens while nobody is connected
    past.push(event(5));
    past.push(event(6));
    await server.arrived("EVENTS", 2);
    past.push(event(7));
    past.push(event(8));
    await reading;
    expect(ids).toEqual([2, 3, 4, 5, 6, 7, 8]);
  });

  test("with follow and no start are only new ones, also after a break before the first", async () => {
    const past = history(3);
    await begin({ EVENTS: past.answer });
    const stream = client.events({ follow: true });
    const first = stream.next();
    await server.arrived("EVENTS");
    // the answer is on its way before the cut: a request behind it has been answered
    await rejection(client.status());
    server.cut();
    past.push(event(4));
    expect((await first).value?.id).toBe(4);
    await stream.return();
  });

  test("from the start with follow begin with the oldest that is kept", async () => {
    const past = history(4);
    past.events.splice(0, 2);
    await begin({ EVENTS: past.answer });
    const stream = client.events({ from: 1, follow: true });
    expect((await stream.next()).value?.id).toBe(3);
    await stream.return();
  });

  test("pushed twice are yielded once", async () => {
    const past = history(2);
    await begin({ EVENTS: past.answer });
    const stream = client.events({ from: 1, follow: true });
    const ids = [(await stream.next()).value?.id, (await stream.next()).value?.id];
    const third = stream.next();
    await server.arrived("EVENTS", 2);
    await rejection(client.status());
    for (const id of [1, 2, 3]) server.last.send("EVENT", server.of("EVENTS")[1]?.id ?? 0, { ...event(id) });
    ids.push((await third).value?.id);
    expect(ids).toEqual([1, 2, 3]);
    await stream.return();
  });

  test("that are not kept any more are an error, not a gap", async () => {
    const past = history(10);
    past.events.splice(0, 5);
    await begin({ EVENTS: past.answer });
    const error = await rejection(all(client.events({ from: 3 })));
    expect(error.code).toBe("notfound");
    expect(error.message).toContain("the oldest that is kept is 6");
  });

  test("of a server whose history was wiped are an error, too", async () => {
    await begin({ EVENTS: history(2).answer });
    expect((await rejection(all(client.events({ from: 50 })))).code).toBe("notfound");
  });

  test("end quietly when the signal aborts while nothing happens", async () => {
    await begin({ EVENTS: history(0).answer });
    const abort = new AbortController();
    const reading = all(client.events({ follow: true, signal: abort.signal }));
    await server.arrived("EVENTS");
    abort.abort();
    expect(await reading).toEqual([]);
  });

  test("left by the reader are not kept any longer", async () => {
    const past = history(1);
    await begin({ EVENTS: past.answer });
    for await (const _one of client.events({ from: 1, follow: true })) break;
    server.cut();
    await rejection(client.status());
    expect(server.of("EVENTS").length).toBeLessThanOrEqual(2);
  });

  test("faster than their reader are taken up again where he stopped, none missing", async () => {
    const past = history(0);
    await begin({ EVENTS: past.answer });
    const stream = client.events({ follow: true });
    const first = stream.next();
    await server.arrived("EVENTS");
    await rejection(client.status());
    for (let id = 1; id <= 12_000; id += 1) past.push(event(id));
    expect((await first).value?.id).toBe(1);
    // lets all of them arrive before any more is read
    await rejection(client.status());
    for (let id = 2; id <= 12_000; id += 1) {
      const { value } = await stream.next();
      if (value?.id !== id) throw new Error(`event ${value?.id} instead of ${id}`);
    }
    await stream.return();
    expect(server.of("EVENTS").length).toBeGreaterThan(1);
  });
});

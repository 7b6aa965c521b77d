import { afterEach, describe, expect, test } from "bun:test";
import { LockdError } from "../../src/errors.ts";
import type { Server } from "../../src/net/server.ts";
import { encodeFrame } from "../../src/wire/frame.ts";
import type { Body } from "../../src/wire/types.ts";
import { HELLO, RawClient, startWorld, until, type World, type WorldOptions } from "./kit.ts";

const servers: Server[] = [];
function world(options: WorldOptions = {}): World {
  const started = startWorld(options);
  servers.push(started.server);
  return started;
}
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.stop({ drainMs: 1000 })));
});

const errorOf = (body: Body): { code: unknown; message: unknown } => ({ code: body["code"], message: body["message"] });

describe("the handshake", () => {
  test("answers HELLO with HELLO, then serves", async () => {
    const { server, seen } = world();
    const client = await RawClient.connect(server);
    client.send("HELLO", 9, HELLO);
    const hello = await client.next();
    expect({ ...hello, body: { ...hello.body } }).toEqual({
      type: "HELLO",
      id: 9,
      body: { protocol: 1, role: "server", name: "node", cluster: "cluster-id", software: "0.0.1", features: ["echo"], frameBytesMax: 16 * 1024 * 1024 },
    });
    client.send("ECHO", 1, { a: 1 });
    expect((await client.next()).type).toBe("ECHOED");
    const { address, ...identity } = seen[0]?.identity ?? { address: "" };
    expect(identity).toEqual({ principal: { name: "", by: "nothing" }, role: "client", name: "tester", host: "here", pid: 4711, program: "test", software: "0.0.1", features: [] });
    expect(address).toBe(`127.0.0.1:${client.socket.localPort}`);
  });

  test("takes requests that come in one packet with HELLO", async () => {
    const { server } = world();
    const client = await RawClient.connect(server);
    const large = { pad: "x".repeat(100_000) };
    client.socket.write(Buffer.concat([encodeFrame("HELLO", 0, HELLO), encodeFrame("ECHO", 1, large), encodeFrame("ECHO", 2, {})]));
    expect((await client.next()).type).toBe("HELLO");
    expect((await client.next()).body["pad"]).toBe(large.pad);
    expect((await client.next()).id).toBe(2);
  });

  const refused: Record<string, [string, Body, string, string]> = {
    "another first frame": ["ECHO", {}, "protocol", "the first frame is ECHO, not HELLO"],
    "another protocol version": ["HELLO", { ...HELLO, protocol: 2, role: "something new" }, "protocol", "speaks protocol 2, this one speaks 1"],
    "no protocol version": ["HELLO", {}, "invalid", "protocol is missing"],
    "an unknown role": ["HELLO", { ...HELLO, role: "admin" }, "invalid", "role is not accepted"],
    "a role without use here": ["HELLO", { ...HELLO, role: "peer" }, "denied", "this server serves client"],
    "another cluster": ["HELLO", { ...HELLO, cluster: "other" }, "config", "it belongs to cluster other, this server to cluster-id"],
    "a name that is no text": ["HELLO", { ...HELLO, name: 5 }, "invalid", "name is not accepted, expected string"],
    "a negative pid": ["HELLO", { ...HELLO, pid: -1 }, "invalid", "pid is not accepted, expected >=0"],
    "a bad feature": ["HELLO", { ...HELLO, features: ["a", null] }, "invalid", "features.1 is not accepted"],
    "too many features": ["HELLO", { ...HELLO, features: Array.from({ length: 65 }, () => "a") }, "invalid", "features is not accepted"],
  };
  for (const [name, [type, body, code, message]] of Object.entries(refused)) {
    test(`refuses ${name} with the reason, and closes`, async () => {
      const { server } = world();
      const client = await RawClient.connect(server);
      client.socket.write(Buffer.concat([encodeFrame(type, 3, body), encodeFrame("ECHO", 4, {})]));
      const error = await client.next();
      expect([error.type, error.id, error.body["code"]]).toEqual(["ERROR", 0, code]);
      expect(error.body["message"]).toContain(message);
      await client.untilClosed();
      expect(client.frames).toEqual([]);
      await until("the server forgot it", () => server.connections === 0);
    });
  }

  test("accepts 64 KiB at most before it", async () => {
    const { server } = world();
    const client = await RawClient.connect(server);
    client.send("HELLO", 0, { ...HELLO, extra: "x".repeat(64 * 1024) });
    expect(errorOf((await client.next()).body)).toEqual({ code: "protocol", message: expect.stringContaining("at most 65536 are accepted") });
    await client.untilClosed();
  });

  test("that never comes ends the connection", async () => {
    const { server } = world({ limits: { helloTimeoutMs: 50 } });
    const client = await RawClient.connect(server);
    expect((await client.next()).body["message"]).toContain("no HELLO within 50 ms");
    await client.untilClosed();
  });

  test("may not come twice", async () => {
    const client = await RawClient.greeted(world().server);
    client.send("HELLO", 5, HELLO);
    expect((await client.next()).body["message"]).toContain("HELLO after HELLO was through");
    await client.untilClosed();
  });
});

describe("requests", () => {
  test("that a handler throws are answered with its error, and the connection lives on", async () => {
    const { server, logger } = world({
      register: (messages) => {
        const registry = messages.registryFor("more");
        const parse = (body: Body): Body => body;
        registry.on("BREAK", parse, () => {
          throw new Error("secret detail");
        });
        registry.on("BREAKLATER", parse, async () => {
          await Promise.resolve();
          throw new LockdError("overflow", "try later: full");
        });
        registry.on("HALF", parse, () => {
          throw new LockdError("invalid", `read: ${"🦀".slice(0, 1)}`);
        });
      },
    });
    const client = await RawClient.greeted(server);
    client.send("REJECT", 1);
    client.send("BREAK", 2);
    client.send("BREAKLATER", 3);
    client.send("HALF", 4);
    client.send("NOSUCH", 5);
    client.send("PING", 6);
    client.send("REJECT", 0);
    client.send("ECHO", 7, { still: true });
    const answers = new Map<number, { type: string; body: Body }>();
    while (answers.size < 7) {
      const { id, type, body } = await client.next();
      answers.set(id, { type, body: { ...body } });
    }
    expect(answers.get(1)).toEqual({ type: "ERROR", body: { code: "denied", message: "reject request: as asked", retryable: false } });
    expect(answers.get(2)).toEqual({ type: "ERROR", body: { code: "failed", message: "handle BREAK: internal error", retryable: false } });
    expect(answers.get(3)?.body["retryable"]).toBe(true);
    expect(answers.get(4)?.body["message"]).toBe("read: \ufffd");
    expect(answers.get(5)).toEqual({ type: "UNKNOWN", body: { type: "NOSUCH" } });
    expect(answers.get(6)).toEqual({ type: "PONG", body: {} });
    expect(answers.get(7)).toEqual({ type: "ECHOED", body: { still: true } });
    const failures = logger.lines.filter((line) => line.msg === "handler-failed");
    expect(failures.map((line) => line.fields["type"])).toEqual(["BREAK"]);
    expect(failures[0]?.fields["stack"]).toContain("secret detail");
  });

  test("pipelined by the thousand are all answered, in order", async () => {
    const client = await RawClient.greeted(world().server);
    const count = 20_000;
    client.socket.write(Buffer.concat(Array.from({ length: count }, (_, i) => encodeFrame("ECHO", i + 1, { i }))));
    await until("all are answered", () => client.frames.length === count);
    expect(client.frames.every((frame, i) => frame.id === i + 1 && frame.body["i"] === i)).toBe(true);
  });

  test("byte by byte are answered as well", async () => {
    const client = await RawClient.greeted(world().server);
    for (const byte of encodeFrame("ECHO", 1, { text: "slow" })) client.socket.write(Uint8Array.of(byte));
    expect((await client.next()).body["text"]).toBe("slow");
  });

  test("sent by a client that then ends its output are answered, late ones too, before the close", async () => {
    const later = Promise.withResolvers<void>();
    const { server } = world({
      register: (messages) =>
        messages.registryFor("late").on("LATE", (body) => body, async (connection, id) => {
          await later.promise;
          connection.send("DONE", id, {});
        }),
    });
    const client = await RawClient.connect(server, { allowHalfOpen: true });
    client.socket.end(Buffer.concat([encodeFrame("HELLO", 0, HELLO), encodeFrame("ECHO", 1, {}), encodeFrame("LATE", 2, {})]));
    expect((await client.next()).type).toBe("HELLO");
    expect((await client.next()).type).toBe("ECHOED");
    expect(client.ended).toBe(false);
    later.resolve();
    expect((await client.next()).type).toBe("DONE");
    await client.untilClosed();
    expect(client.error).toBeNull();
    await until("the server forgot it", () => server.connections === 0);
  });
});

describe("a malformed frame", () => {
  test("gets ERROR and a close, and does not disturb others that send at the same time", async () => {
    const { server } = world();
    const good = await RawClient.greeted(server);
    const bad = await Promise.all(Array.from({ length: 30 }, () => RawClient.greeted(server)));
    const valid = encodeFrame("ECHO", 1, { text: "x".repeat(200), list: [1, 2, 3] });
    for (let round = 0; round < 100; round++) {
      const client = bad[round % bad.length];
      const garbage = valid.slice();
      for (let i = 0; i < 3; i++) garbage[4 + ((round * 31 + i * 17) % (garbage.length - 4))] = (round * 7 + i * 131) & 0xff;
      client?.socket.write(garbage);
      good.send("ECHO", round + 1, { round });
    }
    for (let round = 0; round < 100; round++) expect((await good.next()).id).toBe(round + 1);
    const cut = await RawClient.greeted(server);
    cut.socket.write(Uint8Array.of(0xff, 0xff, 0xff, 0xff));
    expect((await cut.next()).body["code"]).toBe("protocol");
    await cut.untilClosed();
    for (const client of bad) client.socket.destroy();
    good.send("ECHO", 999);
    expect((await good.next()).id).toBe(999);
  });

  test("is told even while more input is under way", async () => {
    const { server } = world();
    const client = await RawClient.greeted(server);
    client.socket.write(Buffer.concat([Uint8Array.of(0, 0, 0, 1, 0xff), Buffer.alloc(2_000_000, 1)]));
    expect((await client.next()).type).toBe("ERROR");
    await client.untilClosed();
    expect(client.error).toBeNull();
  });
});

describe("a client that does not read", () => {
  test("is closed as slow, and memory stays bounded", async () => {
    const outputBytesMax = 1 << 20;
    const { server, logger, seen } = world({ limits: { outputBytesMax } });
    const client = await RawClient.greeted(server);
    client.send("ECHO", 1);
    await client.next();
    client.socket.pause();
    const [connection] = seen;
    const body = { pad: "x".repeat(64 * 1024) };
    let sent = 0;
    while (connection !== undefined && !connection.closed && sent < 100 << 20) {
      connection.send("PUSH", 0, body);
      sent += 64 * 1024;
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(connection?.closed).toBe(true);
    expect(logger.lines.some((line) => line.msg === "connection-closed" && line.fields["reason"] === "slow")).toBe(true);
    await until("it is gone", () => server.connections === 0);
  });

  test("but asks on is not read from until it reads again; nothing is lost", async () => {
    const { server, seen } = world({ limits: { outputBytesHigh: 64 * 1024 } });
    const client = await RawClient.greeted(server);
    client.socket.pause();
    const count = 2000;
    const pad = "y".repeat(8 * 1024);
    let written = 0;
    for (let i = 1; i <= count; i++) {
      client.socket.write(encodeFrame("ECHO", i, { pad }), () => written++);
    }
    // all 16 MB would be answered if the server went on reading: its queue would pass 1 MiB, the default mark
    await until("the server reads", () => seen.length === 1);
    let last = -1;
    while (last !== written) {
      last = written;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(written).toBeLessThan(count);
    client.socket.resume();
    await until("all are answered", () => client.frames.length === count);
    expect(client.frames.map((frame) => frame.id)).toEqual(Array.from({ length: count }, (_, i) => i + 1));
  });

  test("gets a frame of many megabytes whole when it reads late", async () => {
    const { server, seen } = world();
    const client = await RawClient.greeted(server);
    client.send("ECHO", 1);
    await client.next();
    client.socket.pause();
    const data = new Uint8Array(15_000_000).fill(7);
    data[14_999_999] = 8;
    seen[0]?.send("PUSH", 0, { data });
    seen[0]?.send("AFTER", 0, {});
    await new Promise((resolve) => setTimeout(resolve, 20));
    client.socket.resume();
    const push = await client.next();
    expect(push.body["data"] instanceof Uint8Array && Buffer.from(push.body["data"]).equals(data)).toBe(true);
    expect((await client.next()).type).toBe("AFTER");
  });
});

describe("handlers that do not settle", () => {
  test("stop the reading of their connection at the limit, and it goes on when they do", async () => {
    let started = 0;
    const gate = Promise.withResolvers<void>();
    const { server } = world({
      limits: { runningMax: 10 },
      register: (messages) =>
        messages.registryFor("gate").on("GATE", (body) => body, async (connection, id) => {
          started++;
          await gate.promise;
          connection.send("DONE", id, {});
        }),
    });
    const client = await RawClient.greeted(server);
    const other = await RawClient.greeted(server);
    for (let i = 1; i <= 40; i++) {
      client.send("GATE", i);
      // each in its own packet: what came in one packet is handled whole
      other.send("ECHO", i);
      await other.next();
    }
    expect(started).toBe(11);
    gate.resolve();
    await until("all ran", () => started === 40 && client.frames.length === 40);
  });
});

describe("stop", () => {
  test("tells clients that the server is unavailable, closes, and frees the port", async () => {
    const { server } = world();
    const client = await RawClient.greeted(server);
    const stopped = server.stop({ drainMs: 2000 });
    expect(errorOf((await client.next()).body)).toEqual({ code: "unavailable", message: expect.stringContaining("is stopping") });
    await client.untilClosed();
    await stopped;
    expect(client.error).toBeNull();
    expect(server.connections).toBe(0);
    expect(RawClient.connect(server)).rejects.toThrow();
  });

  test("lets running handlers answer first, and refuses new requests meanwhile", async () => {
    const gate = Promise.withResolvers<void>();
    const { server } = world({
      register: (messages) =>
        messages.registryFor("gate").on("GATE", (body) => body, async (connection, id) => {
          await gate.promise;
          connection.send("DONE", id, {});
        }),
    });
    const client = await RawClient.greeted(server);
    client.send("GATE", 1);
    client.send("PING", 2);
    await client.next();
    const stopped = server.stop({ drainMs: 5000 });
    client.send("ECHO", 3);
    const refused = await client.next();
    expect([refused.type, refused.id, refused.body["code"], refused.body["retryable"]]).toEqual(["ERROR", 3, "unavailable", true]);
    gate.resolve();
    expect((await client.next()).type).toBe("DONE");
    expect((await client.next()).type).toBe("ERROR");
    await client.untilClosed();
    await stopped;
  });

  test("does not wait longer than told for a handler that hangs or a client that stays", async () => {
    const { server } = world({
      register: (messages) => messages.registryFor("hang").on("HANG", (body) => body, () => new Promise<void>(() => {})),
    });
    const client = await RawClient.greeted(server, { allowHalfOpen: true });
    client.send("HANG", 1);
    client.send("PING", 2);
    await client.next();
    await server.stop({ drainMs: 50 });
    await client.untilClosed();
    expect(server.connections).toBe(0);
  });
});

describe("listening", () => {
  test("on a port in use is a configuration error that names the address", () => {
    const { server } = world();
    const again = (): void => {
      servers.push(startWorldOn(server.port));
    };
    expect(again).toThrow(`listen on 127.0.0.1:${server.port}: address already in use`);
    try {
      again();
    } catch (error) {
      expect(error instanceof LockdError && error.exitCode).toBe(78);
    }
  });

  test("reports the real port, on IPv6 too, and resolves names", async () => {
    for (const host of ["::1", "localhost"]) {
      const server = startWorldOn(0, host);
      servers.push(server);
      expect(server.port).toBeGreaterThan(0);
      expect(server.address).toBe(host === "::1" ? `[::1]:${server.port}` : `localhost:${server.port}`);
      const client = await RawClient.connect(server, { host });
      client.send("HELLO", 0, HELLO);
      expect((await client.next()).type).toBe("HELLO");
    }
  });

  test("on what is no address here is a configuration error", () => {
    expect(() => startWorldOn(0, "192.0.2.1")).toThrow("not an address of this machine");
    expect(() => startWorldOn(0, "no-such-host.invalid")).toThrow("the host name cannot be resolved");
  });

  test("stops at the limit of connections and goes on below it", async () => {
    const { server } = world({ limits: { connectionsMax: 5 } });
    const clients = [];
    for (let i = 0; i < 5; i++) clients.push(await RawClient.greeted(server));
    expect(server.listening).toBe(false);
    expect(RawClient.connect(server)).rejects.toThrow();
    clients[0]?.socket.destroy();
    await until("it listens again", () => server.listening);
    const sixth = await RawClient.greeted(server);
    sixth.send("ECHO", 1);
    expect((await sixth.next()).type).toBe("ECHOED");
    expect(server.connections).toBe(5);
  });
});

function startWorldOn(port: number, host = "127.0.0.1"): Server {
  return startWorld({ listen: { host, port } }).server;
}

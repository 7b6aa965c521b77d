/**
 * The conversation that docs/protocol.md shows happens with a real server, frame by frame, and what else a
 * server says is as the tables of the page say.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { createHmac, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryDirectory, TestServer } from "../e2e/kit.ts";
import { converse, lasting, type Step } from "./conversation.ts";
import { accepted, describe as describeType, refused } from "./field-type.ts";
import { readPage, showValue } from "./page.ts";
import { RawConnection } from "./raw-connection.ts";
import { Tables } from "./tables.ts";
import { encodeFrame, FrameDecoder } from "../../src/wire/frame.ts";
import type { Body, Frame } from "../../src/wire/types.ts";

const page = readPage();
const tables = new Tables(page);
const directories: { remove: () => void }[] = [];
const servers: TestServer[] = [];

async function freshServer(flags: readonly string[] = []): Promise<TestServer> {
  const directory = temporaryDirectory("protocol");
  directories.push(directory);
  const server = await TestServer.start({ directory: join(directory.path, "data"), flags: ["--name", "alpha", ...flags] });
  servers.push(server);
  return server;
}

afterAll(async () => {
  for (const server of servers) await server.stop();
  for (const directory of directories) directory.remove();
});

const HELLO = { protocol: 1, role: "client", name: "n", host: "h", pid: 1, program: "p", software: "s", features: [] };
const SESSION = { session: "AAAAAAAAAAAAAAAAAAAAAA", secret: new Uint8Array(16) };

/** A client that checks all that it hears against the page. */
class Client {
  readonly #connection: RawConnection;

  private constructor(connection: RawConnection) {
    this.#connection = connection;
  }

  static async open(address: string): Promise<Client> {
    return new Client(await RawConnection.open(address));
  }

  static async greet(address: string): Promise<Client> {
    const client = await Client.open(address);
    client.send("HELLO", 0, HELLO);
    await client.hear("HELLO");
    return client;
  }

  send(type: string, id: number, body: Body): void {
    expect(tables.problems(type, "client", body)).toEqual([]);
    this.#connection.send(encodeFrame(type, id, body));
  }

  sendBytes(bytes: Uint8Array): void {
    this.#connection.send(bytes);
  }

  async next(): Promise<Frame> {
    const frame = await this.#connection.next();
    if (frame === null) throw new Error("the server ended the connection");
    expect(tables.problems(frame.type, "server", frame.body)).toEqual([]);
    return frame;
  }

  /** The next frame, which must be of this type. */
  async hear(type: string): Promise<Frame> {
    const frame = await this.next();
    expect([frame.type, frame.body]).toEqual([type, frame.body]);
    return frame;
  }

  async hearEnd(): Promise<void> {
    expect(await this.#connection.next()).toBeNull();
  }

  close(): void {
    this.#connection.close();
  }
}

describe("the conversation of the page", () => {
  test("is what a fresh server says, to the same bytes", async () => {
    const server = await freshServer();
    const steps = page.frames.filter(({ heading }) => heading !== "With a secret").map(({ connection, from, bytes }): Step => {
      const frames: Frame[] = [];
      new FrameDecoder({ frameBytesMax: 1 << 24 }).push(bytes, (frame) => void frames.push(frame));
      const [frame] = frames;
      if (frame === undefined) throw new Error("a frame without bytes");
      return { connection, from, frame };
    });
    const heard = await converse(server.address, steps);
    const plain = (frame: Frame | null): unknown => frame !== null && [frame.type, frame.id, lasting(frame.body)];
    expect(heard.map(({ frame }) => plain(frame))).toEqual(heard.map(({ step }) => plain(step.frame)));
    expect(heard).toHaveLength(steps.filter(({ from }) => from === "server").length);
    for (const { frame } of heard) expect(frame === null ? "the end" : tables.problems(frame.type, "server", frame.body)).toEqual([]);
  });
});

describe("as the page says", () => {
  test("a request that is repeated finds its ticket, its answer has the newest id, and a lost one is told", async () => {
    const { address } = await freshServer();
    const client = await Client.greet(address);
    client.send("SESSION", 1, { ...SESSION, generation: 1 });
    await client.hear("SESSION");
    client.send("LOCK", 2, { request: "held", objects: ["x"], duration: 500, unlockDuration: 500 });
    const locked = await client.hear("LOCKED");
    client.send("LOCK", 3, { request: "held", objects: ["x"], duration: 500, unlockDuration: 500 });
    const again = await client.hear("LOCKED");
    expect([again.id, again.body["token"], again.body["processed"], again.body["grant"]]).toEqual([3, locked.body["token"], 2, 1]);
    expect((await client.hear("UNLOCKING")).body).toMatchObject({ request: "held", token: locked.body["token"], reason: "timedout" });
    client.send("RENEW", 4, { seen: 1, tokens: [locked.body["token"]] });
    expect((await client.hear("RENEWED")).body["lost"]).toEqual([{ token: locked.body["token"], reason: "timedout" }]);
    client.send("LOCK", 5, { request: "held", objects: ["x"] });
    expect((await client.hear("LOCKFAILED")).body["code"]).toBe("lost");
    expect((await client.hear("UNLOCKED")).body).toMatchObject({ request: "held", reason: "timedout" });
    client.close();
  });

  test("what a list of tokens does not name is taken back at once", async () => {
    const { address } = await freshServer();
    const client = await Client.greet(address);
    client.send("SESSION", 1, { ...SESSION, generation: 1 });
    client.send("LOCK", 2, { request: "1", objects: ["x"], duration: 60_000 });
    await client.hear("SESSION");
    const locked = await client.hear("LOCKED");
    client.send("RENEW", 3, { seen: 0, tokens: [] });
    expect((await client.hear("RENEWED")).body).toEqual({ processed: 3, lost: [], mismatch: false });
    client.send("RENEW", 4, { seen: 1, tokens: [] });
    expect((await client.hear("RENEWED")).id).toBe(4);
    expect((await client.hear("UNLOCKED")).body).toEqual({ request: "1", token: locked.body["token"], reason: "lost" });
    client.send("RENEW", 5, { seen: 0, tokens: [] });
    expect((await client.hear("ERROR")).body["code"]).toBe("invalid");
    client.close();
  });

  test("a forced release waits for the RENEW that does not claim the lock, unless the holder is stated to be dead", async () => {
    const { address } = await freshServer();
    const [holder, operator] = [await Client.greet(address), await Client.greet(address)];
    holder.send("SESSION", 1, { ...SESSION, generation: 1 });
    await holder.hear("SESSION");
    for (const [id, dead] of [[2, false], [3, true]] as const) {
      holder.send("LOCK", id * 10, { request: `${id}`, objects: ["x"], duration: 600_000, unlockDuration: 500 });
      const { token, grant } = (await holder.hear("LOCKED")).body;
      operator.send("RELEASE", id, { object: "x", token, ...(dead ? { dead } : {}) });
      const { freeIn } = (await operator.hear("RELEASING")).body;
      expect([dead, Number(freeIn) > 500]).toEqual([dead, !dead]);
      expect((await holder.hear("UNLOCKING")).body).toMatchObject({ token, reason: "forced", left: 500 });
      if (!dead) {
        holder.send("RENEW", id * 10 + 1, { seen: grant, tokens: [] });
        await holder.hear("RENEWED");
      }
      expect((await holder.hear("UNLOCKED")).body).toMatchObject({ token, reason: "forced" });
    }
    for (const client of [holder, operator]) client.close();
  });

  test("the duration of a session's lock is not shortened by its handle", async () => {
    const { address } = await freshServer();
    const client = await Client.greet(address);
    client.send("SESSION", 1, { ...SESSION, generation: 1 });
    client.send("LOCK", 2, { request: "1", objects: ["x"] });
    client.send("LOCK", 3, { request: "2", objects: ["y"], detached: true });
    await client.hear("SESSION");
    const [bound, detached] = [(await client.hear("LOCKED")).body, (await client.hear("LOCKED")).body];
    client.send("RENEW", 4, { handle: bound["handle"], duration: 5000 });
    expect((await client.hear("ERROR")).body["code"]).toBe("invalid");
    client.send("RENEW", 5, { handle: detached["handle"], duration: 5000 });
    expect((await client.hear("RENEWED")).body["duration"]).toBe(5000);
    client.close();
  });

  test("a session is refused to a wrong secret, a stale generation and a second time", async () => {
    const { address } = await freshServer();
    const owner = await Client.greet(address);
    owner.send("SESSION", 1, { ...SESSION, generation: 3 });
    await owner.hear("SESSION");
    owner.send("SESSION", 2, { ...SESSION, generation: 4 });
    expect((await owner.hear("ERROR")).body["code"]).toBe("invalid");
    const other = await Client.greet(address);
    other.send("SESSION", 1, { ...SESSION, secret: new Uint8Array(17), generation: 9 });
    expect((await other.hear("ERROR")).body["code"]).toBe("denied");
    other.send("SESSION", 2, { ...SESSION, generation: 3 });
    expect((await other.hear("ERROR")).body["code"]).toBe("denied");
    other.send("LOCK", 3, { request: "1", objects: ["x"] });
    expect((await other.hear("ERROR")).body["code"]).toBe("invalid");
    other.send("RENEW", 4, { seen: 0, tokens: [] });
    expect((await other.hear("ERROR")).body["code"]).toBe("invalid");
    owner.send("GOODBYE", 3, {});
    await owner.hear("GOODBYE");
    owner.send("GOODBYE", 4, {});
    expect((await owner.hear("ERROR")).body["code"]).toBe("invalid");
    for (const client of [owner, other]) client.close();
  });

  test("a waiting session that is not heard of for its grace loses its place, and PING does not count", async () => {
    const { address } = await freshServer();
    const holder = await Client.greet(address);
    holder.send("SESSION", 1, { ...SESSION, generation: 1 });
    holder.send("LOCK", 2, { request: "1", objects: ["x"], duration: 60_000 });
    await holder.hear("SESSION");
    await holder.hear("LOCKED");
    const waiter = await Client.greet(address);
    waiter.send("SESSION", 1, { session: "BBBBBBBBBBBBBBBBBBBBBB", secret: new Uint8Array(16), grace: 500 });
    waiter.send("LOCK", 2, { request: "1", objects: ["x"] });
    await waiter.hear("SESSION");
    let pings = 2;
    const timer = setInterval(() => waiter.send("PING", ++pings, {}), 100);
    let heard = await waiter.next();
    while (heard.type === "PONG") heard = await waiter.next();
    clearInterval(timer);
    expect([heard.type, heard.id, heard.body["code"]]).toEqual(["LOCKFAILED", 2, "lost"]);
    expect(pings).toBeGreaterThan(3);
    for (const client of [holder, waiter]) client.close();
  });

  describe("HELLO is taken", () => {
    const table = tables.of("HELLO", "client")[0];
    const needed = table === undefined ? {} : { ...tables.sample(table, "needed"), protocol: 1, role: "client" };
    /** The type of the answer, or the code when it is a refusal. */
    async function greet(body: Body): Promise<unknown> {
      const connection = await RawConnection.open((servers[0] ?? (await freshServer())).address);
      connection.send(encodeFrame("HELLO", 0, body));
      const frame = await connection.next();
      connection.close();
      expect(frame === null ? ["no answer"] : tables.problems(frame.type, "server", frame.body)).toEqual([]);
      return frame?.type === "ERROR" ? frame.body["code"] : frame?.type;
    }
    /** A role or a cluster may be sound and still not this server's. */
    const elsewhere = (name: string, value: unknown): string =>
      name === "role" && value !== "client" ? "denied" : name === "cluster" ? "config" : "HELLO";

    for (const { name, type, absent } of table?.fields ?? []) {
      // what a server that asks for nobody does not look at
      if (name === "auth") continue;
      test(`with ${name} as ${describeType(type)}${absent === null ? "" : " or without it"}, and not otherwise`, async () => {
        for (const value of accepted(type)) {
          expect([showValue(value).slice(0, 80), await greet({ ...needed, [name]: value })]).toEqual([showValue(value).slice(0, 80), elsewhere(name, value)]);
        }
        for (const value of refused(type)) {
          const ofVersion = name === "protocol" && typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
          expect([showValue(value).slice(0, 80), await greet({ ...needed, [name]: value })]).toEqual([showValue(value).slice(0, 80), ofVersion ? "protocol" : "invalid"]);
        }
        const without = Object.fromEntries(Object.entries(needed).filter(([key]) => key !== name));
        expect(await greet(without)).toBe(absent === null ? "invalid" : "HELLO");
      });
    }
  });

  test("a secret is proved by both sides, and nothing but the right proof opens a connection", async () => {
    const secret = "correct horse battery";
    const files = temporaryDirectory("protocol-secret");
    directories.push(files);
    writeFileSync(join(files.path, "secret"), `${secret}\n`, { mode: 0o600 });
    const { address } = await freshServer(["--secret-file", join(files.path, "secret")]);
    const nonce = new Uint8Array(randomBytes(32));
    const proofBy = (role: string, serverNonce: Uint8Array, key = secret): Uint8Array =>
      new Uint8Array(createHmac("sha256", key).update(`lockd 1 ${role}\0`).update(nonce).update(serverNonce).digest());
    const challenged = async (): Promise<{ client: Client; serverNonce: Uint8Array }> => {
      const client = await Client.open(address);
      client.send("HELLO", 0, { ...HELLO, auth: { nonce } });
      const { nonce: serverNonce } = (await client.hear("CHALLENGE")).body;
      if (!(serverNonce instanceof Uint8Array)) throw new Error("a challenge without a nonce");
      return { client, serverNonce };
    };
    const right = await challenged();
    right.client.send("PROOF", 0, { proof: proofBy("client", right.serverNonce) });
    expect((await right.client.hear("HELLO")).body["proof"]).toEqual(proofBy("server", right.serverNonce));
    right.client.send("LOCKSTATUS", 1, {});
    await right.client.hear("LOCKREADY");
    right.client.close();
    const wrong: ((client: Client, serverNonce: Uint8Array) => void)[] = [
      (client, serverNonce) => client.send("PROOF", 0, { proof: proofBy("client", serverNonce, "another secret") }),
      (client, serverNonce) => client.send("PROOF", 0, { proof: proofBy("server", serverNonce) }),
      (client) => client.send("STATUS", 1, {}),
    ];
    const codes: unknown[] = [];
    for (const answer of wrong) {
      const { client, serverNonce } = await challenged();
      answer(client, serverNonce);
      codes.push((await client.hear("ERROR")).body["code"]);
      await client.hearEnd();
      client.close();
    }
    expect(codes).toEqual(["denied", "denied", "protocol"]);
    const silent = await Client.open(address);
    silent.send("HELLO", 0, HELLO);
    expect((await silent.hear("ERROR")).body["code"]).toBe("denied");
    silent.close();
  });

  test("listings show tickets of every kind, deadlocks and lock-delays", async () => {
    const { address } = await freshServer();
    const [one, two, three] = [await Client.greet(address), await Client.greet(address), await Client.greet(address)];
    for (const [client, session] of [[one, "1"], [two, "2"], [three, "3"]] as const) {
      client.send("SESSION", 1, { session: session.repeat(22), secret: new Uint8Array(16), generation: 1 });
      await client.hear("SESSION");
    }
    one.send("LOCK", 2, { request: "1", objects: ["a"], commandLine: "do a", value: "of a" });
    await one.hear("LOCKED");
    two.send("LOCK", 2, { request: "1", objects: ["b"] });
    await two.hear("LOCKED");
    one.send("LOCK", 3, { request: "2", objects: ["b"] });
    two.send("LOCK", 3, { request: "2", objects: ["a"], wait: 60_000 });
    three.send("LOCK", 2, { request: "1", objects: ["s"], mode: "semaphore", permits: 3, count: 2, detached: true });
    await three.hear("LOCKED");
    three.send("LOCK", 3, { request: "2", objects: ["d"], duration: 500, unlockDuration: 500, lockDelay: 60_000 });
    await three.hear("LOCKED");
    await three.hear("UNLOCKING");
    await three.hear("UNLOCKED");
    three.send("WHY", 4, { object: "a" });
    const why = (await three.hear("WHY")).body;
    expect(why["cycle"]).toHaveLength(2);
    expect(why["waitersTotal"]).toBe(1);
    three.send("WHY", 5, { object: "d" });
    expect((await three.hear("WHY")).body["delayLeft"]).toBeGreaterThan(0);
    three.send("LISTTICKETS", 6, {});
    expect((await three.hear("TICKETLIST")).body["tickets"]).toMatchObject([
      { object: "a", state: "locked", value: "of a", holder: { commandLine: "do a" } },
      { object: "a", state: "waiting", position: 1, waitLeft: expect.any(Number) },
      { object: "b", state: "locked" },
      { object: "b", state: "waiting", position: 1 },
      { object: "s", state: "locked", mode: "semaphore", permits: 3, count: 2, detached: true },
    ]);
    one.send("LOCK", 4, { request: "3", objects: ["c"] });
    await one.hear("LOCKED");
    two.send("LOCK", 4, { request: "3", objects: ["c"] });
    three.send("LOCK", 7, { request: "3", objects: ["e"] });
    await three.hear("LOCKED");
    one.send("LOCK", 5, { request: "4", objects: ["e"] });
    three.send("LOCK", 8, { request: "4", objects: ["c"], detectDeadlock: true });
    expect((await three.hear("LOCKFAILED")).body["code"]).toBe("deadlock");
    for (const client of [one, two, three]) client.close();
  });

  const BAD: readonly (readonly [what: string, hex: string])[] = [
    ["a tag", "0000000b 83 6450494e47 c0 01 a0"],
    ["an array of indefinite length", "0000000a 9f 6450494e47 01 a0 ff"],
    ["a float for the id", "00000012 83 6450494e47 fb3ff8000000000000 a0"],
    ["an integer beyond 2^53", "00000011 83 6450494e47 1b0020000000000000 a0"],
    ["a key twice", "0000000d 83 6450494e47 01 a2 6161 01 6161 02"],
    ["a key that is no text", "0000000a 83 6450494e47 01 a1 01 01"],
    ["invalid UTF-8", "0000000c 83 6450494e47 01 a1 6161 61ff"],
    ["undefined", "0000000b 83 6450494e47 01 a1 6161 f7"],
    ["bytes after the item", "00000009 83 6450494e47 01 a0 00"],
    ["a lower-case type", "00000008 83 6470696e67 01 a0"],
    ["no map as the body", "00000008 83 6450494e47 01 80"],
    ["a frame that is too large", "01000001"],
  ];
  for (const [what, hex] of BAD) {
    test(`${what} ends the connection with ERROR of the id 0`, async () => {
      const server = servers[0] ?? (await freshServer());
      const client = await Client.greet(server.address);
      const bytes = Buffer.from(hex.replace(/\s/g, ""), "hex");
      if (bytes.length > 4) bytes.writeUInt32BE(bytes.length - 4);
      client.sendBytes(bytes);
      const error = await client.hear("ERROR");
      expect([error.id, error.body["code"]]).toEqual([0, "protocol"]);
      await client.hearEnd();
      client.close();
    });
  }

  test("lengths that are not the shortest are read, and unknown fields ignored", async () => {
    const server = servers[0] ?? (await freshServer());
    const client = await Client.greet(server.address);
    // PING with its type, its id and a map of one unknown field in longer forms than they need
    client.sendBytes(Buffer.from("00000016 9803 780450494e47 1b0000000000000007 b801 6161 01".replaceAll(" ", ""), "hex"));
    expect((await client.hear("PONG")).id).toBe(7);
    client.close();
  });
});

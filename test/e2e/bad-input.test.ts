import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { encodeFrame } from "../../src/wire/frame.ts";
import { connectTo } from "./locks-client.ts";
import { LockWorld, output } from "./locks-kit.ts";
import { framed, HELLO, RawClient } from "./raw-client.ts";

let world: LockWorld;

beforeAll(async () => {
  world = await LockWorld.start("bad-input");
});
afterAll(() => world.clear());

const ascii = (text: string): number[] => [...Buffer.from(text, "latin1")];
/** `[type, 1, body]` with the body as raw CBOR. */
const withBody = (type: string, ...body: number[]): Uint8Array => framed(Uint8Array.from([0x83, 0x60 + type.length, ...ascii(type), 1, ...body]));
/** `{object: name}` with the bytes of the name as a CBOR text. */
const whyOf = (...name: number[]): Uint8Array => withBody("WHY", 0xa1, 0x66, ...ascii("object"), 0x60 + name.length, ...name);

const MALFORMED: Readonly<Record<string, Uint8Array>> = {
  "a length of 4 GiB": Uint8Array.from([0xff, 0xff, 0xff, 0xff]),
  "a length just over the limit": Uint8Array.from([0x01, 0x00, 0x00, 0x01]),
  "no payload at all": framed(new Uint8Array(0)),
  "bytes that are no CBOR": framed(Uint8Array.from([0xff, 0xfe, 0xfd])),
  "text instead of frames": Buffer.from("GET / HTTP/1.1\r\nHost: lockd\r\n\r\n"),
  "a frame that is a number": framed(Uint8Array.from([0x05])),
  "a frame of two items": framed(Uint8Array.from([0x82, 0x63, ...ascii("WHY"), 1])),
  "a type that is a number": framed(Uint8Array.from([0x83, 0x05, 1, 0xa0])),
  "a type in lower case": withBody("why", 0xa0),
  "a body that is a list": withBody("WHY", 0x80),
  "a negative id": framed(Uint8Array.from([0x83, 0x63, ...ascii("WHY"), 0x20, 0xa0])),
  "a length inside that promises more than there is": withBody("WHY", 0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
  "10,000 levels of lists": withBody("WHY", 0xa1, 0x61, 0x61, ...Array.from({ length: 10_000 }, () => 0x81), 0x00),
  "an integer beyond 2^53": withBody("WHY", 0xa1, 0x61, 0x61, 0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
  "a text that is not UTF-8": whyOf(0x61, 0xff),
  "a surrogate in UTF-8": whyOf(0xed, 0xa0, 0x80),
  "an overlong NUL": whyOf(0xc0, 0x80),
  "bytes behind the item": withBody("WHY", 0xa0, 0x00),
};

describe("malformed frames", () => {
  for (const [what, bytes] of Object.entries(MALFORMED)) {
    test(`${what}: an ERROR and a close, before HELLO and after it`, async () => {
      for (const client of [await RawClient.connect(world.server.address), await RawClient.greeted(world.server.address)]) {
        client.socket.write(bytes);
        const error = await client.frame(({ type }) => type === "ERROR");
        expect(error.body["code"]).toBeOneOf(["protocol", "invalid"]);
        expect(error.body["message"]).toBeString();
        await client.whenClosed();
      }
    });
  }

  test("cut off anywhere and never continued, they do no harm, and the rest of a frame that comes byte by byte is read", async () => {
    const whole = encodeFrame("WHY", 7, { object: "bytes" });
    for (let length = 1; length < whole.length; length += 1) {
      const client = await RawClient.greeted(world.server.address);
      client.socket.write(whole.subarray(0, length));
      client.socket.end();
      await client.whenClosed();
    }
    const slow = await RawClient.greeted(world.server.address);
    for (const byte of whole) {
      slow.socket.write(Uint8Array.of(byte));
      await new Promise(setImmediate);
    }
    expect((await slow.frame(({ id }) => id === 7)).type).toBe("WHY");
    slow.destroy();
  });
});

describe("greetings", () => {
  test("another first frame, version, role or field is refused with a reason", async () => {
    const wrong = [
      encodeFrame("LOCK", 1, { request: "r", objects: ["x"] }),
      encodeFrame("HELLO", 0, {}),
      encodeFrame("HELLO", 0, { ...HELLO, protocol: 99 }),
      encodeFrame("HELLO", 0, { ...HELLO, protocol: "1" }),
      encodeFrame("HELLO", 0, { ...HELLO, role: "king" }),
      encodeFrame("HELLO", 0, { ...HELLO, role: "peer" }),
      encodeFrame("HELLO", 0, { ...HELLO, pid: -1 }),
      encodeFrame("HELLO", 0, { ...HELLO, name: "n".repeat(256) }),
      encodeFrame("HELLO", 0, { ...HELLO, features: 5 }),
      encodeFrame("HELLO", 0, { ...HELLO, cluster: "another" }),
    ];
    for (const bytes of wrong) {
      const client = await RawClient.connect(world.server.address);
      client.socket.write(bytes);
      const error = await client.frame(({ type }) => type === "ERROR");
      expect(error.body["message"]).toBeString();
      await client.whenClosed();
      expect(client.frames.some(({ type }) => type === "HELLO")).toBe(false);
    }
  });
});

describe("requests with bad fields", () => {
  const session = { session: "s".repeat(22), secret: new Uint8Array(32), generation: 1 };
  const lock = { request: "r", objects: ["bad"] };
  const WRONG: readonly (readonly [string, Readonly<Record<string, unknown>>])[] = [
    ...[undefined, null, 5, "", [], {}, "x".repeat(1025), "é".repeat(513)].map((object) => ["WHY", { object }] as const),
    ...[undefined, null, 5, "bad", [], [""], [5], [null], [["bad"]], ["a", "a"], ["x".repeat(1025)], Array.from({ length: 65 }, (_none, index) => `${index}`)].map(
      (objects) => ["LOCK", { ...lock, objects }] as const,
    ),
    ...[null, 5, "", "r".repeat(65), []].map((request) => ["LOCK", { ...lock, request }] as const),
    ...[0, -1, 0.5, 499, 1e12, 26 * 86_400_000, "10s", null, true, []].map((duration) => ["LOCK", { ...lock, duration }] as const),
    ...[0, -1, 499, 3_600_001, "5s"].map((unlockDuration) => ["LOCK", { ...lock, unlockDuration }] as const),
    ...[-1, 0.5, 604_800_001, "0", true].map((wait) => ["LOCK", { ...lock, wait }] as const),
    ...[-1, 3_600_001, "0"].map((lockDelay) => ["LOCK", { ...lock, lockDelay }] as const),
    ...["EXCLUSIVE", 5, null, "__proto__"].map((mode) => ["LOCK", { ...lock, mode }] as const),
    ...[0, -1, 2 ** 32, 1.5, "3"].map((permits) => ["LOCK", { ...lock, mode: "semaphore", permits }] as const),
    ["LOCK", { ...lock, mode: "semaphore" }],
    ["LOCK", { ...lock, mode: "semaphore", permits: 2, count: 3 }],
    ["LOCK", { ...lock, permits: 2 }],
    ["LOCK", { ...lock, value: 5 }],
    ["LOCK", { ...lock, value: "v".repeat(4097) }],
    ["LOCK", { ...lock, detached: "yes" }],
    ["LOCK", { ...lock, parents: "h" }],
    ["LOCK", { ...lock, parents: [5] }],
    ["UNLOCK", {}],
    ["UNLOCK", { handle: 5 }],
    ["UNLOCK", { handle: "h".repeat(65) }],
    ["RENEW", { handle: "h", duration: 0 }],
    ["RENEW", { seen: 0 }],
    ["RENEW", { seen: 0, tokens: ["1"] }],
    ["RELEASE", { object: "bad", token: 0 }],
    ["RELEASE", { object: "bad", token: "1" }],
    ["KICK", { session: "short" }],
    ["LISTTICKETS", { limit: 0 }],
    ["LISTTICKETS", { after: ["x"] }],
    ["LISTTICKETS", { prefix: 5 }],
    ["EVENTS", { from: -1 }],
    ["SESSIONS", { after: 5 }],
    ["WAITFREE", { object: "bad", wait: -1 }],
  ];

  test("are answered `invalid` with a sentence, and the connection lives on", async () => {
    const client = await RawClient.greeted(world.server.address);
    expect((await client.ask("SESSION", 1, session)).type).toBe("SESSION");
    for (const [index, [type, body]] of WRONG.entries()) {
      const answer = await client.ask(type, index + 10, body);
      expect([type, JSON.stringify(body).slice(0, 100), answer.body["code"]]).toEqual([type, JSON.stringify(body).slice(0, 100), "invalid"]);
      expect(answer.body["message"]).toBeString();
    }
    expect(await world.tickets("bad")).toEqual([]);
    expect((await client.ask("LOCK", 2000, lock)).type).toBe("LOCKED");
    client.destroy();
  });

  test("an unknown type is answered UNKNOWN, unknown fields are ignored", async () => {
    const client = await RawClient.greeted(world.server.address);
    expect((await client.ask("NONSENSE", 3, {})).type).toBe("UNKNOWN");
    expect((await client.ask("STATUS", 4, { more: [1, 2, 3] })).type).toBe("STATUS");
    client.destroy();
  });

  test("keys like __proto__ and names with NUL are plain data", async () => {
    const client = await RawClient.greeted(world.server.address);
    await client.ask("SESSION", 1, { ...session, session: "p".repeat(22) });
    const hostile: Record<string, unknown> = JSON.parse('{"__proto__":{"detached":true,"objects":["polluted"]},"constructor":{"prototype":{"wait":0}}}');
    const refused = await client.ask("LOCK", 2, { ...hostile, ["__proto__"]: { objects: ["polluted"] }, request: "p" });
    expect(refused.body["code"]).toBe("invalid");
    for (const [index, name] of ["__proto__", "nul\0nul", "\0", "constructor"].entries()) {
      const locked = await client.ask("LOCK", 10 + index, { request: `n${index}`, objects: [name] });
      expect([locked.type, locked.body["objects"]]).toEqual(["LOCKED", [name]]);
      expect((await world.tickets()).map(({ object }) => object)).toContain(name);
    }
    expect(output(await world.run("list"))).toContain("nul\\u{0}nul");
    client.destroy();
  });

  test("what belongs to somebody else stays out of reach", async () => {
    const owner = await connectTo(world.server.address);
    const lock = await owner.lock("owned", { wait: 0 });
    const thief = await RawClient.greeted(world.server.address);
    const taken = await thief.ask("SESSION", 1, { session: owner.session, secret: new Uint8Array(32).fill(1), generation: 99 });
    expect(taken.body["code"]).toBe("denied");
    expect((await thief.ask("UNLOCK", 2, { handle: `${lock.handle.slice(0, -1)}!` })).body["code"]).toBe("notheld");
    expect(lock.lost).toBeNull();
    await lock.release();
    await owner.close();
    thief.destroy();
  });
});

describe("garbage on many connections", () => {
  test("does not disturb a good client", async () => {
    const good = await connectTo(world.server.address);
    let stop = false;
    let cycles = 0;
    const working = (async () => {
      while (!stop) {
        await (await good.lock("undisturbed")).release();
        cycles += 1;
      }
    })();
    let seed = 3;
    const byte = (): number => {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      return seed >>> 24;
    };
    const valid = encodeFrame("LOCK", 9, { request: "r", objects: ["garbage"], duration: 1000 });
    for (let round = 0; round < 10; round += 1) {
      await Promise.all(
        Array.from({ length: 50 }, async (_none, index) => {
          const client = index % 2 === 0 ? await RawClient.connect(world.server.address) : await RawClient.greeted(world.server.address);
          const bytes = index % 3 === 0 ? Uint8Array.from({ length: 2000 }, byte) : Uint8Array.from(valid);
          if (index % 3 !== 0) bytes[byte() % bytes.length] = byte();
          client.socket.write(bytes);
          client.socket.end();
          await client.whenClosed();
        }),
      );
    }
    stop = true;
    await working;
    expect(cycles).toBeGreaterThan(10);
    await good.close();
    expect(output(await world.run("status", "--json"))).toContain('"ready":true');
    expect(world.server.log.filter((line) => line.includes("assertion") || line.includes('"level":"error"'))).toEqual([]);
  });
});

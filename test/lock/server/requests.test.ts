import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import * as v from "valibot";
import * as requests from "../../../plugins/lock/server/requests.ts";
import { DEFAULTS, LIMITS } from "../../../src/client/protocol.ts";
import { asLockdError, LockdError } from "../../../src/errors.ts";
import { encodeFrame, FrameDecoder } from "../../../src/wire/frame.ts";
import type { Body } from "../../../src/wire/types.ts";

const SESSION = "abcdefghijklmnopqrstuv";
const DAY = 86_400_000;

const refusal = (parse: (body: Body) => unknown, body: Body): LockdError => {
  try {
    parse(body);
  } catch (error) {
    return asLockdError(error);
  }
  throw new Error(`accepted: ${JSON.stringify(body)}`);
};

/** Values that are no number at all for the wire's integers. */
const NO_INTEGERS: readonly unknown[] = [null, "1", "", true, [], {}, new Uint8Array(1), 0.5, -0.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 2 ** 53, -(2 ** 53), 1e300];
const NO_TEXTS: readonly unknown[] = [null, undefined, 0, 1, true, [], {}, new Uint8Array(3)];

describe("whole numbers", () => {
  const lock = (field: string, value: unknown): Body => ({ request: "1", objects: ["x"], mode: "semaphore", permits: LIMITS.permitsMax, count: 1, [field]: value });
  const cases: readonly (readonly [name: string, field: string, min: number, max: number, parse: (value: unknown) => unknown])[] = [
    ["LOCK", "wait", 0, 7 * DAY, (value) => requests.parseLock(lock("wait", value)).spec.waitMs],
    ["LOCK", "duration", 500, 7 * DAY, (value) => requests.parseLock(lock("duration", value)).spec.durationMs],
    ["LOCK", "unlockDuration", 500, 3_600_000, (value) => requests.parseLock(lock("unlockDuration", value)).spec.unlockDurationMs],
    ["LOCK", "lockDelay", 0, 3_600_000, (value) => requests.parseLock(lock("lockDelay", value)).spec.lockDelayMs],
    ["LOCK", "count", 1, 1_000_000, (value) => requests.parseLock(lock("count", value)).spec.count],
    ["LOCK", "permits", 1, 1_000_000, (value) => requests.parseLock(lock("permits", value)).spec.permits],
    ["SESSION", "grace", 500, 60_000, (value) => requests.parseSession({ session: SESSION, secret: new Uint8Array(16), grace: value }).graceMs],
    ["SESSION", "generation", 1, Number.MAX_SAFE_INTEGER, (value) => requests.parseSession({ session: SESSION, secret: new Uint8Array(16), generation: value }).generation],
    ["RENEW", "seen", 0, Number.MAX_SAFE_INTEGER, (value) => {
      const parsed = requests.parseRenew({ seen: value, tokens: [] });
      return parsed.kind === "session" ? parsed.seen : null;
    }],
    ["RENEW", "duration", 500, 7 * DAY, (value) => {
      const parsed = requests.parseRenew({ handle: "h", duration: value });
      return parsed.kind === "handle" ? parsed.durationMs : null;
    }],
    ["LISTTICKETS", "limit", 1, 1000, (value) => requests.parseList({ limit: value }).limit],
    ["EVENTS", "from", 0, Number.MAX_SAFE_INTEGER, (value) => requests.parseEvents({ from: value }).from],
    ["UNFOLLOW", "follow", 0, Number.MAX_SAFE_INTEGER, (value) => requests.parseUnfollow({ follow: value }).follow],
    ["WAITFREE", "wait", 0, 7 * DAY, (value) => requests.parseWaitFree({ object: "x", wait: value }).waitMs],
    ["RELEASE", "token", 1, Number.MAX_SAFE_INTEGER, (value) => requests.parseRelease({ object: "x", token: value }).token],
  ];
  for (const [type, field, min, max, parse] of cases) {
    test(`${type} ${field} is one from ${min} to ${max}, never bent`, () => {
      for (const value of [min, min + 1, max - 1, max]) {
        if (!(field === "permits" && value < 1)) expect(parse(value)).toBe(value);
      }
      for (const value of [min - 1, max + 1, -1e12, ...NO_INTEGERS]) {
        // null is "without end" where there is such a thing
        if (value === null && field === "wait") continue;
        const error = refusal(() => parse(value), {});
        expect([error.code, error.message.includes(field)]).toEqual(["invalid", true]);
        expect(error.message.isWellFormed()).toBe(true);
      }
    });
  }
});

describe("absent fields", () => {
  test("of LOCK have the defaults of the protocol", () => {
    expect(requests.parseLock({ request: "1", objects: ["x"] })).toEqual({
      request: "1",
      spec: {
        objects: ["x"], mode: "exclusive", permits: 1, count: 1, waitMs: null, durationMs: DEFAULTS.durationMs, unlockDurationMs: DEFAULTS.unlockDurationMs,
        lockDelayMs: 0, value: null, detached: false, detectDeadlock: false, reportQueue: false, parents: [],
      },
    });
    expect(requests.parseLock({ request: "1", objects: ["x"], detached: true }).spec.durationMs).toBe(DEFAULTS.detachedDurationMs);
    expect(requests.parseLock({ request: "1", objects: ["x"], wait: null }).spec.waitMs).toBeNull();
  });

  test("of the others, too", () => {
    expect(requests.parseSession({ session: SESSION, secret: new Uint8Array(16) })).toMatchObject({ generation: 1, graceMs: DEFAULTS.graceMs });
    expect(requests.parseList({})).toEqual({ prefix: "", after: null, limit: 1000 });
    expect(requests.parseEvents({})).toEqual({ prefix: "", from: null, follow: false, limit: 1000 });
    expect(requests.parseSessions({})).toEqual({ after: null, limit: 1000 });
    expect(requests.parseWaitFree({ object: "x" })).toEqual({ object: "x", waitMs: null });
    expect(requests.parseRelease({ object: "x", token: 7 })).toMatchObject({ object: "x", token: 7, reason: "" });
    expect(requests.parseKick({ session: SESSION })).toMatchObject({ session: SESSION, reason: "" });
    expect(requests.parseRenew({ handle: "h" })).toEqual({ kind: "handle", handle: "h", durationMs: null });
    expect(requests.parseRenew({ digest: [1, 2] })).toEqual({ kind: "session", seen: 0, held: { count: 0, digest: [1, 2] } });
  });

  test("that are needed are named", () => {
    const needed: readonly (readonly [(body: Body) => unknown, Body, string])[] = [
      [requests.parseLock, { objects: ["x"] }, "request"],
      [requests.parseLock, { request: "1" }, "objects"],
      [requests.parseLock, { request: "1", objects: ["x"], mode: "semaphore" }, "permits"],
      [requests.parseSession, { secret: new Uint8Array(16) }, "session"],
      [requests.parseSession, { session: SESSION }, "secret"],
      [requests.parseRenew, {}, "digest"],
      [requests.parseUnlock, {}, "request"],
      [requests.parseUnfollow, {}, "follow"],
      [requests.parseWhy, {}, "object"],
      [requests.parseWaitFree, {}, "object"],
      [requests.parseRelease, { object: "x" }, "token"],
      [requests.parseRelease, { token: 1 }, "object"],
      [requests.parseKick, {}, "session"],
    ];
    for (const [parse, body, field] of needed) expect(refusal(parse, body)).toMatchObject({ code: "invalid", message: expect.stringContaining(field) });
  });
});

describe("object names", () => {
  const names = (value: unknown): readonly string[] => requests.parseLock({ request: "1", objects: [value] }).spec.objects;

  test("of 1 to 1,024 bytes are taken exactly as they are", () => {
    const long = ["a".repeat(1024), "é".repeat(512), "🔒".repeat(256), `${"a".repeat(1022)}é`];
    for (const name of ["a", "a/", "a//b", "a/b", ".", "..", "%2F", "a b", "a\nb", "a|b", "a,b", "\0", "🔒", "é", "e\u0301", "__proto__", ...long]) {
      expect(names(name)).toEqual([name]);
      expect(requests.parseWhy({ object: name })).toEqual({ object: name });
    }
  });

  test("of no byte, of 1,025, or that are no text are refused, never cut", () => {
    for (const name of ["", "a".repeat(1025), `${"é".repeat(512)}a`, `${"🔒".repeat(256)}a`, ...NO_TEXTS]) {
      expect(refusal((body) => names(body["name"]), { name }).code).toBe("invalid");
      expect(refusal(requests.parseWhy, { object: name }).code).toBe("invalid");
    }
  });

  test("several at once are sorted and distinct, at most 64", () => {
    const many = Array.from({ length: 64 }, (_, index) => `n${index}`);
    expect(requests.parseLock({ request: "1", objects: ["b", "B", "a/b", "a"] }).spec.objects).toEqual(["B", "a", "a/b", "b"]);
    expect(requests.parseLock({ request: "1", objects: many }).spec.objects).toHaveLength(64);
    for (const objects of [[], "x", null, {}, ["a", "b", "a"], [...many, "one more"], ["a", 1], ["a", ""], new Uint8Array(2)]) {
      expect(refusal(requests.parseLock, { request: "1", objects }).code).toBe("invalid");
    }
  });
});

describe("the rest of a LOCK", () => {
  const lock = (more: Body): Body => ({ request: "1", objects: ["x"], ...more });

  test("permits and count are for semaphores, and fit each other", () => {
    expect(requests.parseLock(lock({ mode: "semaphore", permits: 3, count: 3 })).spec).toMatchObject({ permits: 3, count: 3 });
    for (const more of [{ mode: "semaphore", permits: 3, count: 4 }, { permits: 1 }, { count: 1 }, { mode: "shared", permits: 1 }, { mode: "SHARED" }, { mode: null }, { mode: 1 }]) {
      expect(refusal(requests.parseLock, lock(more)).code).toBe("invalid");
    }
  });

  test("texts are limited in bytes: request 64, value and command line 4,096", () => {
    for (const [field, bytesMax] of [["request", 64], ["value", 4096], ["commandLine", 4096]] as const) {
      requests.parseLock(lock({ [field]: "é".repeat(bytesMax / 2) }));
      for (const value of ["a".repeat(bytesMax + 1), "é".repeat(bytesMax / 2) + "a", 7, {}]) expect(refusal(requests.parseLock, lock({ [field]: value })).code).toBe("invalid");
    }
    expect(requests.parseLock(lock({ value: "" })).spec.value).toBe("");
    expect(requests.parseLock(lock({ value: null, commandLine: null })).spec).toMatchObject({ value: null });
  });

  test("flags are true or false, parents at most 64 handles", () => {
    expect(requests.parseLock(lock({ detached: true, detectDeadlock: true, queue: true, parents: ["h1", "h2"] })).spec).toMatchObject({
      detached: true, detectDeadlock: true, reportQueue: true, parents: ["h1", "h2"],
    });
    for (const field of ["detached", "detectDeadlock", "queue"]) {
      for (const value of [0, 1, "true", null, [], {}]) expect(refusal(requests.parseLock, lock({ [field]: value })).code).toBe("invalid");
    }
    for (const parents of [null, "h", [1], [""], ["h".repeat(65)], Array(65).fill("h")]) expect(refusal(requests.parseLock, lock({ parents })).code).toBe("invalid");
  });
});

test("a refusal shows a value, but only a piece of it, and fit for a frame", () => {
  const { message } = refusal(requests.parseLock, { request: "1", objects: ["x"], mode: `${"a".repeat(39)}🔒${"b".repeat(5000)}` });
  expect(message.length).toBeLessThan(200);
  expect(() => encodeFrame("ERROR", 1, { code: "invalid", message: message.toWellFormed() })).not.toThrow();
});

describe("sessions and handles", () => {
  test("a session is 22 characters of base64url, its secret 16 to 64 bytes", () => {
    const secret = new Uint8Array(32);
    for (const session of ["A".repeat(22), "-_".repeat(11), SESSION]) expect(requests.parseSession({ session, secret }).session).toBe(session);
    for (const session of ["", "A".repeat(21), "A".repeat(23), `${"A".repeat(21)}=`, `${"A".repeat(22)}\n`, "é".repeat(22), ...NO_TEXTS]) {
      expect(refusal(requests.parseSession, { session, secret }).code).toBe("invalid");
      expect(refusal(requests.parseKick, { session }).code).toBe("invalid");
    }
    for (const bytes of [16, 64]) expect(requests.parseSession({ session: SESSION, secret: new Uint8Array(bytes) }).secret).toHaveLength(bytes);
    for (const other of [new Uint8Array(15), new Uint8Array(65), "a".repeat(32), Array(32).fill(0), null, undefined]) {
      expect(refusal(requests.parseSession, { session: SESSION, secret: other }).code).toBe("invalid");
    }
  });

  test("an error never shows the secret or the handle that came with it", () => {
    for (const [parse, body] of [
      [requests.parseSession, { session: SESSION, secret: "top secret" }],
      [requests.parseUnlock, { handle: "top secret".repeat(10) }],
      [requests.parseRenew, { handle: "top secret", duration: 1 }],
      [requests.parseLock, { request: "1", objects: ["x"], parents: ["top secret".repeat(10)] }],
    ] as const) expect(refusal(parse, body).message).not.toContain("top secret");
  });

  test("UNLOCK and RENEW go by handle, else by request or tokens", () => {
    expect(requests.parseUnlock({ handle: "h", request: "1" })).toEqual({ kind: "handle", handle: "h" });
    expect(requests.parseUnlock({ request: "1" })).toEqual({ kind: "request", request: "1" });
    expect(requests.parseRenew({ seen: 3, tokens: [1, 2], digest: "ignored" })).toEqual({ kind: "session", seen: 3, held: { tokens: [1, 2] } });
    for (const handle of [null, "", 1, "h".repeat(65), {}]) {
      expect(refusal(requests.parseUnlock, { handle, request: "1" }).code).toBe("invalid");
      expect(refusal(requests.parseRenew, { handle, tokens: [] }).code).toBe("invalid");
    }
    for (const more of [{ tokens: null }, { tokens: [1.5] }, { tokens: ["1"] }, { tokens: [-1] }, { digest: [1] }, { digest: [1, 2, 3] }, { digest: [1, -2] }, { digest: "ab" }, { digest: [1, 2], count: -1 }]) {
      expect(refusal(requests.parseRenew, { seen: 0, ...more }).code).toBe("invalid");
    }
  });

  test("cursors are those of an answer", () => {
    expect(requests.parseList({ after: ["x", 5] }).after).toEqual(["x", 5]);
    for (const after of ["x", 5, [], ["x"], [5, "x"], ["x", -1], ["x", 0.5], {}]) expect(refusal(requests.parseList, { after }).code).toBe("invalid");
    expect(requests.parseSessions({ after: "s" }).after).toBe("s");
    for (const after of [5, [], {}, true]) expect(refusal(requests.parseSessions, { after }).code).toBe("invalid");
  });
});

// ---- a second source: the same rules as schemas

const bytesMax = (max: number) => v.check((text: string) => Buffer.byteLength(text) <= max);
const name = v.pipe(v.string(), v.minLength(1), bytesMax(1024));
const within = (min: number, max: number) => v.optional(v.pipe(v.number(), v.safeInteger(), v.minValue(min), v.maxValue(max)));
const someText = (max: number) => v.nullish(v.pipe(v.string(), bytesMax(max)));
const handle = v.pipe(v.string(), v.minLength(1), v.maxLength(64));
const lockSchema = v.pipe(
  v.object({
    request: v.pipe(v.string(), v.minLength(1), bytesMax(64)),
    objects: v.pipe(v.array(name), v.minLength(1), v.maxLength(64), v.check((names) => new Set(names).size === names.length)),
    mode: v.optional(v.picklist(["exclusive", "shared", "semaphore"])),
    permits: within(1, 1_000_000),
    count: within(1, 1_000_000),
    wait: v.nullable(within(0, 7 * DAY)),
    duration: within(500, 7 * DAY),
    unlockDuration: within(500, 3_600_000),
    lockDelay: within(0, 3_600_000),
    value: someText(4096),
    commandLine: someText(4096),
    detached: v.optional(v.boolean()),
    detectDeadlock: v.optional(v.boolean()),
    queue: v.optional(v.boolean()),
    parents: v.optional(v.pipe(v.array(handle), v.maxLength(64))),
  }),
  v.check(({ mode, permits, count }) => (mode === "semaphore" ? permits !== undefined && (count ?? 1) <= permits : permits === undefined && count === undefined)),
);

const rarely = (good: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 30, arbitrary: good }, { weight: 1, arbitrary: fc.constantFrom(...NO_INTEGERS, undefined, "", "x".repeat(5000)) });
const near = (min: number, max: number): fc.Arbitrary<unknown> => rarely(fc.oneof({ weight: 8, arbitrary: fc.integer({ min, max }) }, { weight: 1, arbitrary: fc.constantFrom(min - 1, max + 1, min, max) }));
const lockBody = fc
  .record(
    {
      request: rarely(fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 })),
      objects: rarely(fc.uniqueArray(fc.string({ unit: "grapheme", minLength: 1, maxLength: 400 }), { minLength: 1, maxLength: 4 })),
      mode: rarely(fc.constantFrom("exclusive", "shared", "semaphore")),
      permits: near(1, 1_000_000),
      count: near(1, 10),
      wait: near(0, 7 * DAY),
      duration: near(500, 7 * DAY),
      unlockDuration: near(500, 3_600_000),
      lockDelay: near(0, 3_600_000),
      value: rarely(fc.string({ unit: "grapheme", maxLength: 1500 })),
      commandLine: rarely(fc.string({ maxLength: 100 })),
      detached: rarely(fc.boolean()),
      detectDeadlock: rarely(fc.boolean()),
      queue: rarely(fc.boolean()),
      parents: rarely(fc.array(fc.string({ minLength: 1, maxLength: 64 }), { maxLength: 3 })),
      future: fc.anything(),
    },
    { requiredKeys: ["request", "objects"] },
  )
  .map((body): Body => {
    // most of what is drawn should be a good request
    const { permits: _permits, count: _count, ...others } = body;
    return body.mode === "semaphore" ? body : others;
  });

test("LOCK is accepted exactly when a schema of the same rules accepts it", () => {
  let accepted = 0;
  let refused = 0;
  fc.assert(
    fc.property(lockBody, (body) => {
      const expected = v.safeParse(lockSchema, { wait: undefined, ...body });
      if (expected.success) {
        const { request, spec } = requests.parseLock(body);
        accepted++;
        expect(request).toBe(expected.output.request);
        expect([...spec.objects].sort()).toEqual([...expected.output.objects].sort());
        expect(spec.waitMs).toBe(expected.output.wait ?? null);
        expect(spec.value).toBe(expected.output.value ?? null);
      } else {
        refused++;
        expect(refusal(requests.parseLock, body).code).toBe("invalid");
      }
    }),
    { numRuns: 3000 },
  );
  expect(accepted).toBeGreaterThan(500);
  expect(refused).toBeGreaterThan(300);
});

test("any body that a frame can carry is parsed or refused as invalid, by every parser", () => {
  const { objectName: _, ...parsers } = requests;
  expect(Object.keys(parsers).length).toBeGreaterThanOrEqual(13);
  const fields = [
    "session", "secret", "generation", "grace", "request", "objects", "mode", "permits", "count", "wait", "duration", "unlockDuration", "lockDelay", "value", "detached",
    "detectDeadlock", "queue", "parents", "commandLine", "handle", "seen", "tokens", "digest", "prefix", "after", "limit", "from", "follow", "object", "token", "reason",
    "__proto__", "constructor", "toString",
  ];
  const leaf = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 30 }), fc.maxSafeInteger(), fc.double({ noNaN: true, noDefaultInfinity: true }).filter((value) => !Number.isInteger(value)), fc.boolean(), fc.constant(null),
    fc.uint8Array({ maxLength: 70 }),
  );
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof({ maxDepth: 3 }, leaf, fc.array(tie("value"), { maxLength: 4 }), fc.dictionary(fc.string({ maxLength: 5 }), tie("value"), { maxKeys: 3, noNullPrototype: true })),
  }));
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom(...fields), value), { maxLength: 8 }), (entries) => {
      const bodies: Body[] = [];
      new FrameDecoder({ frameBytesMax: 1 << 20 }).push(encodeFrame("X", 1, Object.fromEntries(entries)), (frame) => void bodies.push(frame.body));
      for (const body of bodies) {
        for (const [name, parse] of Object.entries(parsers)) {
          try {
            parse(body);
          } catch (error) {
            expect([name, error instanceof LockdError && error.code]).toEqual([name, "invalid"]);
          }
        }
      }
    }),
    { numRuns: 3000 },
  );
});

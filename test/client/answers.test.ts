import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import * as v from "valibot";
import {
  errorOf,
  parseLocked,
  parseLockFailed,
  parseQueuePush,
  parseRenewed,
  parseRenewedHandle,
  parseSessionAnswer,
  parseUnlocked,
  parseUnlockingPush,
} from "../../src/client/answers.ts";
import { LockFailedError } from "../../src/client/errors.ts";
import { LockdError } from "../../src/errors.ts";
import type { Body } from "../../src/wire/types.ts";

// The same rules once more, as schemas: the hand-written checks must agree with them on any input.
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const token = v.pipe(count, v.minValue(1));
const duration = v.pipe(v.number(), v.finite(), v.minValue(0));
const locked = v.object({
  request: v.string(), objects: v.array(v.string()), handle: v.string(), token, left: duration, duration,
  unlockDuration: duration, processed: count, grant: token,
});
const schemas = {
  locked,
  renewed: v.object({
    processed: count, lost: v.array(v.object({ token, reason: v.string() })), mismatch: v.boolean(),
  }),
  renewedHandle: v.object({ token, left: duration, duration, unlockDuration: duration, processed: count }),
  unlocked: v.object({ token: v.optional(v.nullable(token), null), held: v.boolean() }),
  unlocking: v.object({ request: v.string(), token, left: duration, reason: v.string() }),
  queue: v.object({ request: v.string(), position: count }),
  session: v.object({
    session: v.string(), generation: count, grace: duration, resumed: v.boolean(),
    tickets: v.array(v.object({
      request: v.string(), objects: v.array(v.string()), state: v.picklist(["entering", "waiting", "locked", "unlocking"]),
      grant: v.optional(v.nullable(locked)),
    })),
  }),
} as const;

const parsers: Record<keyof typeof schemas, (body: Body) => unknown> = {
  locked: parseLocked,
  renewed: parseRenewed,
  renewedHandle: parseRenewedHandle,
  unlocked: parseUnlocked,
  unlocking: parseUnlockingPush,
  queue: parseQueuePush,
  session: parseSessionAnswer,
};

const grant = {
  request: "r", objects: ["a", "b"], handle: "h", token: 7, left: 9.5, duration: 10, unlockDuration: 5, processed: 3, grant: 1,
};
const samples: Record<keyof typeof schemas, Record<string, unknown>> = {
  locked: grant,
  renewed: { processed: 3, lost: [{ token: 5, reason: "forced" }], mismatch: false },
  renewedHandle: { token: 7, left: 9, duration: 10, unlockDuration: 5, processed: 3 },
  unlocked: { token: 7, held: true },
  unlocking: { request: "r", token: 7, left: 5000, reason: "timedout" },
  queue: { request: "r", position: 2 },
  session: {
    session: "s", generation: 2, grace: 5000, resumed: true,
    tickets: [{ request: "r", objects: ["a"], state: "waiting" }, { request: "q", objects: ["b"], state: "locked", grant }],
  },
};

const odd = fc.oneof(
  fc.constantFrom(undefined, null, 0, -1, 1, 0.5, 2 ** 53, Number.MAX_SAFE_INTEGER, "", "x", true, false),
  fc.constantFrom([], ["a"], [1], [null], {}, { token: 0 }, [{ token: 1, reason: "r" }], [{ request: "r" }], new Uint8Array(2)),
);

function accepts(check: () => unknown): boolean {
  try {
    check();
    return true;
  } catch (error) {
    if (error instanceof LockdError && error.code === "protocol") return false;
    throw error;
  }
}

describe.each(Object.keys(schemas) as (keyof typeof schemas)[])("%s", (name) => {
  const schema: v.GenericSchema = schemas[name];

  test("a sound body passes and unknown fields are dropped", () => {
    const sample = samples[name];
    expect(parsers[name]({ ...sample, future: 1 })).toEqual(sample);
  });

  test("is accepted and refused exactly as its schema says, whichever field is odd", () => {
    const fields = Object.keys(samples[name]);
    fc.assert(
      fc.property(fc.constantFrom(...fields), odd, (field, value) => {
        const body = { ...samples[name], [field]: value };
        expect([field, value, accepts(() => parsers[name](body))]).toEqual([field, value, v.is(schema, body)]);
      }),
      { numRuns: 500 },
    );
  });

  test("an empty body is refused", () => {
    expect(accepts(() => parsers[name]({}))).toBe(false);
  });
});

describe("LOCKFAILED", () => {
  test("keeps what helps people as far as it is sound", () => {
    expect(parseLockFailed({ code: "timedout", message: "m", position: "no", holders: "no" })).toEqual({
      request: "", code: "timedout", message: "m",
    });
    expect(() => parseLockFailed({ code: "timedout", message: "m", holders: [{ object: "a" }] })).toThrow(LockdError);
  });

  test("a code of a newer server is failed", () => {
    expect(parseLockFailed({ request: "r", code: "fancy", message: "m" }).code).toBe("failed");
    expect(parseLockFailed({ request: "r", code: "toString", message: "m" }).code).toBe("failed");
  });
});

describe("ERROR", () => {
  test("keeps code, message, hint and whether another try makes sense", () => {
    const error = errorOf({ code: "overflow", message: "m", hint: "h", retryable: false }, "server");
    expect(error).toMatchObject({ code: "overflow", message: "m", hint: "h", retryable: false });
  });

  test("without sense is still an error", () => {
    expect(errorOf({}, "server")).toMatchObject({ code: "failed", message: "server answered with an error without a message" });
    expect(errorOf({ code: "__proto__", message: 5 }, "server").code).toBe("failed");
  });
});

test("a refusal because of a deadlock says how to avoid one", () => {
  const error = new LockFailedError("deadlock", "deadlock: A waits for B", { holders: [], position: null });
  expect(error.hint).toContain("lockd exec A B");
  expect(new LockFailedError("timedout", "m", { holders: [], position: null }).hint).toBeUndefined();
});

/**
 * docs/protocol.md says what the code does: every message and field with its type, range and default, the
 * codes, the limits, the digest and the bytes.
 */
import { describe, expect, test } from "bun:test";
import { registerMessages } from "../../plugins/lock/server/instance.ts";
import * as answers from "../../src/client/answers.ts";
import { ANSWERS, DEFAULTS, LIMITS, PROTOCOL_VERSION, tokenDigest } from "../../src/client/protocol.ts";
import * as schemas from "../../src/client/schemas.ts";
import { isErrorCode, LockdError } from "../../src/errors.ts";
import { errorBody } from "../../src/wire/error-body.ts";
import { proofOf } from "../../src/security/challenge.ts";
import { encodeFrame, FrameDecoder } from "../../src/wire/frame.ts";
import { readServerHello } from "../../src/wire/hello.ts";
import type { Body, Frame } from "../../src/wire/types.ts";
import { accepted, describe as describeType, refused } from "./field-type.ts";
import { type BodyTable, type Field, readPage, showValue } from "./page.ts";
import { constant, interfaceFields, sourceOf, unionMembers } from "./source.ts";
import { Tables } from "./tables.ts";

const page = readPage();
const tables = new Tables(page);
const rowsOf = (header: string): readonly (readonly string[])[] => page.tables.get(header) ?? [];

/** Types that every connection understands by itself, and no plugin registers. */
const OF_CONNECTIONS = ["HELLO", "PROOF", "PING", "PONG", "UNKNOWN"];

/** The server's parsers, by the types that it registers. */
function serverParsers(): Map<string, (body: Body) => unknown> {
  const parsers = new Map<string, (body: Body) => unknown>();
  const nothing = new Proxy({}, { get: () => () => undefined });
  registerMessages({ on: (type, parse) => void parsers.set(type, parse) }, Object.assign(Object.create(nothing), {}));
  return parsers;
}

const parsers = serverParsers();

describe("the messages", () => {
  test("that a client may send are those that the server serves", () => {
    expect(tables.types("client")).toEqual([...parsers.keys(), ...OF_CONNECTIONS].sort());
  });

  test("that a server sends are those that its sources name", () => {
    const server = "plugins/lock/server";
    const files = [`${server}/service.ts`, `${server}/queries.ts`, `${server}/watchers.ts`, `${server}/session-bindings.ts`, "src/net/server-connection.ts", "src/wire/registry.ts"];
    const sent = files.flatMap((file) =>
      [...sourceOf(file).matchAll(/(?:\.send\(|#queue\(|#push\([^"\n]*|#answerLock\([^"\n]*|\banswer\([^"\n]*)"([A-Z]+)"/g)].map((match) => match[1] ?? ""),
    );
    expect([...new Set(sent)].sort()).toEqual(tables.types("server"));
  });

  test("of the overview are those that the server serves, each with the answer that the client library expects", () => {
    const overview = new Map(rowsOf("request|answer|needs a session|twice is").map(([request = "", answer = ""]) => [request, answer]));
    expect([...overview.keys()].sort()).toEqual([...parsers.keys()].sort());
    for (const [request, answer] of Object.entries(ANSWERS)) {
      if (request !== "PING") expect([request, overview.get(request)?.split(/,| or /)[0]]).toEqual([request, answer]);
    }
  });
});

/** Fields that go only together with others. */
function companions(type: string, field: string, value: unknown): Record<string, unknown> {
  if (type !== "LOCK") return {};
  if (field === "count") return { mode: "semaphore", permits: LIMITS.permitsMax };
  if (field === "permits") return { mode: "semaphore" };
  return field === "mode" && value === "semaphore" ? { permits: 1 } : {};
}

function parserOf(type: string): (body: Body) => unknown {
  const parse = parsers.get(type);
  if (parse === undefined) throw new Error(`${type} has no parser`);
  return parse;
}

/** The error that a parser throws, null when it takes the body. */
function refusal(run: () => unknown): unknown {
  try {
    run();
    return null;
  } catch (error) {
    return error;
  }
}

function defaultOf({ absent }: Field): unknown {
  if (absent === null) return undefined;
  try {
    return JSON.parse(absent);
  } catch {
    return undefined;
  }
}

const requestForms = [...parsers.keys()].flatMap((type) => tables.of(type, "client").map((table, form) => ({ type, form, table })));

describe("what the server reads", () => {
  for (const { type, form, table } of requestForms) {
    const parse = parserOf(type);
    const needed = tables.sample(table, "needed");
    const label = `${type}${form === 0 ? "" : ` (form ${form + 1})`}`;

    test(`${label} is taken with the fields that must be there`, () => {
      expect(refusal(() => parse(needed))).toBeNull();
    });

    for (const field of table.fields) {
      const { name } = field;
      const bodyWith = (value: unknown): Body => ({ ...needed, ...companions(type, name, value), [name]: value });

      test(`${label}.${name} is ${describeType(field.type)}`, () => {
        for (const value of accepted(field.type)) {
          expect([showValue(value).slice(0, 80), refusal(() => parse(bodyWith(value)))]).toEqual([showValue(value).slice(0, 80), null]);
        }
        for (const value of [...refused(field.type), Number.NaN]) {
          const error = refusal(() => parse(bodyWith(value)));
          expect([showValue(value).slice(0, 80), error instanceof LockdError ? error.code : error]).toEqual([showValue(value).slice(0, 80), "invalid"]);
        }
      });

      test(`${label}.${name} ${field.absent === null ? "must be there" : `may be left out: ${field.absent}`}`, () => {
        const { [name]: _, ...without } = bodyWith(accepted(field.type)[0]);
        if (name === "permits") return expect(refusal(() => parse(without))).toBeInstanceOf(LockdError);
        if (field.absent === null) return expect(refusal(() => parse(without))).toBeInstanceOf(LockdError);
        const value = defaultOf(field);
        if (value === undefined) return expect(refusal(() => parse(without))).toBeNull();
        return expect(parse(without)).toEqual(parse(bodyWith(value)));
      });
    }
  }

  for (const type of parsers.keys()) {
    test(`of ${type} is what is documented and nothing else`, () => {
      const forms = tables.of(type, "client");
      const read = new Set<string>();
      const body = (fields: Body): Body =>
        new Proxy(fields, {
          get(target, key) {
            if (typeof key === "string") read.add(key);
            return typeof key === "string" ? target[key] : undefined;
          },
        });
      for (const table of forms) {
        parserOf(type)(body(tables.sample(table, "needed")));
      }
      expect([...read].sort()).toEqual([...new Set(forms.flatMap(({ fields }) => fields.map(({ name }) => name)))].sort());
    });
  }

  test("has the defaults that are documented", () => {
    const lock = tables.of("LOCK", "client")[0]?.fields ?? [];
    const absent = (name: string): unknown => lock.find((field) => field.name === name)?.absent;
    expect([absent("duration"), absent("unlockDuration")]).toEqual([String(DEFAULTS.durationMs), String(DEFAULTS.unlockDurationMs)]);
    expect(parserOf("LOCK")({ request: "r", objects: ["o"], detached: true })).toMatchObject({ spec: { durationMs: DEFAULTS.detachedDurationMs } });
    expect(sourceOf("docs/protocol.md")).toContain(`; detached: ${DEFAULTS.detachedDurationMs} `);
  });
});

/** Interfaces of the sources by the tables that describe the same: name, and which form of it. */
const DESCRIBED: Readonly<Record<string, readonly [name: string, form: number]>> = {
  SessionAnswer: ["SESSION", 0],
  LockedBody: ["LOCKED", 0],
  LockFailedBody: ["LOCKFAILED", 0],
  RenewedSessionBody: ["RENEWED", 0],
  RenewedHandleBody: ["RENEWED", 1],
  UnlockedBody: ["UNLOCKED", 0],
  UnlockedPush: ["UNLOCKED", 1],
  UnlockingPush: ["UNLOCKING", 0],
  QueuePush: ["QUEUE", 0],
  TicketListBody: ["TICKETLIST", 0],
  EventsBody: ["EVENTS", 0],
  EventBody: ["EVENT", 0],
  WhyBody: ["WHY", 0],
  SessionListBody: ["SESSIONS", 0],
  KickedBody: ["KICKED", 0],
  ReleasingBody: ["RELEASING", 0],
  StatusBody: ["STATUS", 0],
  HolderBody: ["Holder", 0],
  BlockerBody: ["Blocker", 0],
  SessionTicket: ["SessionTicket", 0],
  TicketBody: ["Ticket", 0],
  CycleEdge: ["Edge", 0],
  SessionBody: ["SessionState", 0],
};

function describedBy([name, form]: readonly [string, number]): BodyTable {
  return /^[A-Z]+$/.test(name) ? (tables.of(name, "server")[form] ?? tables.structure(name)) : tables.structure(name);
}

/** The kind of a field, as coarse as TypeScript's. */
function kindOf(type: Field["type"]): string {
  if (type.kind === "nullable") return `${kindOf(type.type)} | null`;
  if (type.kind === "text" || type.kind === "one of") return "text";
  return type.kind === "tuple" ? "list" : type.kind === "structure" ? "map" : type.kind;
}

function kindOfSource(type: string): string {
  const plain = type.replace(" | null", "");
  const nullable = plain === type ? "" : " | null";
  if (/^readonly /.test(plain)) return `list${nullable}`;
  if (plain === "boolean") return `flag${nullable}`;
  if (plain === "number") return `number${nullable}`;
  return /^string$|^"|^LockMode$/.test(plain) ? `text${nullable}` : `map${nullable}`;
}

describe("what the server writes", () => {
  const source = sourceOf("src/client/protocol.ts");
  for (const [name, table] of Object.entries(DESCRIBED)) {
    test(`as ${name} has the fields of ${table[0]}`, () => {
      const documented = describedBy(table).fields.map(({ name: field, type, absent }) => `${field}${absent === null ? "" : "?"}: ${kindOf(type)}`);
      const written = interfaceFields(source, name).map(({ name: field, optional, type }) => `${field}${optional ? "?" : ""}: ${kindOfSource(type)}`);
      expect(documented.sort()).toEqual(written.sort());
    });
  }

  for (const [name, from] of [["ClientHello", "client"], ["ServerHello", "server"]] as const) {
    test(`of itself as ${name} has the fields of HELLO`, () => {
      const documented = (tables.of("HELLO", from)[0]?.fields ?? []).map(({ name: field, absent }) => `${field}${absent === null ? "" : "?"}`);
      const written = interfaceFields(sourceOf("src/wire/hello.ts"), name).map(({ name: field, optional }) => `${field}${optional ? "?" : ""}`);
      // credentials are looked at before and beside the rest
      expect(documented.sort()).toEqual([...written, from === "client" ? "auth?" : "proof?"].sort());
    });
  }

  test("as the errors of a request has the fields of ERROR", () => {
    const bare = errorBody(new LockdError("lost", "lose lock: gone"));
    expect(tables.problems("ERROR", "server", bare)).toEqual([]);
    const full = errorBody(new LockdError("lost", "lose lock: gone", { hint: "try again" }));
    expect(tables.problems("ERROR", "server", full)).toEqual([]);
    const fields = tables.of("ERROR", "server")[0]?.fields ?? [];
    expect(Object.keys(full).sort()).toEqual(fields.map(({ name }) => name).sort());
    expect(Object.keys(bare).sort()).toEqual(fields.filter(({ absent }) => absent === null).map(({ name }) => name).sort());
  });

  test("as states, modes, reasons and kinds of events is one of those documented", () => {
    const types = sourceOf("plugins/lock/core/types.ts");
    const choices = (table: string, field: string): unknown => {
      const forms = [...page.bodies, ...page.structures].filter(({ name, from }) => name === table && from !== "client");
      return forms.flatMap(({ fields }) => fields).flatMap(({ name, type }) => (name === field && type.kind === "one of" ? [type.values] : []))[0];
    };
    expect(choices("EVENT", "event")).toEqual(unionMembers(types, "LockEventKind"));
    for (const table of ["UNLOCKED", "UNLOCKING", "LostToken"]) expect(choices(table, "reason")).toEqual(unionMembers(types, "LossReason"));
    for (const table of ["Blocker", "SessionTicket", "Ticket"]) expect(choices(table, "state")).toEqual(unionMembers(types, "TicketState"));
    for (const table of ["EVENT", "Ticket"]) expect(choices(table, "mode")).toEqual(unionMembers(types, "LockMode"));
    const named = /Codes: ([^:]+):/.exec(sourceOf("docs/protocol.md").replaceAll("\n", " "))?.[1] ?? "";
    const codes = [...named.matchAll(/`([a-z]+)`/g)].map((match) => match[1]);
    expect(codes.sort()).toEqual([...unionMembers(types, "LockFailure"), "notfound"].sort());
  });
});

/** The client library's parsers of what the server sends. */
const CLIENT_PARSERS: readonly (readonly [type: string, form: number, parse: (body: Body) => unknown])[] = [
  ["HELLO", 0, (body) => readServerHello({ type: "HELLO", id: 0, body: { ...body, protocol: PROTOCOL_VERSION } })],
  ["SESSION", 0, answers.parseSessionAnswer],
  ["LOCKED", 0, answers.parseLocked],
  ["LOCKFAILED", 0, answers.parseLockFailed],
  ["RENEWED", 0, answers.parseRenewed],
  ["RENEWED", 1, answers.parseRenewedHandle],
  ["UNLOCKED", 0, answers.parseUnlocked],
  ["UNLOCKED", 1, answers.parseUnlockedPush],
  ["UNLOCKING", 0, answers.parseUnlockingPush],
  ["QUEUE", 0, answers.parseQueuePush],
  ["TICKETLIST", 0, schemas.parseTicketList],
  ["EVENTS", 0, schemas.parseEvents],
  ["EVENT", 0, schemas.parseEvent],
  ["WHY", 0, schemas.parseWhy],
  ["SESSIONS", 0, schemas.parseSessionList],
  ["STATUS", 0, schemas.parseStatus],
  ["KICKED", 0, schemas.parseKicked],
  ["RELEASING", 0, schemas.parseReleasing],
];

describe("what the client library reads", () => {
  for (const [type, form, parse] of CLIENT_PARSERS) {
    const table = tables.of(type, "server")[form];
    test(`of ${type}${form === 0 ? "" : ` (form ${form + 1})`} is all that is documented`, () => {
      if (table === undefined) throw new Error(`${type} is not documented`);
      const known: Body = type === "LOCKFAILED" ? { code: "timedout" } : {};
      const all = { ...tables.sample(table, "all"), ...known };
      // the handshake looks at the proof
      expect(parse(all)).toEqual(Object.fromEntries(Object.entries(all).filter(([field]) => type !== "HELLO" || field !== "proof")));
      const needed = { ...tables.sample(table, "needed"), ...known };
      expect(parse(needed)).toEqual(needed);
    });
  }
});

describe("the numbers", () => {
  const NAMED_IN: Readonly<Record<string, string>> = {
    FRAME_BYTES_MAX: "src/wire/frame.ts",
    HELLO_BYTES_MAX: "src/wire/hello.ts",
    HELLO_TIMEOUT_MS: "src/wire/hello.ts",
    depthMax: "src/wire/cbor-decode.ts",
    itemsMax: "src/wire/cbor-decode.ts",
    outputBytesMax: "src/net/limits.ts",
    outputBytesHigh: "src/net/limits.ts",
    pingAfterMs: "src/net/limits.ts",
    silenceMaxMs: "src/net/limits.ts",
    lingerMs: "src/net/limits.ts",
    greetingMax: "src/net/limits.ts",
    CONTROL_DEADLINE_MS: "plugins/lock/server/service.ts",
    WAITING_MAX: "plugins/lock/server/session-bindings.ts",
    FOLLOWS_PER_CONNECTION_MAX: "plugins/lock/server/watchers.ts",
    WAITS_PER_CONNECTION_MAX: "plugins/lock/server/watchers.ts",
    FAILED_MAX: "plugins/lock/core/ending.ts",
    BLOCKERS_MAX: "plugins/lock/core/messages.ts",
    WHY_WAITERS_MAX: "plugins/lock/server/bodies.ts",
    WHY_EVENTS_MAX: "plugins/lock/server/bodies.ts",
    PROTOCOL_VERSION: "src/client/protocol.ts",
  };
  const limits = rowsOf("limit|value|name");

  test("of the page are those that are looked up here", () => {
    expect(limits.map(([, , name = ""]) => name).sort()).toEqual(Object.keys(NAMED_IN).sort());
  });
  for (const [, value = "", name = ""] of limits) {
    test(`${name} is ${value}`, () => {
      expect(constant(sourceOf(NAMED_IN[name] ?? ""), name)).toBe(Number(value));
    });
  }

  test("of the digest come out as the code computes them", () => {
    const vectors = rowsOf("tokens|digest");
    expect(vectors.length).toBeGreaterThan(4);
    for (const [tokens = "", digest = ""] of vectors) {
      const list: number[] = JSON.parse(tokens);
      expect([tokens, JSON.stringify(tokenDigest(list)).replace(",", ", ")]).toEqual([tokens, digest]);
    }
  });

  test("of the proofs come out as the code computes them", () => {
    const bytes = (from: number): Uint8Array => Uint8Array.from({ length: 32 }, (_, index) => from + index);
    const shared = { secret: new TextEncoder().encode("correct horse battery"), clientNonce: bytes(0), serverNonce: bytes(32) };
    const vectors = rowsOf("role|hash|proof");
    expect(vectors).toHaveLength(4);
    for (const [role = "", hash = "", proof] of vectors) {
      const certificateHash = new Uint8Array(Buffer.from(hash === "none" ? "" : hash, "hex"));
      const computed = proofOf({ ...shared, certificateHash, role: role === "client" ? "client" : "server" });
      expect([role, hash, Buffer.from(computed).toString("hex")]).toEqual([role, hash, proof ?? ""]);
    }
    const [hello, challenge, proof, answer] = page.frames.filter(({ heading }) => heading === "With a secret").map(({ shown }) => showValue(shown));
    const hex = (value: Uint8Array): string => Buffer.from(value).toString("hex");
    const withoutTls = { ...shared, certificateHash: new Uint8Array(0) };
    expect(hello).toContain(`"nonce": h'${hex(bytes(0))}'`);
    expect(challenge).toBe(`["CHALLENGE", 0, {"nonce": h'${hex(bytes(32))}'}]`);
    expect(proof).toBe(`["PROOF", 0, {"proof": h'${hex(proofOf({ ...withoutTls, role: "client" }))}'}]`);
    expect(answer).toContain(`"proof": h'${hex(proofOf({ ...withoutTls, role: "server" }))}'`);
  });

  test("of the deadline are those that the client library counts with", () => {
    const source = sourceOf("src/client/lease-clock.ts");
    const share = /const MARGIN_SHARE = ([0-9.]+);/.exec(source)?.[1];
    expect(sourceOf("docs/protocol.md").match(/deadline = .*/g)).toEqual([
      `deadline = sent[processed] + left - ${share} * left - ${constant(source, "MARGIN_MS")} ms`,
      `deadline = sent[processed] + duration - ${share} * duration - ${constant(source, "MARGIN_MS")} ms`,
    ]);
  });

  test("of errors: their codes are the closed set of the code", () => {
    const documented = rowsOf("code|meaning").map(([code = ""]) => code);
    expect(documented.filter((code) => !isErrorCode(code))).toEqual([]);
    const defined = [...sourceOf("src/errors.ts").matchAll(/^ {2}([a-z]+): \d+,$/gm)].map((match) => match[1] ?? "");
    expect(documented.sort()).toEqual(defined.sort());
  });
});

/** Where requests are shown that no server takes. */
const FAULTY = "What is not understood";

describe("the bytes", () => {
  test("are shown for every message of the page", () => {
    const shown = (from: "client" | "server"): string[] => {
      const frames = page.frames.filter((frame) => frame.from === from && !(frame.heading === FAULTY && from === "client"));
      return [...new Set(frames.map(({ shown: frame }) => (Array.isArray(frame) ? String(frame[0]) : "")))].sort();
    };
    // of a server that is not ready, and after long silence
    const never = ["NOLOCK", "PING"];
    expect(shown("client")).toEqual(tables.types("client").filter((type) => type !== "UNKNOWN"));
    expect(shown("server")).toEqual(tables.types("server").filter((type) => !never.includes(type)));
  });

  for (const { line, connection, from, heading, shown, bytes } of page.frames) {
    const [type, id, body] = Array.isArray(shown) ? shown : [];
    test(`of line ${line}, ${connection} ${String(type)} ${String(id)}, are the frame beside them`, () => {
      const decoded: Frame[] = [];
      new FrameDecoder({ frameBytesMax: 1 << 24 }).push(bytes, (frame) => void decoded.push(frame));
      expect(decoded.map((frame) => showValue([frame.type, frame.id, frame.body]))).toEqual([showValue(shown)]);
      expect(Buffer.from(encodeFrame(String(type), Number(id), { ...body })).toString("hex")).toBe(Buffer.from(bytes).toString("hex"));
      const problems = tables.problems(String(type), from, body);
      if (heading === FAULTY && from === "client") expect(problems).not.toEqual([]);
      else expect(problems).toEqual([]);
    });
  }
});

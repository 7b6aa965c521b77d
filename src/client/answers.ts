/**
 * Hand-written checks of the answers that come once or more for every lock: a schema library would
 * cost more than the rest of the request. Unknown fields are ignored. Knows no state.
 */
import { type ErrorCode, isErrorCode, LockdError } from "../errors.ts";
import type { Body } from "../wire/types.ts";
import type {
  BlockerBody,
  HolderBody,
  LockedBody,
  LockFailedBody,
  QueuePush,
  RenewedHandleBody,
  RenewedSessionBody,
  SessionAnswer,
  SessionTicket,
  UnlockedBody,
  UnlockedPush,
  UnlockingPush,
} from "./protocol.ts";

const bad = (type: string, field: string): LockdError =>
  new LockdError("protocol", `read ${type}: the field ${field} is missing or of a wrong type`);

function text(type: string, field: string, value: unknown): string {
  if (typeof value !== "string") throw bad(type, field);
  return value;
}

/** an integer from 0 to 2^53 - 1 */
function count(type: string, field: string, value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw bad(type, field);
  return value;
}

/** milliseconds, fractions allowed */
function duration(type: string, field: string, value: unknown): number {
  if (typeof value !== "number" || !(value >= 0) || value === Number.POSITIVE_INFINITY) throw bad(type, field);
  return value;
}

function token(type: string, field: string, value: unknown): number {
  const number = count(type, field, value);
  if (number === 0) throw bad(type, field);
  return number;
}

function flag(type: string, field: string, value: unknown): boolean {
  if (typeof value !== "boolean") throw bad(type, field);
  return value;
}

function list<T>(type: string, field: string, value: unknown, item: (value: unknown) => T): readonly T[] {
  if (!Array.isArray(value)) throw bad(type, field);
  return value.map(item);
}

function map(type: string, field: string, value: unknown): Body {
  if (!isMap(value)) throw bad(type, field);
  return value;
}

const isMap = (value: unknown): value is Body => typeof value === "object" && value !== null && !Array.isArray(value);

export function parseLocked(body: Body): LockedBody {
  return {
    request: text("LOCKED", "request", body["request"]),
    objects: list("LOCKED", "objects", body["objects"], (object) => text("LOCKED", "objects", object)),
    handle: text("LOCKED", "handle", body["handle"]),
    token: token("LOCKED", "token", body["token"]),
    left: duration("LOCKED", "left", body["left"]),
    duration: duration("LOCKED", "duration", body["duration"]),
    unlockDuration: duration("LOCKED", "unlockDuration", body["unlockDuration"]),
    processed: count("LOCKED", "processed", body["processed"]),
    grant: token("LOCKED", "grant", body["grant"]),
  };
}

/** Only `code` and `message` are needed: the rest helps people and is taken as far as it is sound. */
export function parseLockFailed(body: Body): LockFailedBody & { code: ErrorCode } {
  const code = text("LOCKFAILED", "code", body["code"]);
  const { request, holders, position } = body;
  return {
    request: typeof request === "string" ? request : "",
    code: isErrorCode(code) ? code : "failed",
    message: text("LOCKFAILED", "message", body["message"]),
    ...(Array.isArray(holders) ? { holders: holders.filter(isMap).map(parseBlocker) } : {}),
    ...(typeof position === "number" ? { position } : {}),
  };
}

function parseBlocker(body: Body): BlockerBody {
  const { token: held } = body;
  return {
    object: text("LOCKFAILED", "holders.object", body["object"]),
    holder: parseHolder(map("LOCKFAILED", "holders.holder", body["holder"])),
    ...(typeof held === "number" ? { token: held } : {}),
    sinceAgo: duration("LOCKFAILED", "holders.sinceAgo", body["sinceAgo"]),
    state: text("LOCKFAILED", "holders.state", body["state"]),
  };
}

function parseHolder(body: Body): HolderBody {
  const { commandLine } = body;
  return {
    name: text("holder", "name", body["name"]),
    host: text("holder", "host", body["host"]),
    pid: count("holder", "pid", body["pid"]),
    program: text("holder", "program", body["program"]),
    address: text("holder", "address", body["address"]),
    session: text("holder", "session", body["session"]),
    ...(typeof commandLine === "string" ? { commandLine } : {}),
  };
}

export function parseRenewed(body: Body): RenewedSessionBody {
  return {
    processed: count("RENEWED", "processed", body["processed"]),
    lost: list("RENEWED", "lost", body["lost"], (entry) => {
      const lost = map("RENEWED", "lost", entry);
      return {
        token: token("RENEWED", "lost.token", lost["token"]),
        reason: text("RENEWED", "lost.reason", lost["reason"]),
      };
    }),
    mismatch: flag("RENEWED", "mismatch", body["mismatch"]),
  };
}

export function parseRenewedHandle(body: Body): RenewedHandleBody {
  return {
    token: token("RENEWED", "token", body["token"]),
    left: duration("RENEWED", "left", body["left"]),
    duration: duration("RENEWED", "duration", body["duration"]),
    unlockDuration: duration("RENEWED", "unlockDuration", body["unlockDuration"]),
    processed: count("RENEWED", "processed", body["processed"]),
  };
}

export function parseUnlocked(body: Body): UnlockedBody {
  const { token: held } = body;
  return {
    token: held === null || held === undefined ? null : token("UNLOCKED", "token", held),
    held: flag("UNLOCKED", "held", body["held"]),
  };
}

export function parseUnlockingPush(body: Body): UnlockingPush {
  return { ...parseUnlockedPush(body), left: duration("UNLOCKING", "left", body["left"]) };
}

export function parseUnlockedPush(body: Body): UnlockedPush {
  return {
    request: text("UNLOCKED", "request", body["request"]),
    token: token("UNLOCKED", "token", body["token"]),
    reason: text("UNLOCKED", "reason", body["reason"]),
  };
}

export function parseQueuePush(body: Body): QueuePush {
  return {
    request: text("QUEUE", "request", body["request"]),
    position: count("QUEUE", "position", body["position"]),
  };
}

export function parseSessionAnswer(body: Body): SessionAnswer {
  return {
    session: text("SESSION", "session", body["session"]),
    generation: count("SESSION", "generation", body["generation"]),
    grace: duration("SESSION", "grace", body["grace"]),
    resumed: flag("SESSION", "resumed", body["resumed"]),
    tickets: list("SESSION", "tickets", body["tickets"], parseSessionTicket),
  };
}

function parseSessionTicket(entry: unknown): SessionTicket {
  const body = map("SESSION", "tickets", entry);
  const { state, grant } = body;
  if (state !== "entering" && state !== "waiting" && state !== "locked" && state !== "unlocking") {
    throw bad("SESSION", "tickets.state");
  }
  return {
    request: text("SESSION", "tickets.request", body["request"]),
    objects: list("SESSION", "tickets.objects", body["objects"], (object) => text("SESSION", "tickets.objects", object)),
    state,
    ...(grant === undefined || grant === null ? {} : { grant: parseLocked(map("SESSION", "tickets.grant", grant)) }),
  };
}

/** The body of an ERROR frame as an error; a code of a newer server becomes `failed`. */
export function errorOf(body: Body, label: string): LockdError {
  const { code, message, hint, retryable } = body;
  return new LockdError(
    typeof code === "string" && isErrorCode(code) ? code : "failed",
    typeof message === "string" ? message : `${label} answered with an error without a message`,
    {
      ...(typeof hint === "string" ? { hint } : {}),
      ...(typeof retryable === "boolean" ? { retryable } : {}),
    },
  );
}

/**
 * Bodies of lock requests as they are checked at the boundary: hand-written, because LOCK, RENEW and
 * UNLOCK are the hot messages. Each returns typed, in-range values or throws `invalid` with a sentence
 * that says what is accepted. Unknown fields are ignored. Knows no table and no connection.
 */
import { DEFAULTS, LIMITS, type LockMode } from "../../../src/client/protocol.ts";
import { LockdError } from "../../../src/errors.ts";
import type { Body } from "../../../src/wire/types.ts";
import type { HeldClaim, LockSpec } from "../core/types.ts";

const SESSION_ID = /^[A-Za-z0-9_-]{22}$/;
const HANDLE_BYTES_MAX = 64;

const invalid = (message: string): LockdError => new LockdError("invalid", message);

function text(body: Body, field: string, bytesMax: number): string {
  const value = body[field];
  if (typeof value !== "string") throw invalid(`${field}: a text is needed`);
  if (value.length === 0) throw invalid(`${field}: must not be empty`);
  // a UTF-16 code unit is at most three bytes of UTF-8, so short texts need no count
  if (value.length * 3 > bytesMax && Buffer.byteLength(value) > bytesMax) {
    throw invalid(`${field}: longer than ${bytesMax} bytes`);
  }
  return value;
}

function optionalText(body: Body, field: string, bytesMax: number): string | null {
  const value = body[field];
  if (value === undefined || value === null) return null;
  if (value === "") return "";
  return text(body, field, bytesMax);
}

function integer(body: Body, field: string, range: { min: number; max: number; absent: number }): number {
  const value = body[field];
  if (value === undefined) return range.absent;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < range.min || value > range.max) {
    throw invalid(`${field}: ${shown(value)} is not a whole number from ${range.min} to ${range.max}`);
  }
  return value;
}

function milliseconds(body: Body, field: string, range: { min: number; max: number; absent: number }): number {
  const value = body[field];
  if (value === undefined) return range.absent;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < range.min || value > range.max) {
    throw invalid(`${field}: ${shown(value)} is not a whole number of milliseconds from ${range.min} to ${range.max}`);
  }
  return value;
}

function flag(body: Body, field: string): boolean {
  const value = body[field];
  if (value === undefined) return false;
  if (typeof value !== "boolean") throw invalid(`${field}: true or false is needed`);
  return value;
}

function shown(value: unknown): string {
  if (typeof value === "number" || typeof value === "boolean" || value === null) return String(value);
  if (typeof value === "string") return JSON.stringify(value.slice(0, 40));
  return typeof value;
}

/** An object name: non-empty, at most 1,024 bytes of UTF-8, matched exactly. */
export function objectName(value: unknown, field = "object"): string {
  if (typeof value !== "string") throw invalid(`${field}: a text is needed`);
  if (value.length === 0) throw invalid(`${field}: a name must not be empty`);
  if (value.length * 3 > LIMITS.objectBytesMax && Buffer.byteLength(value) > LIMITS.objectBytesMax) {
    throw invalid(`${field}: a name has at most ${LIMITS.objectBytesMax} bytes, this one has ${Buffer.byteLength(value)}`);
  }
  return value;
}

export interface SessionBodyParsed {
  session: string;
  secret: Uint8Array;
  generation: number;
  graceMs: number;
}

export function parseSession(body: Body): SessionBodyParsed {
  const session = body["session"];
  if (typeof session !== "string" || !SESSION_ID.test(session)) {
    throw invalid("session: 22 characters of base64url are needed (128 random bits)");
  }
  const secret = body["secret"];
  if (!(secret instanceof Uint8Array) || secret.length < 16 || secret.length > 64) {
    throw invalid("secret: 16 to 64 random bytes are needed");
  }
  return {
    session,
    secret,
    generation: integer(body, "generation", { min: 1, max: Number.MAX_SAFE_INTEGER, absent: 1 }),
    graceMs: milliseconds(body, "grace", { min: LIMITS.graceMsMin, max: LIMITS.graceMsMax, absent: DEFAULTS.graceMs }),
  };
}

export interface LockBodyParsed {
  request: string;
  spec: LockSpec;
}

export function parseLock(body: Body): LockBodyParsed {
  const request = text(body, "request", LIMITS.requestBytesMax);
  const mode = lockMode(body["mode"]);
  const permits = integer(body, "permits", { min: 1, max: LIMITS.permitsMax, absent: 1 });
  const count = integer(body, "count", { min: 1, max: LIMITS.permitsMax, absent: 1 });
  if (mode === "semaphore") {
    if (body["permits"] === undefined) throw invalid("permits: a semaphore needs the number of permits of the object");
    if (count > permits) throw invalid(`count: ${count} is more than the ${permits} permits of the object`);
  } else if (body["permits"] !== undefined || body["count"] !== undefined) {
    throw invalid("permits and count are for the mode semaphore only");
  }
  const detached = flag(body, "detached");
  const wait = body["wait"];
  const commandLine = optionalText(body, "commandLine", LIMITS.valueBytesMax);
  return {
    request,
    spec: {
      objects: objectList(body["objects"]),
      mode,
      permits,
      count,
      waitMs: wait === null ? null : waitMs(body),
      durationMs: milliseconds(body, "duration", {
        min: LIMITS.durationMsMin,
        max: LIMITS.durationMsMax,
        absent: detached ? DEFAULTS.detachedDurationMs : DEFAULTS.durationMs,
      }),
      unlockDurationMs: milliseconds(body, "unlockDuration", {
        min: LIMITS.unlockDurationMsMin,
        max: LIMITS.unlockDurationMsMax,
        absent: DEFAULTS.unlockDurationMs,
      }),
      lockDelayMs: milliseconds(body, "lockDelay", { min: 0, max: LIMITS.lockDelayMsMax, absent: 0 }),
      value: optionalText(body, "value", LIMITS.valueBytesMax),
      detached,
      detectDeadlock: flag(body, "detectDeadlock"),
      reportQueue: flag(body, "queue"),
      parents: handleList(body["parents"]),
      ...(commandLine === null ? {} : { commandLine }),
    },
  };
}

function waitMs(body: Body): number | null {
  if (body["wait"] === undefined) return null;
  return milliseconds(body, "wait", { min: 0, max: LIMITS.waitMsMax, absent: 0 });
}

function lockMode(value: unknown): LockMode {
  if (value === undefined || value === "exclusive") return "exclusive";
  if (value === "shared" || value === "semaphore") return value;
  throw invalid(`mode: ${shown(value)} is none of exclusive, shared, semaphore`);
}

function objectList(value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length === 0) throw invalid("objects: a list of at least one name is needed");
  if (value.length === 1) return [objectName(value[0], "objects")];
  if (value.length > LIMITS.objectsPerTicketMax) {
    throw invalid(`objects: at most ${LIMITS.objectsPerTicketMax} at once, not ${value.length}`);
  }
  const names = value.map((name: unknown) => objectName(name, "objects")).sort(byCodeUnits);
  const twice = names.find((name, index) => name === names[index + 1]);
  if (twice !== undefined) throw invalid(`objects: ${JSON.stringify(twice)} is named twice`);
  return names;
}

const byCodeUnits = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function handleList(value: unknown): readonly string[] {
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length > LIMITS.objectsPerTicketMax) {
    throw invalid(`parents: a list of at most ${LIMITS.objectsPerTicketMax} handles is needed`);
  }
  return value.map((handle: unknown) => checkHandle(handle));
}

function checkHandle(value: unknown): string {
  if (typeof value !== "string" || value.length === 0 || Buffer.byteLength(value) > HANDLE_BYTES_MAX) {
    throw invalid("handle: this is not a handle");
  }
  return value;
}

export type RenewBodyParsed =
  | { kind: "session"; seen: number; held: HeldClaim }
  | { kind: "handle"; handle: string; durationMs: number | null; value?: string };

export function parseRenew(body: Body): RenewBodyParsed {
  if (body["handle"] !== undefined) {
    const range = { min: LIMITS.durationMsMin, max: LIMITS.durationMsMax, absent: 0 };
    const durationMs = body["duration"] === undefined ? null : milliseconds(body, "duration", range);
    const value = optionalText(body, "value", LIMITS.valueBytesMax);
    return { kind: "handle", handle: checkHandle(body["handle"]), durationMs, ...(value === null ? {} : { value }) };
  }
  const seen = integer(body, "seen", { min: 0, max: Number.MAX_SAFE_INTEGER, absent: 0 });
  const tokens = body["tokens"];
  if (tokens !== undefined) {
    if (!Array.isArray(tokens) || !tokens.every(isCount)) throw invalid("tokens: a list of tokens is needed");
    return { kind: "session", seen, held: { tokens } };
  }
  const digest = body["digest"];
  if (!Array.isArray(digest) || digest.length !== 2) throw invalid("digest: two numbers are needed, or tokens");
  const [sum, xor]: unknown[] = digest;
  if (!isCount(sum) || !isCount(xor)) throw invalid("digest: two numbers are needed, or tokens");
  const count = integer(body, "count", { min: 0, max: Number.MAX_SAFE_INTEGER, absent: 0 });
  return { kind: "session", seen, held: { count, digest: [sum, xor] } };
}

const isCount = (value: unknown): value is number => typeof value === "number" && Number.isSafeInteger(value) && value >= 0;

export type UnlockBodyParsed = { kind: "handle"; handle: string } | { kind: "request"; request: string };

export function parseUnlock(body: Body): UnlockBodyParsed {
  if (body["handle"] !== undefined) return { kind: "handle", handle: checkHandle(body["handle"]) };
  return { kind: "request", request: text(body, "request", LIMITS.requestBytesMax) };
}

function prefixOf(body: Body): string {
  return optionalText(body, "prefix", LIMITS.objectBytesMax) ?? "";
}

function pageLimit(body: Body): number {
  return integer(body, "limit", { min: 1, max: LIMITS.pageLimitMax, absent: LIMITS.pageLimitMax });
}

export function parseList(body: Body): { prefix: string; after: readonly [string, number] | null; limit: number } {
  const after = body["after"];
  if (after === undefined || after === null) return { prefix: prefixOf(body), after: null, limit: pageLimit(body) };
  const [object, number]: unknown[] = Array.isArray(after) ? after : [];
  if (typeof object !== "string" || !isCount(number)) throw invalid("after: the `next` of the page before is needed");
  return { prefix: prefixOf(body), after: [object, number], limit: pageLimit(body) };
}

export function parseEvents(body: Body): { prefix: string; from: number | null; follow: boolean; limit: number } {
  const from = body["from"] === undefined ? null : integer(body, "from", { min: 0, max: Number.MAX_SAFE_INTEGER, absent: 0 });
  return { prefix: prefixOf(body), from, follow: flag(body, "follow"), limit: pageLimit(body) };
}

/** The id of the EVENTS request whose events are not wanted any more. */
export function parseUnfollow(body: Body): { follow: number } {
  const follow = body["follow"];
  if (!isCount(follow)) throw invalid("follow: the id of the EVENTS request is needed");
  return { follow };
}

export const parseWhy = (body: Body): { object: string } => ({ object: objectName(body["object"]) });

export function parseWaitFree(body: Body): { object: string; waitMs: number | null } {
  return { object: objectName(body["object"]), waitMs: body["wait"] === null ? null : waitMs(body) };
}

export function parseRelease(body: Body): { object: string; token: number; reason: string; dead: boolean } {
  const token = integer(body, "token", { min: 1, max: Number.MAX_SAFE_INTEGER, absent: 0 });
  if (token === 0) throw invalid("token: the exact fencing token of the holder is needed");
  return { object: objectName(body["object"]), token, ...forceOf(body) };
}

export function parseKick(body: Body): { session: string; reason: string; dead: boolean } {
  const session = body["session"];
  if (typeof session !== "string" || !SESSION_ID.test(session)) throw invalid("session: this is not a session id");
  return { session, ...forceOf(body) };
}

function forceOf(body: Body): { reason: string; dead: boolean } {
  return { reason: optionalText(body, "reason", LIMITS.valueBytesMax) ?? "", dead: flag(body, "dead") };
}

export function parseSessions(body: Body): { after: string | null; limit: number } {
  const after = body["after"];
  if (after !== undefined && after !== null && typeof after !== "string") throw invalid("after: a session id is needed");
  return { after: after ?? null, limit: pageLimit(body) };
}

export const parseNothing = (): Record<string, never> => ({});

/**
 * The durable form of the table: one CBOR array a record, and the keys under which they are stored.
 * Owns both directions; what it reads it does not trust. Knows no store.
 *
 *   t/NUMBER ticket   s/SESSION session   d/OBJECT lock-delay   l/NUMBER lost lock
 *   f/NUMBER failed wait   meta counters
 */
import { Encoder } from "cbor-x/encode";
import type { Entity, FailedRequest, LostLock, Meta, Session, SessionEnding, Ticket } from "./entities.ts";
import { Fields, corrupt } from "./record-fields.ts";
import type { Holder, LockFailure, LockMode, LockSpec, LossReason } from "./types.ts";

/** Raised when the meaning of a record changes; a newer one is refused. */
const FORMAT = 1;

const encoder = new Encoder({ useRecords: false });

const MODES: readonly LockMode[] = ["exclusive", "shared", "semaphore"];
const STATES: readonly Ticket["state"][] = ["waiting", "locked", "unlocking"];
const REASONS: readonly LossReason[] = ["timedout", "forced", "kicked", "lost"];
const ENDINGS: readonly SessionEnding[] = ["closed", "kicked", "kicked-dead"];
const FAILURES: readonly LockFailure[] = [
  "timedout",
  "duplicate",
  "invalid",
  "denied",
  "overflow",
  "deadlock",
  "unavailable",
  "cancelled",
  "lost",
];

const FLAG = { detached: 1, detectDeadlock: 2, reportQueue: 4, unheard: 8 } as const;

export function keyOf(entity: Entity): string {
  switch (entity.kind) {
    case "ticket":
      return `t/${entity.number}`;
    case "session":
      return `s/${entity.id}`;
    case "delay":
      return `d/${entity.object.name}`;
    case "lost":
      return `l/${entity.number}`;
    case "failed":
      return `f/${entity.number}`;
    case "meta":
      return "meta";
  }
}

export function encode(entity: Entity): Uint8Array {
  switch (entity.kind) {
    case "ticket":
      return encodeTicket(entity);
    case "session":
      return encodeSession(entity);
    case "delay":
      return encoder.encode([entity.untilMs]);
    case "lost":
      return encoder.encode([entity.handle, entity.token, REASONS.indexOf(entity.reason), entity.order]);
    case "failed":
      return encoder.encode([
        entity.session,
        entity.request,
        FAILURES.indexOf(entity.code),
        entity.message,
        entity.order,
      ]);
    case "meta":
      return encoder.encode([FORMAT, entity.lastNumber, entity.lastToken, entity.lastEventId]);
  }
}

function encodeTicket(ticket: Ticket): Uint8Array {
  const spec = ticket.spec;
  const own = ticket.agents.length === 1 && ticket.agents[0]?.id === ticket.session.id;
  const fields: unknown[] = [
    STATES.indexOf(ticket.state),
    ticket.session.id,
    ticket.request,
    ticket.handle,
    spec.objects,
    MODES.indexOf(spec.mode),
    spec.permits,
    spec.count,
    spec.waitMs,
    ticket.durationMs,
    spec.unlockDurationMs,
    spec.lockDelayMs,
    ticket.value,
    (spec.detached ? FLAG.detached : 0) |
      (spec.detectDeadlock ? FLAG.detectDeadlock : 0) |
      (spec.reportQueue ? FLAG.reportQueue : 0) |
      (ticket.session.unheard.has(ticket) ? FLAG.unheard : 0),
    own ? null : ticket.agents.map((agent) => agent.id),
    spec.commandLine ?? null,
    ticket.enteredMs,
    ticket.sinceMs,
  ];
  if (ticket.state !== "waiting") {
    fields.push(ticket.token, ticket.grantNumber, ticket.grantedMs, ticket.message, ticket.endMs);
    if (ticket.state === "unlocking") fields.push(ticket.freeAtMs, REASONS.indexOf(ticket.lossReason));
  }
  return encoder.encode(fields);
}

function encodeSession(session: Session): Uint8Array {
  const { name, host, pid, program, address, commandLine } = session.holder;
  session.profile ??= encoder.encode([session.secretHash, name, host, pid, program, address, commandLine ?? null]);
  return encoder.encode([
    session.profile,
    session.generation,
    session.graceMs,
    session.connected,
    session.ending === null ? null : ENDINGS.indexOf(session.ending),
    session.endReason,
    session.heardMs,
    session.message,
    session.lastGrant,
    session.renewedAtMs,
    session.renewedSeen,
  ]);
}

/** A decoded ticket record; `held` is present unless it waits. */
export interface TicketRecord {
  number: number;
  state: Ticket["state"];
  session: string;
  request: string;
  handle: string;
  spec: LockSpec;
  agents: readonly string[] | null;
  enteredMs: number;
  sinceMs: number;
  held?: {
    token: number;
    grantNumber: number;
    grantedMs: number;
    message: number;
    endMs: number;
    freeAtMs: number;
    lossReason: LossReason;
    /** unlocking by force, and the session did not confirm yet that it heard */
    unheard: boolean;
  };
}

export interface SessionRecord
  extends Pick<
    Session,
    | "id"
    | "secretHash"
    | "holder"
    | "generation"
    | "graceMs"
    | "connected"
    | "ending"
    | "endReason"
    | "heardMs"
    | "message"
    | "lastGrant"
    | "renewedAtMs"
    | "renewedSeen"
  > {}

export type DecodedRecord =
  | { kind: "ticket"; ticket: TicketRecord }
  | { kind: "session"; session: SessionRecord }
  | { kind: "delay"; object: string; untilMs: number }
  | { kind: "lost"; lost: Pick<LostLock, "number" | "handle" | "token" | "reason" | "order"> }
  | {
      kind: "failed";
      failed: Pick<FailedRequest, "number" | "session" | "request" | "code" | "message" | "order">;
    }
  | { kind: "meta"; meta: Pick<Meta, "lastNumber" | "lastToken" | "lastEventId"> };

/** Reads one record. Throws LockdError `corrupt` that names the key. */
export function decode(key: string, value: Uint8Array): DecodedRecord {
  if (key === "meta") return { kind: "meta", meta: decodeMeta(key, new Fields(key, value)) };
  const name = key.slice(2);
  switch (key.slice(0, 2)) {
    case "t/":
      return { kind: "ticket", ticket: decodeTicket(numberIn(key), new Fields(key, value)) };
    case "s/":
      return { kind: "session", session: decodeSession(name, key, new Fields(key, value)) };
    case "d/":
      return { kind: "delay", object: name, untilMs: new Fields(key, value).time() };
    case "l/": {
      const fields = new Fields(key, value);
      const handle = fields.text();
      const token = fields.count();
      const reason = fields.choice(REASONS);
      return { kind: "lost", lost: { number: numberIn(key), handle, token, reason, order: fields.count() } };
    }
    case "f/": {
      const fields = new Fields(key, value);
      const session = fields.text();
      const request = fields.text();
      const code = fields.choice(FAILURES);
      const message = fields.text();
      const order = fields.count();
      return { kind: "failed", failed: { number: numberIn(key), session, request, code, message, order } };
    }
    default:
      throw corrupt(key, "unknown kind of record");
  }
}

function decodeMeta(key: string, fields: Fields): Pick<Meta, "lastNumber" | "lastToken" | "lastEventId"> {
  const format = fields.count();
  if (format !== FORMAT) {
    throw corrupt(key, `format ${format}, this program reads ${FORMAT}`, {
      hint: "Use the version of lockd that wrote it.",
    });
  }
  return { lastNumber: fields.count(), lastToken: fields.count(), lastEventId: fields.count() };
}

function decodeTicket(number: number, fields: Fields): TicketRecord {
  const state = fields.choice(STATES);
  const session = fields.text();
  const request = fields.text();
  const handle = fields.text();
  const objects = fields.texts();
  const mode = fields.choice(MODES);
  const permits = fields.count();
  const count = fields.count();
  const waitMs = fields.timeOrNull();
  const durationMs = fields.time();
  const unlockDurationMs = fields.time();
  const lockDelayMs = fields.time();
  const value = fields.textOrNull();
  const flags = fields.count();
  const agents = fields.textsOrNull();
  const commandLine = fields.textOrNull();
  const enteredMs = fields.time();
  const sinceMs = fields.time();
  const spec: LockSpec = {
    objects,
    mode,
    permits,
    count,
    waitMs,
    durationMs,
    unlockDurationMs,
    lockDelayMs,
    value,
    detached: (flags & FLAG.detached) !== 0,
    detectDeadlock: (flags & FLAG.detectDeadlock) !== 0,
    reportQueue: (flags & FLAG.reportQueue) !== 0,
    parents: [],
    ...(commandLine === null ? {} : { commandLine }),
  };
  const record: TicketRecord = { number, state, session, request, handle, spec, agents, enteredMs, sinceMs };
  if (state === "waiting") return record;
  const token = fields.count();
  const grantNumber = fields.count();
  const grantedMs = fields.time();
  const message = fields.count();
  const endMs = fields.time();
  const freeAtMs = state === "unlocking" ? fields.time() : 0;
  const lossReason = state === "unlocking" ? fields.choice(REASONS) : "timedout";
  const unheard = state === "unlocking" && (flags & FLAG.unheard) !== 0;
  return { ...record, held: { token, grantNumber, grantedMs, message, endMs, freeAtMs, lossReason, unheard } };
}

function decodeSession(id: string, key: string, fields: Fields): SessionRecord {
  const profile = new Fields(key, fields.bytes());
  const secretHash = profile.text();
  const holder: Holder = {
    name: profile.text(),
    host: profile.text(),
    pid: profile.count(),
    program: profile.text(),
    address: profile.text(),
  };
  const commandLine = profile.textOrNull();
  if (commandLine !== null) holder.commandLine = commandLine;
  return {
    id,
    secretHash,
    holder,
    generation: fields.count(),
    graceMs: fields.time(),
    connected: fields.flag(),
    ending: fields.choiceOrNull(ENDINGS),
    endReason: fields.text(),
    heardMs: fields.time(),
    message: fields.count(),
    lastGrant: fields.count(),
    renewedAtMs: fields.time(),
    renewedSeen: fields.count(),
  };
}

function numberIn(key: string): number {
  const digits = key.slice(2);
  const number = Number(digits);
  if (!/^[1-9][0-9]*$/.test(digits) || !Number.isSafeInteger(number)) throw corrupt(key, "no number in the key");
  return number;
}

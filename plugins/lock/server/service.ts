/**
 * The lock service of one node as clients see it: binds sessions to connections, turns frames into
 * commands of the engine and the engine's answers and effects into frames. Decides nothing about
 * locks; knows no storage.
 */
import { asLockdError, LockdError } from "../../../src/errors.ts";
import type { Connection } from "../../../src/wire/types.ts";
import type { Holder, LockAnswer, LockEffect, LockEvent } from "../core/types.ts";
import type { EngineListener, LockEngine } from "../engine.ts";
import { blockerBody, holderBody, lockedBody, sessionTicket } from "./bodies.ts";
import type { LockMetrics } from "./lock-metrics.ts";
import type { LockBodyParsed, RenewBodyParsed, SessionBodyParsed, UnlockBodyParsed } from "./requests.ts";

/** Random bytes of a handle: it suffices alone, so it must not be guessed. */
const HANDLE_BYTES = 18;
/** An answer to a request without a deadline of its own is waited for this long while not ready. */
const CONTROL_DEADLINE_MS = 10_000;

interface BoundSession {
  id: string;
  generation: number;
  connection: Connection;
  /** frame ids of LOCK requests that are not answered yet, by request */
  pending: Map<string, number>;
}

type Refusal = Extract<LockAnswer, { kind: "refused" }>;

export interface LockServiceOptions {
  engine: LockEngine;
  metrics: LockMetrics;
  random(count: number): Uint8Array;
  onEvents(events: readonly LockEvent[]): void;
}

export class LockService implements EngineListener {
  readonly #engine: LockEngine;
  readonly #metrics: LockMetrics;
  readonly #random: (count: number) => Uint8Array;
  readonly #onEvents: (events: readonly LockEvent[]) => void;
  readonly #sessions = new Map<string, BoundSession>();
  readonly #byConnection = new Map<Connection, BoundSession>();
  /** connections whose SESSION is not decided yet, and the frames that came behind it */
  readonly #opening = new Map<Connection, { id: number; proceed: () => void }[]>();

  constructor(options: LockServiceOptions) {
    this.#engine = options.engine;
    this.#metrics = options.metrics;
    this.#random = options.random;
    this.#onEvents = options.onEvents;
  }

  // ---- requests

  session(connection: Connection, id: number, body: SessionBodyParsed): void {
    const bound = this.#byConnection.get(connection);
    if (bound !== undefined) throw new LockdError("invalid", `open session: this connection carries session ${bound.id} already`);
    if (this.#opening.has(connection)) throw new LockdError("invalid", "open session: one is being opened on this connection");
    const { session, generation, graceMs } = body;
    const secretHash = new Bun.CryptoHasher("sha256").update(body.secret).digest("hex");
    this.#opening.set(connection, []);
    this.#engine.submit(
      { kind: "open", session, secretHash, generation, graceMs, holder: holderOf(connection) },
      CONTROL_DEADLINE_MS,
      (answer) => {
        if (answer.kind !== "opened") return sendError(connection, id, answer);
        const tickets = answer.tickets.map(sessionTicket);
        return connection.send("SESSION", id, { session, generation, grace: graceMs, resumed: answer.resumed, tickets });
      },
      (answer) => this.#opened({ id: session, generation, connection, pending: new Map() }, answer),
    );
  }

  /** The table has decided; what the client sent behind SESSION goes on now, before the answer is durable. */
  #opened(bound: BoundSession, answer: LockAnswer): void {
    const { connection } = bound;
    if (answer.kind === "opened") {
      if (connection.closed) {
        const { id: session, generation } = bound;
        this.#engine.submit({ kind: "disconnect", session, generation }, null, () => undefined);
      } else this.#bind(bound);
    }
    const waiting = this.#opening.get(connection) ?? [];
    this.#opening.delete(connection);
    for (const { id, proceed } of waiting) {
      try {
        proceed();
      } catch (thrown) {
        connection.send("ERROR", id, { ...asLockdError(thrown).toJSON() });
      }
    }
  }

  /** Runs `proceed` when the session that this connection is opening, if any, is open or refused. */
  #afterOpening(connection: Connection, id: number, proceed: () => void): void {
    const waiting = this.#opening.get(connection);
    if (waiting === undefined) proceed();
    else waiting.push({ id, proceed });
  }

  goodbye(connection: Connection, id: number): void {
    this.#afterOpening(connection, id, () => this.#goodbye(this.#bound(connection), id));
  }

  #goodbye(bound: BoundSession, id: number): void {
    const { connection } = bound;
    this.#engine.submit({ kind: "close", session: bound.id }, CONTROL_DEADLINE_MS, (answer) => {
      if (answer.kind === "refused") return sendError(connection, id, answer);
      this.#unbind(bound);
      return connection.send("GOODBYE", id, {});
    });
  }

  lock(connection: Connection, id: number, body: LockBodyParsed): void {
    this.#afterOpening(connection, id, () => this.#lock(this.#bound(connection), id, body));
  }

  #lock(bound: BoundSession, id: number, { request, spec }: LockBodyParsed): void {
    const { connection } = bound;
    bound.pending.set(request, id);
    // begins with a letter: a handle must not look like a flag on a command line
    const handle = `h${Buffer.from(this.#random(HANDLE_BYTES)).toString("base64url")}`;
    this.#engine.submit({ kind: "lock", session: bound.id, request, spec, handle, message: id }, spec.waitMs, (answer) => {
      if (answer.kind === "waiting") {
        if (spec.reportQueue) connection.send("QUEUE", 0, { request, position: answer.position });
        return;
      }
      if (bound.pending.get(request) === id) bound.pending.delete(request);
      if (answer.kind === "locked") {
        this.#metrics.granted();
        connection.send("LOCKED", id, { ...lockedBody(answer.grant) });
      } else if (answer.kind === "refused") {
        this.#metrics.failed(answer.code);
        this.#sendLockFailed(connection, id, request, answer);
      }
    });
  }

  renew(connection: Connection, id: number, body: RenewBodyParsed): void {
    if (body.kind === "handle") {
      this.#engine.submit({ kind: "renewHandle", handle: body.handle, durationMs: body.durationMs }, CONTROL_DEADLINE_MS, (answer) => {
        if (answer.kind !== "renewedHandle") return sendError(connection, id, answer);
        const { token, leftMs, durationMs, unlockDurationMs } = answer;
        const times = { left: leftMs, duration: durationMs, unlockDuration: unlockDurationMs };
        return connection.send("RENEWED", id, { token, ...times, processed: id });
      });
      return;
    }
    this.#afterOpening(connection, id, () => this.#renewSession(this.#bound(connection), id, body));
  }

  #renewSession(bound: BoundSession, id: number, body: Extract<RenewBodyParsed, { kind: "session" }>): void {
    const { connection } = bound;
    this.#engine.submit({ kind: "renew", session: bound.id, seen: body.seen, held: body.held, message: id }, null, (answer) => {
      if (answer.kind !== "renewed") return sendError(connection, id, answer);
      const { message, lost, mismatch } = answer;
      return connection.send("RENEWED", id, { processed: message, lost, mismatch });
    });
  }

  unlock(connection: Connection, id: number, body: UnlockBodyParsed): void {
    const answered = (answer: LockAnswer): void => {
      if (answer.kind !== "unlocked") return sendError(connection, id, answer);
      return connection.send("UNLOCKED", id, { token: answer.token, held: answer.held });
    };
    if (body.kind === "handle") {
      this.#engine.submit({ kind: "unlock", handle: body.handle }, CONTROL_DEADLINE_MS, answered);
      return;
    }
    this.#afterOpening(connection, id, () => this.#cancel(this.#bound(connection), id, body.request, answered));
  }

  #cancel(bound: BoundSession, id: number, request: string, answered: (answer: LockAnswer) => void): void {
    const { connection } = bound;
    this.#engine.submit({ kind: "cancel", session: bound.id, request, message: id }, CONTROL_DEADLINE_MS, (answer) => {
      const waitingId = bound.pending.get(request);
      if (waitingId !== undefined && answer.kind === "unlocked") {
        bound.pending.delete(request);
        connection.send("LOCKFAILED", waitingId, { request, code: "cancelled", message: "the request was cancelled" });
      }
      answered(answer);
    });
  }

  release(connection: Connection, id: number, body: { object: string; token: number; reason: string }): void {
    this.#engine.submit({ kind: "release", ...body, by: describeClient(connection) }, CONTROL_DEADLINE_MS, (answer) => {
      if (answer.kind !== "releasing") return sendError(connection, id, answer);
      return connection.send("RELEASING", id, { holder: holderBody(answer.holder, answer.session), freeIn: answer.freeMs });
    });
  }

  kick(connection: Connection, id: number, body: { session: string; reason: string }): void {
    this.#engine.submit({ kind: "kick", ...body, by: describeClient(connection) }, CONTROL_DEADLINE_MS, (answer) => {
      if (answer.kind !== "kicked") return sendError(connection, id, answer);
      return connection.send("KICKED", id, { tickets: answer.tickets });
    });
  }

  // ---- the engine's side

  effect(effect: LockEffect): void {
    switch (effect.kind) {
      case "locked":
        this.#metrics.granted();
        this.#answerLock(effect.grant.session, effect.grant.request, "LOCKED", { ...lockedBody(effect.grant) });
        break;
      case "lockfailed": {
        const { session, request, code, message } = effect;
        this.#metrics.failed(code);
        this.#answerLock(session, request, "LOCKFAILED", { request, code, message });
        break;
      }
      case "unlocking": {
        const { session, request, token, leftMs, reason } = effect;
        this.#push(session, "UNLOCKING", { request, token, left: leftMs, reason });
        break;
      }
      case "unlocked": {
        const { session, request, token, reason } = effect;
        this.#metrics.lost(reason);
        this.#push(session, "UNLOCKED", { request, token, reason });
        break;
      }
      case "queue":
        this.#push(effect.session, "QUEUE", { request: effect.request, position: effect.position });
        break;
    }
  }

  events(events: readonly LockEvent[]): void {
    this.#metrics.events(events);
    this.#onEvents(events);
  }

  reset(reason: string): void {
    for (const bound of [...this.#sessions.values()]) {
      this.#forget(bound);
      bound.connection.closeWith("unavailable", reason);
    }
  }

  // ---- bindings

  #bind(bound: BoundSession): void {
    const earlier = this.#sessions.get(bound.id);
    if (earlier !== undefined) {
      this.#forget(earlier);
      earlier.connection.closeWith("denied", "the session goes on over a newer connection");
    }
    this.#sessions.set(bound.id, bound);
    this.#byConnection.set(bound.connection, bound);
    bound.connection.onClose(() => {
      if (this.#byConnection.get(bound.connection) === bound) this.#unbind(bound);
    });
  }

  /** The connection no longer carries the session: the table has to know, unless a newer one took over. */
  #unbind(bound: BoundSession): void {
    this.#forget(bound);
    this.#engine.submit({ kind: "disconnect", session: bound.id, generation: bound.generation }, null, () => undefined);
  }

  #forget(bound: BoundSession): void {
    this.#byConnection.delete(bound.connection);
    if (this.#sessions.get(bound.id) === bound) this.#sessions.delete(bound.id);
  }

  #bound(connection: Connection): BoundSession {
    const bound = this.#byConnection.get(connection);
    if (bound === undefined) throw new LockdError("invalid", "this request needs a session: send SESSION first");
    return bound;
  }

  /** An answer that comes later than its request, or a push when the request came over an older connection. */
  #answerLock(session: string, request: string, type: string, body: Readonly<Record<string, unknown>>): void {
    const bound = this.#sessions.get(session);
    if (bound === undefined) return;
    const frameId = bound.pending.get(request) ?? 0;
    bound.pending.delete(request);
    bound.connection.send(type, frameId, body);
  }

  #push(session: string, type: string, body: Readonly<Record<string, unknown>>): void {
    this.#sessions.get(session)?.connection.send(type, 0, body);
  }

  #sendLockFailed(connection: Connection, id: number, request: string, refusal: Refusal): void {
    const { code, message, blockers, position } = refusal;
    if (blockers === undefined || blockers.length === 0) {
      connection.send("LOCKFAILED", id, { request, code, message });
      return;
    }
    this.#engine.read(
      () => null,
      (_nothing, at) => {
        const holders = blockers.map((blocker) => blockerBody(blocker, at));
        connection.send("LOCKFAILED", id, { request, code, message, holders, ...(position === undefined ? {} : { position }) });
      },
    );
  }
}

function holderOf(connection: Connection): Holder {
  const { name, host, pid, program, address } = connection.identity;
  return { name, host, pid, program, address };
}

function describeClient(connection: Connection): string {
  const { name, host, pid } = connection.identity;
  return `${name} on ${host}, pid ${pid}`;
}

function sendError(connection: Connection, id: number, answer: LockAnswer): void {
  if (answer.kind !== "refused") throw new LockdError("failed", `the lock engine answered ${answer.kind} to another command`);
  const { code, message } = answer;
  connection.send("ERROR", id, { code, message, retryable: code === "unavailable" || code === "overflow" });
}

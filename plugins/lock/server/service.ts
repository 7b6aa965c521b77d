/**
 * The lock service of one node as clients see it: turns frames into commands of the engine and the
 * engine's answers and effects into frames. Decides nothing about locks; knows no storage. Which
 * connection carries which session is kept in session-bindings.ts.
 */
import type { Clock, Timer, Timers } from "../../../src/clock/clock.ts";
import { asLockdError, LockdError } from "../../../src/errors.ts";
import { errorBody } from "../../../src/wire/error-body.ts";
import type { Body, Connection } from "../../../src/wire/types.ts";
import type { Blocker, Holder, Instant, LockAnswer, LockCommand, LockEffect, LockEvent } from "../core/types.ts";
import type { AnswerListener, EngineListener, LockEngine } from "../engine.ts";
import { blockerBody, holderBody, lockedBody, sessionTicket } from "./bodies.ts";
import type { LockMetrics } from "./lock-metrics.ts";
import type { LockBodyParsed, RenewBodyParsed, SessionBodyParsed, UnlockBodyParsed } from "./requests.ts";
import { type BoundSession, SessionBindings } from "./session-bindings.ts";

/** Random bytes of a handle: it suffices alone, so it must not be guessed. */
const HANDLE_BYTES = 18;
/** Random bytes are drawn for so many handles at a time. */
const HANDLES_DRAWN = 256;
/** An answer to a request without a deadline of its own is waited for this long while not ready. */
const CONTROL_DEADLINE_MS = 10_000;

export interface LockServiceOptions {
  engine: LockEngine;
  metrics: LockMetrics;
  clock: Pick<Clock, "monotonicMs">;
  timers: Timers;
  random(count: number): Uint8Array;
  onEvents(events: readonly LockEvent[]): void;
}

export class LockService implements EngineListener {
  readonly #engine: LockEngine;
  readonly #metrics: LockMetrics;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #timers: Timers;
  readonly #random: (count: number) => Uint8Array;
  readonly #onEvents: (events: readonly LockEvent[]) => void;
  readonly #bindings: SessionBindings;
  #handleBytes: Uint8Array = new Uint8Array(0);

  constructor(options: LockServiceOptions) {
    this.#engine = options.engine;
    this.#metrics = options.metrics;
    this.#clock = options.clock;
    this.#timers = options.timers;
    this.#random = options.random;
    this.#onEvents = options.onEvents;
    this.#bindings = new SessionBindings(({ id: session, generation }) => {
      this.#engine.submit({ kind: "disconnect", session, generation }, null, () => undefined);
    });
  }

  // ---- requests

  session(connection: Connection, id: number, body: SessionBodyParsed): void {
    this.#bindings.beginOpening(connection);
    const { session, generation, graceMs } = body;
    const secretHash = new Bun.CryptoHasher("sha256").update(body.secret).digest("hex");
    this.#engine.submit(
      { kind: "open", session, secretHash, generation, graceMs, holder: holderOf(connection) },
      CONTROL_DEADLINE_MS,
      answering(connection, id, "opened", ({ resumed, tickets }) => {
        answer(connection, id, "SESSION", { session, generation, grace: graceMs, resumed, tickets: tickets.map(sessionTicket) });
      }, () => this.#bindings.endOpening(connection)),
      // what the client sent behind SESSION goes on at once; when it is refused, only after that is told
      ({ kind }) => {
        if (kind !== "opened") return;
        this.#bindings.bind({ id: session, generation, connection, pending: new Map() });
        this.#bindings.endOpening(connection);
      },
    );
  }

  goodbye(connection: Connection, id: number): void {
    this.#bindings.afterOpening(connection, id, () => this.#goodbye(this.#bindings.of(connection), id));
  }

  #goodbye(bound: BoundSession, id: number): void {
    const { connection, pending } = bound;
    // what comes behind it is refused by the table
    const before = [...pending];
    this.#submit(connection, id, { kind: "close", session: bound.id }, "done", () => {
      for (const [request, lockId] of before) {
        if (pending.get(request) !== lockId) continue;
        pending.delete(request);
        connection.send("LOCKFAILED", lockId, { request, code: "cancelled", message: "the session was closed" });
      }
      this.#bindings.forget(bound);
      answer(connection, id, "GOODBYE", {});
    });
  }

  lock(connection: Connection, id: number, body: LockBodyParsed): void {
    if (this.#bindings.isOpening(connection)) this.#lockAfterOpening(connection, id, body);
    else this.#lock(this.#bindings.of(connection), id, body);
  }

  /** It may not have what it asks for, whatever its state. */
  refuseLock(connection: Connection, id: number, { request, refusal }: { request: string; refusal: LockdError }): void {
    const { code, message } = refusal;
    this.#metrics.failed(code);
    connection.send("LOCKFAILED", id, { request, code, message });
  }

  /** The session is not decided because the engine is not ready: the wait runs all the same. */
  #lockAfterOpening(connection: Connection, id: number, { request, spec }: LockBodyParsed): void {
    const { waitMs } = spec;
    const sinceMs = this.#clock.monotonicMs();
    let late = false;
    let timer: Timer | null = null;
    this.#bindings.afterOpening(connection, id, () => {
      if (late) return;
      timer?.cancel();
      const leftMs = waitMs === null ? null : Math.max(0, waitMs - Math.ceil(this.#clock.monotonicMs() - sinceMs));
      this.#lock(this.#bindings.of(connection), id, { request, spec: { ...spec, waitMs: leftMs } });
    });
    if (waitMs === null) return;
    timer = this.#timers.after(waitMs, () => {
      late = true;
      const message = this.#engine.status().reason ?? "the session was not opened in time";
      this.#metrics.failed("unavailable");
      connection.send("LOCKFAILED", id, { request, code: "unavailable", message });
    });
  }

  #lock(bound: BoundSession, id: number, { request, spec }: LockBodyParsed): void {
    const { connection, pending } = bound;
    pending.set(request, id);
    const command: LockCommand = { kind: "lock", session: bound.id, request, spec, handle: this.#newHandle(), message: id };
    this.#engine.submit(command, spec.waitMs, (told, at) => {
      if (told.kind === "waiting") {
        if (spec.reportQueue) connection.send("QUEUE", 0, { request, position: told.position });
        return;
      }
      if (pending.get(request) === id) pending.delete(request);
      if (told.kind === "locked") {
        this.#metrics.granted();
        connection.send("LOCKED", id, lockedBody(told.grant));
      } else if (told.kind === "refused") {
        this.#metrics.failed(told.code);
        connection.send("LOCKFAILED", id, lockFailedBody(request, told, at));
      }
    });
  }

  renew(connection: Connection, id: number, body: RenewBodyParsed): void {
    if (body.kind === "session") {
      this.#bindings.afterOpening(connection, id, () => this.#renewSession(this.#bindings.of(connection), id, body));
      return;
    }
    const { kind: _, ...renewal } = body;
    this.#submit(connection, id, { kind: "renewHandle", ...renewal }, "renewedHandle", (renewed) => {
      answer(connection, id, "RENEWED", {
        token: renewed.token,
        left: renewed.leftMs,
        duration: renewed.durationMs,
        unlockDuration: renewed.unlockDurationMs,
        processed: id,
      });
    });
  }

  #renewSession({ connection, id: session }: BoundSession, id: number, { seen, held }: Extract<RenewBodyParsed, { kind: "session" }>): void {
    this.#submit(connection, id, { kind: "renew", session, seen, held, message: id }, "renewed", ({ message, lost, mismatch }) => {
      answer(connection, id, "RENEWED", { processed: message, lost, mismatch });
    });
  }

  unlock(connection: Connection, id: number, body: UnlockBodyParsed): void {
    const unlock = (command: LockCommand): void =>
      this.#submit(connection, id, command, "unlocked", ({ token, held }) => answer(connection, id, "UNLOCKED", { token, held }));
    if (body.kind === "handle") {
      // who has no session is not the one that owns the lock, so the owner is told
      this.#bindings.afterOpening(connection, id, () => {
        unlock({ kind: "unlock", handle: body.handle, by: this.#bindings.find(connection)?.id ?? "" });
      });
      return;
    }
    // a LOCK that waited is answered by the table's own lockfailed, which follows
    const { request } = body;
    this.#bindings.afterOpening(connection, id, () => {
      unlock({ kind: "cancel", session: this.#bindings.of(connection).id, request, message: id });
    });
  }

  release(connection: Connection, id: number, body: { object: string; token: number; reason: string; dead: boolean }): void {
    const command: LockCommand = { kind: "release", ...body, by: describeClient(connection) };
    this.#submit(connection, id, command, "releasing", ({ holder, session, freeMs }) => {
      answer(connection, id, "RELEASING", { holder: holderBody(holder, session), freeIn: freeMs });
    });
  }

  kick(connection: Connection, id: number, body: { session: string; reason: string; dead: boolean }): void {
    const command: LockCommand = { kind: "kick", ...body, by: describeClient(connection) };
    this.#submit(connection, id, command, "kicked", ({ tickets }) => answer(connection, id, "KICKED", { tickets }));
  }

  #submit<K extends LockAnswer["kind"]>(
    connection: Connection,
    id: number,
    command: LockCommand,
    expected: K,
    tell: (answer: Extract<LockAnswer, { kind: K }>) => void,
  ): void {
    this.#engine.submit(command, CONTROL_DEADLINE_MS, answering(connection, id, expected, tell));
  }

  /** Begins with a letter: a handle must not look like a flag on a command line. */
  #newHandle(): string {
    if (this.#handleBytes.length < HANDLE_BYTES) this.#handleBytes = this.#random(HANDLE_BYTES * HANDLES_DRAWN);
    const bytes = this.#handleBytes.subarray(0, HANDLE_BYTES);
    this.#handleBytes = this.#handleBytes.subarray(HANDLE_BYTES);
    return `h${Buffer.from(bytes.buffer, bytes.byteOffset, HANDLE_BYTES).toString("base64url")}`;
  }

  // ---- the engine's side

  effect(effect: LockEffect, at: Instant): void {
    switch (effect.kind) {
      case "locked":
        this.#metrics.granted();
        this.#answerLock(effect.grant.session, effect.grant.request, "LOCKED", lockedBody(effect.grant));
        break;
      case "lockfailed":
        this.#metrics.failed(effect.code);
        this.#answerLock(effect.session, effect.request, "LOCKFAILED", lockFailedBody(effect.request, effect, at));
        break;
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
    this.#bindings.reset(reason);
  }

  /** An answer that comes later than its request, or a push when the request came over an older connection. */
  #answerLock(session: string, request: string, type: string, body: Body): void {
    const bound = this.#bindings.bySession(session);
    if (bound === undefined) return;
    const frameId = bound.pending.get(request) ?? 0;
    bound.pending.delete(request);
    bound.connection.send(type, frameId, body);
  }

  #push(session: string, type: string, body: Body): void {
    this.#bindings.bySession(session)?.connection.send(type, 0, body);
  }
}

function lockFailedBody(
  request: string,
  failure: { code: string; message: string; blockers?: readonly Blocker[]; position?: number },
  at: Instant,
): Body {
  const { code, message, blockers, position } = failure;
  return {
    request,
    code,
    message,
    ...(blockers === undefined || blockers.length === 0 ? {} : { holders: blockers.map((blocker) => blockerBody(blocker, at)) }),
    ...(position === undefined ? {} : { position }),
  };
}

/** A frame with id 0 wants no answer, and one with id 0 would be taken for a push. */
function answer(connection: Connection, id: number, type: string, body: Body): void {
  if (id !== 0) connection.send(type, id, body);
}

/** Tells the expected answer, or why there is none; what cannot be sent becomes an error, too. `finish` runs after it. */
function answering<K extends LockAnswer["kind"]>(
  connection: Connection,
  id: number,
  expected: K,
  tell: (answer: Extract<LockAnswer, { kind: K }>) => void,
  finish: () => void = () => undefined,
): AnswerListener {
  const isExpected = (told: LockAnswer): told is Extract<LockAnswer, { kind: K }> => told.kind === expected;
  return (told) => {
    try {
      if (isExpected(told)) tell(told);
      else if (told.kind === "refused") {
        const { code, message } = told;
        answer(connection, id, "ERROR", { code, message, retryable: code === "unavailable" || code === "overflow" });
      } else throw new LockdError("failed", `the lock engine answered ${told.kind} where ${expected} belongs`);
    } catch (thrown) {
      answer(connection, id, "ERROR", errorBody(asLockdError(thrown)));
    }
    finish();
  };
}

function holderOf(connection: Connection): Holder {
  const { name, host, pid, program, address } = connection.identity;
  return { name, host, pid, program, address };
}

function describeClient(connection: Connection): string {
  const { name, host, pid } = connection.identity;
  return `${name} on ${host}, pid ${pid}`;
}

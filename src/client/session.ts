/**
 * The session as a state machine: it is opened, goes on over other connections, and is told what the
 * server says. Frames, calls and times go in; effects come out. Imports no socket, clock or random
 * source. All times are milliseconds of the lease clock (lease-clock.ts).
 */
import { assert, LockdError } from "../errors.ts";
import type { Body, Frame } from "../wire/types.ts";
import {
  errorOf,
  parseLocked,
  parseLockFailed,
  parseQueuePush,
  parseSessionAnswer,
  parseUnlockedPush,
  parseUnlockingPush,
} from "./answers.ts";
import { LockFailedError, type LostReason, lostReason } from "./errors.ts";
import { usableMs } from "./lease-clock.ts";
import { type FrameSender, Outbox } from "./outbox.ts";
import type { LockedBody, SessionTicket, UnlockingPush } from "./protocol.ts";
import { Renewals } from "./renewals.ts";
import type { LockBody, Ticket, TicketWaiter } from "./ticket.ts";
import { objectsOf, TicketTable } from "./ticket-table.ts";

/** SESSION not answered for this long: another connection is tried. */
const OPEN_MS_MAX = 3000;

export interface SessionIdentity {
  session: string;
  secret: Uint8Array;
}

/** `send` is called only between `connected` and `disconnected`. */
export interface SessionEffects extends FrameSender {
  /** the connection is of no use for this session: take another one */
  reconnect(reason: LockdError): void;
  /** a fresh random session id and secret */
  newIdentity(): SessionIdentity;
  /** 0 <= random < 1, spreads renewals */
  random(): number;
  /** why there is no connection; null when there is one or it is not known */
  unreachable(): LockdError | null;
  /** the last request is done: nothing waits, nothing is held */
  idle(): void;
}

/**
 * away: no connection. idle: connected, no session wanted. opening: SESSION is under way.
 * open: the server knows this connection as the session's.
 */
type SessionState = "away" | "idle" | "opening" | "open";

export class Session {
  readonly #effects: SessionEffects;
  readonly #graceMs: number;
  readonly #outbox: Outbox;
  readonly #table: TicketTable;
  readonly #renewals: Renewals;
  #identity: SessionIdentity;
  #generation = 0;
  #state: SessionState = "away";
  #openingSinceMs = 0;
  /** frame id of the SESSION that was not answered yet, 0: none */
  #sessionId = 0;

  constructor(effects: SessionEffects, options: { graceMs: number }) {
    this.#effects = effects;
    this.#graceMs = options.graceMs;
    this.#identity = effects.newIdentity();
    this.#outbox = new Outbox(effects);
    this.#table = new TicketTable({
      outbox: this.#outbox,
      graceMs: options.graceMs,
      unreachable: () => effects.unreachable(),
      busy: (nowMs) => this.#renewals.start(nowMs),
      idle: () => {
        this.#renewals.stop();
        effects.idle();
      },
    });
    this.#renewals = new Renewals({
      table: this.#table,
      outbox: this.#outbox,
      graceMs: options.graceMs,
      random: () => effects.random(),
    });
  }

  /** Public id of the session; changes only when a server refuses to go on with it. */
  get id(): string {
    return this.#identity.session;
  }

  /** Whether anything waits, is held or is being given back, so that a connection is wanted. */
  get active(): boolean {
    return this.#table.size > 0;
  }

  /** Whether some server may know this session, so that it should be told when the client ends. */
  get opened(): boolean {
    return this.#generation > 0;
  }

  /** Whether anything is claimed to be held, so that the clock must be watched. */
  get holding(): boolean {
    return this.#table.holdings.count > 0;
  }

  /** When `tick` has something to do next. */
  get dueMs(): number {
    const deadlineMs = this.#table.dueMs;
    if (this.#state === "open") return Math.min(deadlineMs, this.#renewals.dueMs);
    if (this.#state === "opening") return Math.min(deadlineMs, this.#openingSinceMs + OPEN_MS_MAX);
    return deadlineMs;
  }

  // Calls of the program.

  /** Asks for a lock; the waiter hears what becomes of it. `waitMs` null: without end. */
  lock(spec: Omit<LockBody, "request" | "wait">, waitMs: number | null, waiter: TicketWaiter, nowMs: number): Ticket {
    const ticket = this.#table.add(spec, waitMs, waiter, nowMs);
    if (this.#state === "idle") this.#open(nowMs);
    else if (this.#state !== "away") this.#table.sendLock(ticket, nowMs);
    return ticket;
  }

  /** Withdraws a request that waits; its waiter hears `error` when the server has forgotten it, or after a second. */
  cancel(ticket: Ticket, error: LockdError, nowMs: number): void {
    const { phase } = ticket;
    if (phase === "queued" || phase === "sent" || phase === "unconfirmed") this.#table.giveUp(ticket, error, nowMs);
  }

  /** Gives a lock back; its holder hears `released`. No RENEW claims it from now on. */
  release(ticket: Ticket, nowMs: number): void {
    if (ticket.phase === "held" || ticket.phase === "lost") this.#table.release(ticket, nowMs);
    else assert(ticket.phase === "done", "only what was granted is released, and once");
  }

  /** Gives back all that this session holds or waits for; `idle` follows when the server has confirmed it. */
  releaseAll(nowMs: number): void {
    for (const ticket of this.#table.all()) {
      if (ticket.phase === "held" || ticket.phase === "lost") {
        if (ticket.detached) this.#table.finish(ticket);
        else this.#table.release(ticket, nowMs);
      } else this.cancel(ticket, new LockdError("cancelled", `lock ${objectsOf(ticket)}: the client was closed`), nowMs);
    }
  }

  // The connection.

  connected(nowMs: number): void {
    assert(this.#state === "away", "a session has one connection");
    this.#state = "idle";
    if (this.active) this.#open(nowMs);
  }

  disconnected(): void {
    this.#state = "away";
    this.#sessionId = 0;
    this.#renewals.disconnected();
    this.#table.detach();
  }

  /** Lets time act: deadlines that passed, renewals that are due. `nowMs` must be a fresh reading. */
  tick(nowMs: number): void {
    const expired: LostReason = this.#state !== "open" || this.#renewals.unanswered ? "unreachable" : "expired";
    this.#table.expireDue(expired, nowMs);
    if (this.#state === "opening" && nowMs >= this.#openingSinceMs + OPEN_MS_MAX) {
      this.#effects.reconnect(new LockdError("unavailable", `open session: not answered within ${OPEN_MS_MAX} ms`));
    }
    if (this.#state === "open" && nowMs >= this.#renewals.dueMs) {
      this.#table.sendPostponed(nowMs);
      this.#renewals.send(nowMs);
    }
  }

  /** Takes a frame of the connection. Throws LockdError `protocol` when it is malformed. */
  frame(frame: Frame, nowMs: number): void {
    const { type, id, body } = frame;
    switch (type) {
      case "LOCKED":
        this.#onLocked(parseLocked(body), nowMs);
        break;
      case "UNLOCKED":
        if (id === 0) this.#onTakenBack(parseUnlockedPush(body), nowMs);
        else this.#onUnlocked(id);
        break;
      case "RENEWED":
        this.#renewals.answered(id, body, nowMs);
        break;
      case "LOCKFAILED":
        this.#onLockFailed(id, body, nowMs);
        break;
      case "ERROR":
        this.#onError(id, errorOf(body, "the server"), nowMs);
        break;
      case "UNKNOWN":
        this.#onError(id, new LockdError("protocol", "ask for a lock: this server does not serve locks"), nowMs);
        break;
      case "UNLOCKING":
        this.#onUnlocking(parseUnlockingPush(body), nowMs);
        break;
      case "QUEUE": {
        const { request, position } = parseQueuePush(body);
        this.#table.byRequest(request)?.waiter?.queued(position);
        break;
      }
      case "SESSION":
        if (id === this.#sessionId) this.#onSession(body, nowMs);
        break;
      default:
        // a push of a newer server
        break;
    }
  }

  // Answers and pushes.

  #onLocked(grant: LockedBody, nowMs: number): void {
    const ticket = this.#table.byRequest(grant.request);
    if (ticket !== undefined) this.#granted(ticket, grant, nowMs);
    else {
      // late, for a request that was given up
      this.#renewals.see(grant);
      this.#table.refuseGrant(grant.handle, nowMs);
    }
  }

  #granted(ticket: Ticket, grant: LockedBody, nowMs: number): void {
    const usable = this.#renewals.see(grant);
    // repeated, or given up meanwhile: then its UNLOCK is on its way or will be
    if (ticket.phase !== "sent") return;
    const deadlineMs = this.#outbox.sentMs(grant.processed) + usableMs(grant.left);
    if (!usable || (ticket.detached && deadlineMs <= nowMs)) {
      this.#table.refuseGrant(grant.handle, nowMs);
      this.#table.reissue(ticket, nowMs);
      return;
    }
    ticket.grant = grant;
    ticket.deadlineMs = deadlineMs;
    ticket.knownAtId = this.#outbox.lastId;
    if (!ticket.detached) this.#renewals.claim(ticket, grant, nowMs);
    if (deadlineMs > nowMs) this.#table.hold(ticket);
    else ticket.phase = "unconfirmed";
  }

  #onUnlocked(id: number): void {
    const ticket = this.#table.byFrame(id);
    if (ticket !== undefined && id === ticket.unlockId) this.#table.unlocked(ticket, null);
  }

  #onLockFailed(id: number, body: Body, nowMs: number): void {
    const failed = parseLockFailed(body);
    const details = { holders: failed.holders ?? [], position: failed.position ?? null };
    const error = new LockFailedError(failed.code, failed.message, details);
    const asked = this.#table.byFrame(id);
    const ticket = asked ?? this.#table.byRequest(failed.request);
    if (ticket === undefined) this.#onError(id, error, nowMs);
    else if (asked !== undefined && id === ticket.unlockId) this.#table.unlockRefused(ticket, error);
    else this.#onLockRefused(ticket, error, nowMs);
  }

  #onError(id: number, error: LockdError, nowMs: number): void {
    const ticket = this.#table.byFrame(id);
    if (id !== 0 && id === this.#sessionId) this.#onSessionRefused(error, nowMs);
    else if (this.#renewals.refused(id)) {
      // the session is not known there any more; after any other failure the next RENEW may do better
      if (error.code === "notfound" || error.code === "denied") this.#effects.reconnect(error);
    } else if (ticket === undefined) return;
    else if (id === ticket.unlockId) this.#table.unlockRefused(ticket, error);
    // surely not done and not final: this server is leaving, or not ready
    else if (error.code === "unavailable" && ticket.phase === "sent") this.#table.postpone(ticket);
    else this.#onLockRefused(ticket, error, nowMs);
  }

  #onLockRefused(ticket: Ticket, error: LockdError, nowMs: number): void {
    if (ticket.phase === "sent" && error.code === "notfound") {
      // the session was ended there; it is opened anew over another connection
      this.#table.postpone(ticket);
      this.#effects.reconnect(error);
      return;
    }
    // granted, and ended before this client heard of it
    if (ticket.phase === "sent" && error.code === "lost") this.#missedGrant(ticket, nowMs);
    else if (ticket.phase === "sent" || ticket.phase === "unconfirmed") this.#table.fail(ticket, error);
    else if (ticket.phase === "cancelling") this.#table.unlocked(ticket, null);
  }

  #onUnlocking(push: UnlockingPush, nowMs: number): void {
    this.#onTakenBack(push, nowMs);
    // by force: the server waits for a RENEW without the lock, lest it count on a lease that nobody claims
    if (lostReason(push.reason) === "forced" && this.active) this.#renewals.hasten(nowMs);
  }

  #onTakenBack(push: { request: string; token: number; reason: string }, nowMs: number): void {
    const ticket = this.#table.byRequest(push.request);
    if (ticket === undefined) return;
    if (ticket.grant?.token === push.token) this.#table.takenBack(ticket, lostReason(push.reason), nowMs);
    else if (ticket.phase === "sent") this.#missedGrant(ticket, nowMs);
  }

  /** A LOCKED that never arrived has run out: what is left of it is withdrawn, and the lock asked for anew. */
  #missedGrant(ticket: Ticket, nowMs: number): void {
    this.#outbox.send("UNLOCK", { request: ticket.body.request }, nowMs);
    this.#table.reissue(ticket, nowMs);
  }

  // Opening and taking over.

  #open(nowMs: number): void {
    this.#generation += 1;
    this.#state = "opening";
    this.#openingSinceMs = nowMs;
    const { session, secret } = this.#identity;
    const body = { session, secret, generation: this.#generation, grace: this.#graceMs };
    this.#sessionId = this.#outbox.send("SESSION", body, nowMs);
    this.#table.attach();
    // what was never sent cannot be known to the server: it need not wait for the list
    for (const ticket of this.#table.all()) if (ticket.phase === "queued") this.#table.sendLock(ticket, nowMs);
  }

  #onSession(body: Body, nowMs: number): void {
    const answer = parseSessionAnswer(body);
    const sessionId = this.#sessionId;
    this.#sessionId = 0;
    this.#state = "open";
    const listed = new Map(answer.tickets.map((ticket) => [ticket.request, ticket]));
    for (const ticket of this.#table.all()) {
      const entry = listed.get(ticket.body.request);
      listed.delete(ticket.body.request);
      // what was asked behind SESSION is not part of the take-over
      if (ticket.lockId < sessionId) this.#takeOver(ticket, entry, nowMs);
    }
    for (const { request, grant } of listed.values()) {
      this.#outbox.send("UNLOCK", grant === undefined ? { request } : { handle: grant.handle }, nowMs);
    }
    // whatever is held has been waiting for its renewal since the connection broke
    if (this.active && this.#generation > 1) this.#renewals.send(nowMs);
  }

  #takeOver(ticket: Ticket, listed: SessionTicket | undefined, nowMs: number): void {
    const held = listed?.state === "locked";
    switch (ticket.phase) {
      case "queued":
        this.#table.sendLock(ticket, nowMs);
        break;
      case "sent":
        if (listed === undefined) this.#table.sendLock(ticket, nowMs);
        else if (listed.state === "unlocking") this.#missedGrant(ticket, nowMs);
        else if (listed.grant !== undefined) this.#granted(ticket, listed.grant, nowMs);
        break;
      case "unconfirmed":
      case "held":
        // a detached lock belongs to its handle and need not be listed
        if (!held && !(ticket.detached && listed === undefined)) {
          this.#table.takenBack(ticket, listed === undefined ? "revoked" : "expired", nowMs);
        }
        break;
      case "lost":
        if (!held) this.#table.holdings.remove(ticket);
        break;
      case "releasing":
        this.#table.sendUnlock(ticket, nowMs);
        break;
      case "cancelling":
        if (listed === undefined) this.#table.unlocked(ticket, null);
        else this.#table.sendUnlock(ticket, nowMs);
        break;
      case "done":
        assert(false, "what is done is not kept");
    }
  }

  #onSessionRefused(error: LockdError, nowMs: number): void {
    this.#sessionId = 0;
    this.#table.forgetFrames();
    if (error.retryable || error.code === "unavailable") this.#effects.reconnect(error);
    else if (this.#generation > 1 && (error.code === "denied" || error.code === "notfound")) this.#startOver(nowMs);
    else {
      for (const ticket of this.#table.all()) if (ticket.waiter !== null) this.#table.fail(ticket, error);
      this.#effects.reconnect(error);
    }
  }

  /** The server does not let this session go on: what it held is lost, what it waited for is asked by a new one. */
  #startOver(nowMs: number): void {
    this.#state = "idle";
    this.#table.detach();
    this.#identity = this.#effects.newIdentity();
    this.#generation = 0;
    this.#renewals.reset();
    for (const ticket of this.#table.all()) {
      if (ticket.phase === "sent" || ticket.phase === "unconfirmed") this.#table.reissue(ticket, nowMs);
      else if (ticket.phase === "held" && !ticket.detached) this.#table.takenBack(ticket, "revoked", nowMs);
      else if (ticket.phase === "lost") this.#table.holdings.remove(ticket);
      else if (ticket.phase === "cancelling") this.#table.unlocked(ticket, null);
    }
    if (this.active) this.#open(nowMs);
  }
}

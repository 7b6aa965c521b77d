/**
 * The session as a state machine: which requests exist, what is held until when, what is sent, renewed
 * and taken over. Frames, calls and times go in; effects come out. Imports no socket, clock or random
 * source. All times are milliseconds of the lease clock (lease-clock.ts).
 */
import { assert, LockdError } from "../errors.ts";
import type { Body, Frame } from "../wire/types.ts";
import {
  errorOf,
  parseLocked,
  parseLockFailed,
  parseQueuePush,
  parseRenewed,
  parseSessionAnswer,
  parseUnlockedPush,
  parseUnlockingPush,
} from "./answers.ts";
import { DeadlineHeap } from "./deadline-heap.ts";
import { LockFailedError, LockLostError, type LostReason } from "./errors.ts";
import { SendTimes, usableMs } from "./lease-clock.ts";
import { DEFAULTS, type LockedBody, type RenewSessionRequest, type SessionTicket } from "./protocol.ts";
import { Holdings, type LockBody, Ticket, type TicketWaiter } from "./ticket.ts";

/** The server answers a LOCK by its deadline plus one second; after that nobody will. */
const ANSWER_SLACK_MS = 1000;
/** How long a cancelled caller waits for the server to confirm that the ticket is gone. */
const CANCEL_CONFIRM_MS = 1000;
/** SESSION not answered for this long: another connection is tried. */
const OPEN_MS_MAX = 3000;
/** RENEWs whose answers may be outstanding; an older one is forgotten. */
const RENEWALS_MAX = 32;

export interface SessionIdentity {
  session: string;
  secret: Uint8Array;
}

export interface SessionEffects {
  nextFrameId(): number;
  /** called only between `connected` and `disconnected` */
  send(type: string, id: number, body: Body): void;
  /** the connection is of no use for this session: take another one */
  reconnect(reason: LockdError): void;
  /** a fresh random session id and secret */
  newIdentity(): SessionIdentity;
  /** 0 <= random < 1, spreads renewals */
  random(): number;
  /** why there is no connection, null when it is not known */
  unreachable(): LockdError | null;
  /** the last request is done: nothing waits, nothing is held */
  idle(): void;
}

/**
 * away: no connection. idle: connected, no session wanted. opening: SESSION is under way.
 * open: the server knows this connection as the session's.
 */
type SessionState = "away" | "idle" | "opening" | "open";

interface Renewal {
  /** tokens were listed: the server takes back what is not among them */
  listed: boolean;
}

export class Session {
  readonly #effects: SessionEffects;
  readonly #graceMs: number;
  #identity: SessionIdentity;
  #generation = 0;
  #state: SessionState = "away";
  #openingSinceMs = 0;
  /** every request that is not done, by request id */
  readonly #tickets = new Map<string, Ticket>();
  #requestCount = 0;
  readonly #holdings = new Holdings();
  readonly #deadlines = new DeadlineHeap<Ticket>();
  readonly #sendTimes = new SendTimes();
  /** frames of this connection that wait for an answer: LOCK and UNLOCK */
  readonly #asked = new Map<number, Ticket>();
  readonly #renewals = new Map<number, Renewal>();
  #sessionId = 0;
  #lastId = 0;
  #renewAtMs = Number.POSITIVE_INFINITY;
  /** newest grant number processed */
  #seen = 0;
  /** grants up to this number that are not in a list already sent are disowned: never to be accepted */
  #disownedThrough = 0;
  #shortestDurationMs = Number.POSITIVE_INFINITY;
  /** something must be sent again that no answer will trigger */
  #resend = false;

  constructor(effects: SessionEffects, options: { graceMs: number }) {
    this.#effects = effects;
    this.#graceMs = options.graceMs;
    this.#identity = effects.newIdentity();
  }

  /** public id of the session; changes only when a server refuses to go on with it */
  get id(): string {
    return this.#identity.session;
  }

  /** Whether anything waits, is held or is being given back, so that a connection is wanted. */
  get active(): boolean {
    return this.#tickets.size > 0;
  }

  /** Whether some server knows this session, so that it should be told when the client ends. */
  get opened(): boolean {
    return this.#generation > 0;
  }

  /** When `tick` has something to do next. */
  get dueMs(): number {
    let dueMs = this.#deadlines.peek()?.dueMs ?? Number.POSITIVE_INFINITY;
    if (this.#state === "open") dueMs = Math.min(dueMs, this.#renewAtMs);
    if (this.#state === "opening") dueMs = Math.min(dueMs, this.#openingSinceMs + OPEN_MS_MAX);
    return dueMs;
  }

  /** Whether anything is claimed to be held, so that the clock must be watched. */
  get holding(): boolean {
    return this.#holdings.count > 0;
  }

  // Calls of the program.

  /** Asks for a lock. The waiter hears of it; `waitMs` null: without end. */
  lock(spec: Omit<LockBody, "request" | "wait">, waitMs: number | null, waiter: TicketWaiter, nowMs: number): Ticket {
    const waitUntilMs = waitMs === null ? Number.POSITIVE_INFINITY : nowMs + waitMs;
    const ticket = new Ticket({ ...spec, request: this.#nextRequest(), wait: waitMs }, waitUntilMs, waiter);
    this.#add(ticket, nowMs);
    this.#deadlines.schedule(ticket, waitUntilMs + ANSWER_SLACK_MS);
    if (this.#state === "idle") this.#open(nowMs);
    else if (this.#state === "open" || this.#state === "opening") this.#sendLock(ticket, nowMs);
    return ticket;
  }

  /** Withdraws a request that waits; its waiter hears `error` when the server has forgotten it, within a second. */
  cancel(ticket: Ticket, error: LockdError, nowMs: number): void {
    if (ticket.phase === "queued") this.#fail(ticket, error);
    else if (ticket.phase === "sent" || ticket.phase === "unconfirmed") {
      this.#giveUp(ticket, error, nowMs);
    }
  }

  /** Gives a lock back; its holder hears `released`. No RENEW claims it from now on. */
  release(ticket: Ticket, nowMs: number): void {
    assert(ticket.phase === "held" || ticket.phase === "lost" || ticket.phase === "done", "only what was granted is released");
    if (ticket.phase === "done") return;
    this.#holdings.remove(ticket);
    ticket.phase = "releasing";
    this.#deadlines.schedule(ticket, Math.max(nowMs, ticket.deadlineMs) + unlockDurationMs(ticket));
    if (this.#state === "open" || this.#state === "opening") this.#sendUnlock(ticket, nowMs);
  }

  /** Gives back all that this session holds or waits for; `idle` follows when the server has confirmed it. */
  releaseAll(nowMs: number): void {
    for (const ticket of [...this.#tickets.values()]) {
      if (ticket.phase === "held" || ticket.phase === "lost") {
        if (ticket.detached) this.#finish(ticket);
        else this.release(ticket, nowMs);
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
    this.#asked.clear();
    this.#renewals.clear();
    this.#sessionId = 0;
    for (const ticket of this.#tickets.values()) {
      ticket.lockId = 0;
      ticket.unlockId = 0;
    }
  }

  /** Takes a frame of the connection. Throws LockdError `protocol` when it is malformed. */
  frame(frame: Frame, nowMs: number): void {
    switch (frame.type) {
      case "LOCKED":
        this.#onLocked(parseLocked(frame.body), nowMs);
        break;
      case "UNLOCKED":
        if (frame.id === 0) this.#onUnlockedPush(frame.body, nowMs);
        else this.#onUnlocked(frame.id);
        break;
      case "RENEWED":
        if (this.#renewals.has(frame.id)) this.#onRenewed(frame.id, frame.body, nowMs);
        break;
      case "LOCKFAILED":
        this.#onLockFailed(frame, nowMs);
        break;
      case "ERROR":
        this.#onError(frame.id, errorOf(frame.body, "the server"), nowMs);
        break;
      case "UNKNOWN":
        this.#onError(frame.id, new LockdError("protocol", "ask for a lock: this server does not serve locks"), nowMs);
        break;
      case "UNLOCKING": {
        const push = parseUnlockingPush(frame.body);
        this.#onTakenBack(push.request, push.token, push.reason, nowMs);
        break;
      }
      case "QUEUE": {
        const push = parseQueuePush(frame.body);
        this.#tickets.get(push.request)?.waiter?.queued(push.position);
        break;
      }
      case "SESSION":
        if (frame.id === this.#sessionId) this.#onSession(frame.body, nowMs);
        break;
      default:
        // a push of a newer server
        break;
    }
  }

  /** Lets time act: deadlines that passed, renewals that are due. `nowMs` must be a fresh reading. */
  tick(nowMs: number): void {
    for (let due = this.#deadlines.peek(); due !== undefined && due.dueMs <= nowMs; due = this.#deadlines.peek()) {
      this.#expire(due, nowMs);
      assert(due.dueMs > nowMs || due.heapIndex < 0, "what expired is not due again at once");
    }
    if (this.#state === "opening" && nowMs >= this.#openingSinceMs + OPEN_MS_MAX) {
      this.#effects.reconnect(new LockdError("unavailable", `open session: not answered within ${OPEN_MS_MAX} ms`));
    }
    if (this.#state === "open" && nowMs >= this.#renewAtMs) {
      if (this.#resend) this.#sendAgain(nowMs);
      this.#renew(nowMs, false);
    }
  }

  // Requests on their way.

  #nextRequest(): string {
    this.#requestCount += 1;
    return String(this.#requestCount);
  }

  #add(ticket: Ticket, nowMs: number): void {
    if (this.#tickets.size === 0) {
      this.#shortestDurationMs = Number.POSITIVE_INFINITY;
      this.#renewAtMs = nowMs + this.#renewIntervalMs();
    }
    this.#tickets.set(ticket.body.request, ticket);
  }

  #finish(ticket: Ticket): void {
    ticket.phase = "done";
    this.#holdings.remove(ticket);
    this.#deadlines.remove(ticket);
    this.#asked.delete(ticket.lockId);
    this.#asked.delete(ticket.unlockId);
    this.#tickets.delete(ticket.body.request);
    if (this.#tickets.size === 0) {
      this.#renewAtMs = Number.POSITIVE_INFINITY;
      this.#effects.idle();
    }
  }

  #fail(ticket: Ticket, error: LockdError): void {
    const waiter = ticket.waiter;
    ticket.waiter = null;
    this.#finish(ticket);
    waiter?.failed(error);
  }

  #send(type: string, body: Body, nowMs: number): number {
    const id = this.#effects.nextFrameId();
    this.#lastId = id;
    this.#sendTimes.record(id, nowMs);
    this.#effects.send(type, id, body);
    return id;
  }

  #sendLock(ticket: Ticket, nowMs: number): void {
    const { body } = ticket;
    if (body.wait !== null) body.wait = Math.max(0, Math.round(ticket.waitUntilMs - nowMs));
    this.#asked.delete(ticket.lockId);
    ticket.phase = "sent";
    try {
      ticket.lockId = this.#send("LOCK", body, nowMs);
      this.#asked.set(ticket.lockId, ticket);
    } catch (error) {
      // what the frame cannot carry: too large, or text that is not Unicode
      if (!(error instanceof LockdError)) throw error;
      this.#fail(ticket, error);
    }
  }

  /** By handle what was granted, by request what was not. */
  #sendUnlock(ticket: Ticket, nowMs: number): void {
    this.#asked.delete(ticket.unlockId);
    const body =
      ticket.phase === "releasing" && ticket.grant !== null
        ? { handle: ticket.grant.handle }
        : { request: ticket.body.request };
    ticket.unlockId = this.#send("UNLOCK", body, nowMs);
    ticket.unlocksSent += 1;
    this.#asked.set(ticket.unlockId, ticket);
  }

  /** Ends a wait from this side: whatever the server does with it, it is taken back unused. */
  #giveUp(ticket: Ticket, error: LockdError, nowMs: number): void {
    this.#holdings.remove(ticket);
    ticket.phase = "cancelling";
    ticket.error = error;
    this.#deadlines.schedule(ticket, nowMs + CANCEL_CONFIRM_MS);
    if (this.#state === "open" || this.#state === "opening") this.#sendUnlock(ticket, nowMs);
  }

  /** Asks anew under another request id: the old one was granted in a way that cannot be used. */
  #reissue(ticket: Ticket, nowMs: number): void {
    this.#holdings.remove(ticket);
    this.#asked.delete(ticket.lockId);
    this.#tickets.delete(ticket.body.request);
    ticket.grant = null;
    ticket.body.request = this.#nextRequest();
    ticket.phase = "queued";
    this.#tickets.set(ticket.body.request, ticket);
    if (this.#state === "open") this.#sendLock(ticket, nowMs);
  }

  #sendAgain(nowMs: number): void {
    this.#resend = false;
    for (const ticket of [...this.#tickets.values()]) {
      if (ticket.phase === "queued") this.#sendLock(ticket, nowMs);
      else if ((ticket.phase === "releasing" || ticket.phase === "cancelling") && ticket.unlockId === 0) {
        this.#sendUnlock(ticket, nowMs);
      }
    }
  }

  // Time.

  #expire(ticket: Ticket, nowMs: number): void {
    switch (ticket.phase) {
      case "queued":
      case "sent":
      case "unconfirmed":
        this.#expireWait(ticket, nowMs);
        break;
      case "held":
        this.#lose(ticket, this.#state !== "open" || this.#renewals.size > 0 ? "unreachable" : "expired", nowMs);
        break;
      case "lost":
        this.#finish(ticket);
        break;
      case "releasing": {
        const holder = ticket.holder;
        this.#finish(ticket);
        const text = `release lock ${objectsOf(ticket)}: not confirmed; it has ended by itself`;
        holder?.released(ticket.error ?? new LockdError("unavailable", text, { cause: this.#effects.unreachable() ?? undefined }));
        break;
      }
      case "cancelling":
        this.#expireCancel(ticket, nowMs);
        break;
      default:
        assert(false, "what is done has no deadline");
    }
  }

  #expireWait(ticket: Ticket, nowMs: number): void {
    const text = `lock ${objectsOf(ticket)}: not obtained in time`;
    const unreachable = this.#effects.unreachable();
    const error =
      this.#state === "away" && unreachable !== null
        ? new LockdError("unavailable", `${text}: ${unreachable.message}`, { cause: unreachable })
        : new LockFailedError("timedout", `${text}, and the server did not answer`, { holders: [], position: null });
    if (ticket.phase === "queued") this.#fail(ticket, error);
    else {
      this.#giveUp(ticket, error, nowMs);
      this.#expireCancel(ticket, nowMs);
    }
  }

  /** First the waiter has waited long enough; in the end whatever the server may still have has ended by itself. */
  #expireCancel(ticket: Ticket, nowMs: number): void {
    if (ticket.waiter === null) {
      this.#finish(ticket);
      return;
    }
    const longestMs = (ticket.body.duration ?? DEFAULTS.durationMs) + unlockDurationMs(ticket) + this.#graceMs;
    this.#deadlines.schedule(ticket, nowMs + longestMs);
    this.#tellFailed(ticket);
  }

  #tellFailed(ticket: Ticket): void {
    const { waiter, error } = ticket;
    ticket.waiter = null;
    if (waiter !== null && error !== null) waiter.failed(error);
  }

  #lose(ticket: Ticket, reason: LostReason, nowMs: number): void {
    assert(ticket.phase === "held" && ticket.grant !== null, "only what is held is lost");
    const error = new LockLostError(reason, ticket.grant);
    ticket.phase = "lost";
    ticket.error = error;
    // The claim stays until the holder has had the whole unlock duration to stop: a RENEW without it
    // would let the server pass the lock on at once.
    this.#deadlines.schedule(ticket, nowMs + unlockDurationMs(ticket));
    ticket.holder?.lost(error);
  }

  // Renewals.

  #renewIntervalMs(): number {
    const jitter = 0.9 + 0.2 * this.#effects.random();
    return (Math.min(this.#shortestDurationMs, this.#graceMs) / 3) * jitter;
  }

  #renew(nowMs: number, listed: boolean): void {
    const body: RenewSessionRequest = listed
      ? { seen: this.#seen, tokens: this.#holdings.tokens }
      : { seen: this.#seen, count: this.#holdings.count, digest: this.#holdings.digest };
    const id = this.#send("RENEW", { ...body }, nowMs);
    if (listed) this.#disownedThrough = this.#seen;
    this.#renewals.set(id, { listed });
    const oldest = this.#renewals.keys().next().value;
    if (this.#renewals.size > RENEWALS_MAX && oldest !== undefined) this.#renewals.delete(oldest);
    this.#renewAtMs = nowMs + this.#renewIntervalMs();
  }

  #onRenewed(id: number, body: Body, nowMs: number): void {
    const renewed = parseRenewed(body);
    const listed = this.#renewals.get(id)?.listed === true;
    // answers come in order: what was asked before this one will not be answered any more
    for (const earlier of this.#renewals.keys()) if (earlier <= id) this.#renewals.delete(earlier);
    if (renewed.mismatch) {
      if (!listed) this.#resolveMismatch(id, nowMs);
      return;
    }
    for (const { token, reason } of renewed.lost) {
      const ticket = this.#holdings.get(token);
      if (ticket !== undefined) this.#takenBack(ticket, reason, nowMs);
    }
    this.#extendAll(id, this.#sendTimes.at(renewed.processed), nowMs);
  }

  /** Says exactly what is held, then asks again for what should long have been answered: a LOCKED was lost. */
  #resolveMismatch(renewId: number, nowMs: number): void {
    this.#renew(nowMs, true);
    for (const ticket of [...this.#tickets.values()]) {
      if (ticket.phase === "sent" && ticket.lockId < renewId) this.#sendLock(ticket, nowMs);
    }
  }

  #extendAll(renewId: number, sentMs: number, nowMs: number): void {
    const renewed: Ticket[] = [];
    let shortestMs = Number.POSITIVE_INFINITY;
    for (const ticket of this.#holdings) {
      if (ticket.grant === null) continue;
      shortestMs = Math.min(shortestMs, ticket.grant.duration);
      if (ticket.phase === "lost" || ticket.knownAtId >= renewId) continue;
      const deadlineMs = sentMs + usableMs(ticket.grant.duration);
      if (deadlineMs <= ticket.deadlineMs || deadlineMs <= nowMs) continue;
      ticket.deadlineMs = deadlineMs;
      renewed.push(ticket);
    }
    this.#shortestDurationMs = shortestMs;
    // one pass over the heap costs less than many moves in it
    if (renewed.length * 4 > this.#deadlines.size) {
      this.#deadlines.rescheduleAll((ticket) => (ticket.phase === "held" ? ticket.deadlineMs : ticket.dueMs));
    }
    for (const ticket of renewed) {
      if (ticket.phase === "unconfirmed") this.#hold(ticket);
      else {
        this.#deadlines.schedule(ticket, ticket.deadlineMs);
        ticket.holder?.renewed(ticket.deadlineMs);
      }
    }
  }

  // Answers and pushes.

  #onLocked(grant: LockedBody, nowMs: number): void {
    const ticket = this.#tickets.get(grant.request);
    if (ticket === undefined) {
      this.#seen = Math.max(this.#seen, grant.grant);
      this.#send("UNLOCK", { handle: grant.handle }, nowMs);
      return;
    }
    this.#granted(ticket, grant, nowMs);
  }

  #granted(ticket: Ticket, grant: LockedBody, nowMs: number): void {
    const disowned = grant.grant <= this.#disownedThrough;
    this.#seen = Math.max(this.#seen, grant.grant);
    if (ticket.phase !== "sent" && ticket.phase !== "queued") {
      // repeated, or given up meanwhile: then its UNLOCK is on its way or will be
      return;
    }
    const deadlineMs = this.#sendTimes.at(grant.processed) + usableMs(grant.left);
    this.#asked.delete(ticket.lockId);
    if (disowned || (ticket.detached && deadlineMs <= nowMs)) {
      this.#send("UNLOCK", { handle: grant.handle }, nowMs);
      this.#reissue(ticket, nowMs);
      return;
    }
    ticket.grant = grant;
    ticket.deadlineMs = deadlineMs;
    ticket.knownAtId = this.#lastId;
    if (!ticket.detached) {
      this.#holdings.add(grant.token, ticket);
      if (grant.duration < this.#shortestDurationMs) {
        this.#shortestDurationMs = grant.duration;
        this.#renewAtMs = Math.min(this.#renewAtMs, nowMs + this.#renewIntervalMs());
      }
    }
    if (deadlineMs > nowMs) this.#hold(ticket);
    else {
      ticket.phase = "unconfirmed";
      this.#renewAtMs = nowMs;
    }
  }

  #hold(ticket: Ticket): void {
    ticket.phase = "held";
    this.#deadlines.schedule(ticket, ticket.deadlineMs);
    const waiter = ticket.waiter;
    ticket.waiter = null;
    assert(waiter !== null, "a grant is told once");
    waiter.granted(ticket);
  }

  #onUnlocked(id: number): void {
    const ticket = this.#asked.get(id);
    if (ticket !== undefined && id === ticket.unlockId) this.#unlocked(ticket, null);
  }

  /** The server has answered an UNLOCK. */
  #unlocked(ticket: Ticket, error: LockdError | null): void {
    const { waiter, holder, error: ownError } = ticket;
    const cancelled = ticket.phase === "cancelling";
    ticket.waiter = null;
    this.#finish(ticket);
    if (!cancelled) holder?.released(ownError ?? error);
    else if (waiter !== null && ownError !== null) waiter.failed(ownError);
  }

  #onLockFailed(frame: Frame, nowMs: number): void {
    const failed = parseLockFailed(frame.body);
    const asked = this.#asked.get(frame.id);
    const ticket = asked ?? this.#tickets.get(failed.request);
    const details = { holders: failed.holders ?? [], position: failed.position ?? null };
    const error = new LockFailedError(failed.code, failed.message, details);
    if (ticket === undefined) this.#onError(frame.id, error, nowMs);
    else if (asked !== undefined && frame.id === ticket.unlockId) this.#onUnlockRefused(ticket, error);
    else this.#onLockRefused(ticket, error, nowMs);
  }

  #onError(id: number, error: LockdError, nowMs: number): void {
    const ticket = this.#asked.get(id);
    if (id !== 0 && id === this.#sessionId) this.#onSessionRefused(error, nowMs);
    else if (this.#renewals.delete(id)) {
      // the session is not known there any more; any other failure is tried again at the next turn
      if (error.code === "notfound" || error.code === "denied") this.#effects.reconnect(error);
    } else if (ticket === undefined) return;
    else if (id === ticket.unlockId) this.#onUnlockRefused(ticket, error);
    else if (error.code === "unavailable" && ticket.phase === "sent") {
      // not done and not final: this server is leaving, or not ready
      this.#asked.delete(id);
      ticket.lockId = 0;
      ticket.phase = "queued";
      this.#resend = true;
    } else this.#onLockRefused(ticket, error, nowMs);
  }

  #onLockRefused(ticket: Ticket, error: LockdError, nowMs: number): void {
    this.#asked.delete(ticket.lockId);
    ticket.lockId = 0;
    if (ticket.phase === "sent" && error.code === "lost") {
      // granted and ended before this client heard of it
      this.#reissue(ticket, nowMs);
    } else if (ticket.phase === "sent" || ticket.phase === "unconfirmed") this.#fail(ticket, error);
    else if (ticket.phase === "cancelling") this.#unlocked(ticket, null);
  }

  #onUnlockRefused(ticket: Ticket, error: LockdError): void {
    const gone = error.code === "notheld" || error.code === "notfound";
    this.#asked.delete(ticket.unlockId);
    ticket.unlockId = 0;
    if (error.code === "unavailable") this.#resend = true;
    else if (ticket.phase === "cancelling" || (gone && ticket.unlocksSent > 1)) this.#unlocked(ticket, null);
    else if ((gone || error.code === "lost") && ticket.grant !== null) {
      this.#unlocked(ticket, new LockLostError(gone ? "revoked" : "expired", ticket.grant));
    } else this.#unlocked(ticket, error);
  }

  #onUnlockedPush(body: Body, nowMs: number): void {
    const push = parseUnlockedPush(body);
    this.#onTakenBack(push.request, push.token, push.reason, nowMs);
  }

  #onTakenBack(request: string, token: number, reason: string, nowMs: number): void {
    const ticket = this.#tickets.get(request);
    if (ticket === undefined) return;
    if (ticket.grant?.token === token) this.#takenBack(ticket, reason, nowMs);
    else if (ticket.phase === "sent") {
      // a LOCKED that never arrived has run out by now
      this.#send("UNLOCK", { request }, nowMs);
      this.#reissue(ticket, nowMs);
    }
  }

  /** The server does not count the lock as held any more (it may still keep others out for the grace). */
  #takenBack(ticket: Ticket, reason: string, nowMs: number): void {
    this.#holdings.remove(ticket);
    if (ticket.phase === "held") this.#lose(ticket, lostReason(reason), nowMs);
    else if (ticket.phase === "unconfirmed") this.#reissue(ticket, nowMs);
  }

  // Opening and taking over.

  #open(nowMs: number): void {
    this.#generation += 1;
    this.#state = "opening";
    this.#openingSinceMs = nowMs;
    const { session, secret } = this.#identity;
    const body = { session, secret, generation: this.#generation, grace: this.#graceMs };
    this.#sessionId = this.#send("SESSION", body, nowMs);
    // what was never sent cannot be known to the server: it need not wait for the list
    for (const ticket of [...this.#tickets.values()]) if (ticket.phase === "queued") this.#sendLock(ticket, nowMs);
  }

  #onSession(body: Body, nowMs: number): void {
    const answer = parseSessionAnswer(body);
    const sessionId = this.#sessionId;
    this.#sessionId = 0;
    this.#state = "open";
    const listed = new Map(answer.tickets.map((ticket) => [ticket.request, ticket]));
    for (const ticket of [...this.#tickets.values()]) {
      // what was asked after SESSION is not part of the take-over
      if (ticket.lockId <= sessionId) this.#takeOver(ticket, listed.get(ticket.body.request), nowMs);
      listed.delete(ticket.body.request);
    }
    for (const stranger of listed.values()) {
      const { grant, request } = stranger;
      this.#send("UNLOCK", grant === undefined ? { request } : { handle: grant.handle }, nowMs);
    }
    if (this.active) this.#renew(nowMs, false);
  }

  #takeOver(ticket: Ticket, listed: SessionTicket | undefined, nowMs: number): void {
    const held = listed?.state === "locked" && listed.grant !== undefined;
    switch (ticket.phase) {
      case "queued":
        this.#sendLock(ticket, nowMs);
        break;
      case "sent":
        if (listed === undefined) this.#sendLock(ticket, nowMs);
        else if (listed.state === "unlocking") this.#onTakenBack(listed.request, 0, "timedout", nowMs);
        else if (listed.grant !== undefined) this.#granted(ticket, listed.grant, nowMs);
        break;
      case "unconfirmed":
        if (!held) this.#takenBack(ticket, "lost", nowMs);
        break;
      case "held":
        if (!held && !(ticket.detached && listed === undefined)) {
          this.#takenBack(ticket, listed === undefined ? "lost" : "timedout", nowMs);
        }
        break;
      case "lost":
        if (!held) this.#holdings.remove(ticket);
        break;
      case "releasing":
        // by its handle in any case: a detached lock is not listed
        this.#sendUnlock(ticket, nowMs);
        break;
      case "cancelling":
        if (listed === undefined) this.#unlocked(ticket, null);
        else this.#sendUnlock(ticket, nowMs);
        break;
      default:
        assert(false, "what is done is not kept");
    }
  }

  #onSessionRefused(error: LockdError, nowMs: number): void {
    this.#sessionId = 0;
    this.#asked.clear();
    if (error.retryable || error.code === "unavailable") this.#effects.reconnect(error);
    else if (this.#generation > 1 && (error.code === "denied" || error.code === "notfound")) this.#startOver(nowMs);
    else {
      for (const ticket of [...this.#tickets.values()]) {
        if (ticket.waiter !== null) this.#fail(ticket, error);
      }
      this.#effects.reconnect(error);
    }
  }

  /** The server does not let this session go on: what it held is lost, what it waited for is asked by a new one. */
  #startOver(nowMs: number): void {
    this.#identity = this.#effects.newIdentity();
    this.#generation = 0;
    this.#seen = 0;
    this.#disownedThrough = 0;
    for (const ticket of [...this.#tickets.values()]) {
      if (ticket.phase === "sent" || ticket.phase === "unconfirmed") this.#reissue(ticket, nowMs);
      else if (ticket.phase === "held" && !ticket.detached) this.#takenBack(ticket, "lost", nowMs);
      else if (ticket.phase === "lost") this.#holdings.remove(ticket);
      else if (ticket.phase === "cancelling") this.#unlocked(ticket, null);
    }
    if (this.active) this.#open(nowMs);
    else this.#state = "idle";
  }
}

const objectsOf = (ticket: Ticket): string => ticket.body.objects.join(", ");

const unlockDurationMs = (ticket: Ticket): number =>
  ticket.grant?.unlockDuration ?? ticket.body.unlockDuration ?? DEFAULTS.unlockDurationMs;

function lostReason(reason: string): LostReason {
  if (reason === "timedout") return "expired";
  return reason === "forced" || reason === "kicked" ? "forced" : "revoked";
}

/**
 * All requests of a session that are not done, and the steps of one: sent, held, given up, given back,
 * lost. Knows their deadlines; does not know how leases are renewed nor how a session is opened.
 */
import { assert, LockdError } from "../errors.ts";
import { DeadlineHeap } from "./deadline-heap.ts";
import { LockFailedError, LockLostError, type LostReason } from "./errors.ts";
import type { Outbox } from "./outbox.ts";
import { DEFAULTS } from "./protocol.ts";
import { Holdings, type LockBody, Ticket, type TicketWaiter } from "./ticket.ts";

/** The server answers a LOCK by its deadline plus one second; after that nobody will. */
const ANSWER_SLACK_MS = 1000;
/** How long a cancelled caller waits for the server to confirm that the ticket is gone. */
const CANCEL_CONFIRM_MS = 1000;

export interface TicketTableOptions {
  outbox: Outbox;
  /** how long the server keeps what waits for a client that it does not hear of */
  graceMs: number;
  /** why there is no connection; null when there is one or it is not known */
  unreachable: () => LockdError | null;
  /** the first request came */
  busy: (nowMs: number) => void;
  /** the last request is done */
  idle: () => void;
}

export class TicketTable {
  readonly holdings = new Holdings();
  readonly #options: TicketTableOptions;
  readonly #outbox: Outbox;
  readonly #tickets = new Map<string, Ticket>();
  /** frames of this connection that wait for an answer: LOCK and UNLOCK */
  readonly #asked = new Map<number, Ticket>();
  readonly #deadlines = new DeadlineHeap<Ticket>();
  #requestCount = 0;
  /** frames may be sent: SESSION at least is on its way */
  #connected = false;
  /** something must be sent again that no answer will trigger */
  #resend = false;

  constructor(options: TicketTableOptions) {
    this.#options = options;
    this.#outbox = options.outbox;
  }

  get size(): number {
    return this.#tickets.size;
  }

  /** When the next deadline passes. */
  get dueMs(): number {
    return this.#deadlines.peek()?.dueMs ?? Number.POSITIVE_INFINITY;
  }

  /** A copy, so that tickets may come and go meanwhile. */
  all(): Ticket[] {
    return [...this.#tickets.values()];
  }

  byRequest(request: string): Ticket | undefined {
    return this.#tickets.get(request);
  }

  /** The ticket whose LOCK or UNLOCK has this frame id. */
  byFrame(id: number): Ticket | undefined {
    return this.#asked.get(id);
  }

  attach(): void {
    this.#connected = true;
  }

  detach(): void {
    this.#connected = false;
    this.forgetFrames();
  }

  /** No answer will come to what was sent so far. */
  forgetFrames(): void {
    this.#asked.clear();
    for (const ticket of this.#tickets.values()) {
      ticket.lockId = 0;
      ticket.unlockId = 0;
    }
  }

  // From the call to the grant.

  add(spec: Omit<LockBody, "request" | "wait">, waitMs: number | null, waiter: TicketWaiter, nowMs: number): Ticket {
    const waitUntilMs = waitMs === null ? Number.POSITIVE_INFINITY : nowMs + waitMs;
    const ticket = new Ticket({ ...spec, request: this.#nextRequest(), wait: waitMs }, waitUntilMs, waiter);
    if (this.#tickets.size === 0) this.#options.busy(nowMs);
    this.#tickets.set(ticket.body.request, ticket);
    this.#deadlines.schedule(ticket, waitUntilMs + ANSWER_SLACK_MS);
    return ticket;
  }

  #nextRequest(): string {
    this.#requestCount += 1;
    return String(this.#requestCount);
  }

  /** Asks, or asks again, with the wait that is left. */
  sendLock(ticket: Ticket, nowMs: number): void {
    const { body } = ticket;
    if (body.wait !== null) body.wait = Math.max(0, Math.round(ticket.waitUntilMs - nowMs));
    this.#asked.delete(ticket.lockId);
    ticket.phase = "sent";
    try {
      ticket.lockId = this.#outbox.send("LOCK", body, nowMs);
      this.#asked.set(ticket.lockId, ticket);
    } catch (error) {
      // what a frame cannot carry: too large, or text that is not Unicode
      if (!(error instanceof LockdError)) throw error;
      this.fail(ticket, error);
    }
  }

  /** The LOCK was answered by a refusal that is not final: it is sent again later. */
  postpone(ticket: Ticket): void {
    this.#asked.delete(ticket.lockId);
    ticket.lockId = 0;
    ticket.phase = "queued";
    this.#resend = true;
  }

  /** Sends what was postponed. */
  sendPostponed(nowMs: number): void {
    if (!this.#resend) return;
    this.#resend = false;
    for (const ticket of this.all()) {
      if (ticket.phase === "queued") this.sendLock(ticket, nowMs);
      else if ((ticket.phase === "releasing" || ticket.phase === "cancelling") && ticket.unlockId === 0) {
        this.sendUnlock(ticket, nowMs);
      }
    }
  }

  /** Asks anew under another request id: what the old one was granted cannot be used. */
  reissue(ticket: Ticket, nowMs: number): void {
    this.holdings.remove(ticket);
    this.#asked.delete(ticket.lockId);
    ticket.lockId = 0;
    this.#tickets.delete(ticket.body.request);
    ticket.grant = null;
    ticket.body.request = this.#nextRequest();
    ticket.phase = "queued";
    this.#tickets.set(ticket.body.request, ticket);
    if (this.#connected) this.sendLock(ticket, nowMs);
  }

  /** From now on the waiter has the lock, until `ticket.deadlineMs`. */
  hold(ticket: Ticket): void {
    this.#asked.delete(ticket.lockId);
    ticket.phase = "held";
    this.#deadlines.schedule(ticket, ticket.deadlineMs);
    const { waiter } = ticket;
    ticket.waiter = null;
    assert(waiter !== null, "a grant is told once");
    waiter.granted(ticket);
  }

  // The end of a request.

  /** The waiter hears that there will be no lock; nothing is left of it at the server. */
  fail(ticket: Ticket, error: LockdError): void {
    const { waiter } = ticket;
    ticket.waiter = null;
    this.finish(ticket);
    waiter?.failed(error);
  }

  finish(ticket: Ticket): void {
    ticket.phase = "done";
    this.holdings.remove(ticket);
    this.#deadlines.remove(ticket);
    this.#asked.delete(ticket.lockId);
    this.#asked.delete(ticket.unlockId);
    this.#tickets.delete(ticket.body.request);
    if (this.#tickets.size === 0) this.#options.idle();
  }

  /** Ends a wait from this side: whatever the server does with it, it is taken back unused. */
  giveUp(ticket: Ticket, error: LockdError, nowMs: number): void {
    if (ticket.phase === "queued") {
      this.fail(ticket, error);
      return;
    }
    this.holdings.remove(ticket);
    ticket.phase = "cancelling";
    ticket.error = error;
    this.#deadlines.schedule(ticket, nowMs + CANCEL_CONFIRM_MS);
    if (this.#connected) this.sendUnlock(ticket, nowMs);
  }

  /** Gives back what was granted. No RENEW claims it from now on. */
  release(ticket: Ticket, nowMs: number): void {
    this.holdings.remove(ticket);
    ticket.phase = "releasing";
    this.#deadlines.schedule(ticket, Math.max(nowMs, ticket.deadlineMs) + unlockDurationMs(ticket));
    if (this.#connected) this.sendUnlock(ticket, nowMs);
  }

  /** By handle what was granted, by request what was not. */
  sendUnlock(ticket: Ticket, nowMs: number): void {
    this.#asked.delete(ticket.unlockId);
    const body =
      ticket.phase === "releasing" && ticket.grant !== null
        ? { handle: ticket.grant.handle }
        : { request: ticket.body.request };
    ticket.unlockId = this.#outbox.send("UNLOCK", body, nowMs);
    ticket.unlocksSent += 1;
    this.#asked.set(ticket.unlockId, ticket);
  }

  /** Takes back a grant that nobody here wants; its answer does not matter. */
  refuseGrant(handle: string, nowMs: number): void {
    this.#outbox.send("UNLOCK", { handle }, nowMs);
  }

  /** The server has answered an UNLOCK: there is no ticket any more. */
  unlocked(ticket: Ticket, error: LockdError | null): void {
    const { waiter, holder, error: ownError } = ticket;
    const cancelled = ticket.phase === "cancelling";
    ticket.waiter = null;
    this.finish(ticket);
    if (!cancelled) holder?.released(ownError ?? error);
    else if (ownError !== null) waiter?.failed(ownError);
  }

  unlockRefused(ticket: Ticket, error: LockdError): void {
    const gone = error.code === "notheld" || error.code === "notfound";
    this.#asked.delete(ticket.unlockId);
    ticket.unlockId = 0;
    if (error.code === "unavailable") this.#resend = true;
    // of a repeated UNLOCK: the first one was done, its answer was lost
    else if (ticket.phase === "cancelling" || (gone && ticket.unlocksSent > 1)) this.unlocked(ticket, null);
    else if ((gone || error.code === "lost") && ticket.grant !== null) {
      this.unlocked(ticket, new LockLostError(gone ? "revoked" : "expired", ticket.grant));
    } else this.unlocked(ticket, error);
  }

  // Loss.

  /** The server does not count the lock as held any more (it may still keep others out for the grace). */
  takenBack(ticket: Ticket, reason: LostReason, nowMs: number): void {
    this.holdings.remove(ticket);
    if (ticket.phase === "held") this.#lose(ticket, reason, nowMs);
    else if (ticket.phase === "unconfirmed") this.reissue(ticket, nowMs);
  }

  #lose(ticket: Ticket, reason: LostReason, nowMs: number): void {
    assert(ticket.phase === "held" && ticket.grant !== null, "only what is held is lost");
    const error = new LockLostError(reason, ticket.grant);
    ticket.phase = "lost";
    ticket.error = error;
    // A claim stays until the holder has had the whole unlock duration to stop: a RENEW without it
    // would let the server pass the lock on at once.
    this.#deadlines.schedule(ticket, nowMs + unlockDurationMs(ticket));
    ticket.holder?.lost(error);
  }

  // Time.

  /** Carries out every deadline that has passed; `expired`: the reason of a lease that ends. */
  expireDue(expired: LostReason, nowMs: number): void {
    for (let due = this.#deadlines.peek(); due !== undefined && due.dueMs <= nowMs; due = this.#deadlines.peek()) {
      this.#expire(due, expired, nowMs);
      assert(due.heapIndex < 0 || due.dueMs > nowMs, "what expired is not due again at once");
    }
  }

  #expire(ticket: Ticket, expired: LostReason, nowMs: number): void {
    switch (ticket.phase) {
      case "queued":
      case "sent":
      case "unconfirmed":
        this.#expireWait(ticket, nowMs);
        break;
      case "held":
        this.#lose(ticket, expired, nowMs);
        break;
      case "lost":
        // the holder's time to stop is over; if the server still counts it as held, it need not
        if (this.holdings.remove(ticket) && this.#connected && ticket.grant !== null) {
          this.refuseGrant(ticket.grant.handle, nowMs);
        }
        this.finish(ticket);
        break;
      case "releasing":
        this.unlocked(ticket, this.#unconfirmedRelease(ticket));
        break;
      case "cancelling":
        this.#expireCancel(ticket, nowMs);
        break;
      case "done":
        assert(false, "what is done has no deadline");
    }
  }

  #expireWait(ticket: Ticket, nowMs: number): void {
    const text = `lock ${objectsOf(ticket)}: not obtained in time`;
    const unreachable = this.#options.unreachable();
    const error =
      unreachable === null
        ? new LockFailedError("timedout", `${text}, and the server did not answer`, { holders: [], position: null })
        : new LockdError("unavailable", `${text}: ${unreachable.message}`, { cause: unreachable });
    this.giveUp(ticket, error, nowMs);
    if (ticket.phase === "cancelling") this.#expireCancel(ticket, nowMs);
  }

  /** First the waiter has waited long enough; in the end whatever the server may still have has ended by itself. */
  #expireCancel(ticket: Ticket, nowMs: number): void {
    const { waiter, error } = ticket;
    if (waiter === null) {
      this.finish(ticket);
      return;
    }
    const durationMs = ticket.body.duration ?? DEFAULTS.durationMs;
    this.#deadlines.schedule(ticket, nowMs + durationMs + unlockDurationMs(ticket) + this.#options.graceMs);
    ticket.waiter = null;
    assert(error !== null, "what is given up has a reason");
    waiter.failed(error);
  }

  #unconfirmedRelease(ticket: Ticket): LockdError {
    const text = `release lock ${objectsOf(ticket)}: not confirmed by a server; it has ended by itself`;
    return new LockdError("unavailable", text, { cause: this.#options.unreachable() ?? undefined });
  }

  /** New deadlines for many held tickets at once: `ticket.deadlineMs` of each was moved already. */
  rescheduleHeld(moved: readonly Ticket[]): void {
    // one pass over the heap costs less than many moves in it
    if (moved.length * 4 > this.#deadlines.size) {
      this.#deadlines.rescheduleAll((ticket) => (ticket.phase === "held" ? ticket.deadlineMs : ticket.dueMs));
      return;
    }
    for (const ticket of moved) this.#deadlines.schedule(ticket, ticket.deadlineMs);
  }
}

export const objectsOf = (ticket: Ticket): string => ticket.body.objects.join(", ");

const unlockDurationMs = (ticket: Ticket): number =>
  ticket.grant?.unlockDuration ?? ticket.body.unlockDuration ?? DEFAULTS.unlockDurationMs;

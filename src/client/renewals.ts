/**
 * The keep-alive of a session, which renews all that it holds in one message: when it is sent, what it
 * claims, and what its answer means. Knows no connection.
 */
import { LockdError } from "../errors.ts";
import type { Body } from "../wire/types.ts";
import { parseRenewed } from "./answers.ts";
import { lostReason } from "./errors.ts";
import { usableMs } from "./lease-clock.ts";
import type { Outbox } from "./outbox.ts";
import type { LockedBody } from "./protocol.ts";
import type { Ticket } from "./ticket.ts";
import type { TicketTable } from "./ticket-table.ts";

/** RENEWs whose answers may be outstanding; an older one is forgotten. */
const OUTSTANDING_MAX = 32;

export class Renewals {
  readonly #table: TicketTable;
  readonly #outbox: Outbox;
  readonly #graceMs: number;
  readonly #random: () => number;
  /** by frame id: whether tokens were listed, so that the server takes back what is not among them */
  readonly #outstanding = new Map<number, boolean>();
  #dueMs = Number.POSITIVE_INFINITY;
  #shortestDurationMs = Number.POSITIVE_INFINITY;
  /** newest grant number processed */
  #seen = 0;
  /** grants up to this one that no list of tokens named are disowned: never to be accepted */
  #disownedThrough = 0;

  constructor(options: { table: TicketTable; outbox: Outbox; graceMs: number; random: () => number }) {
    this.#table = options.table;
    this.#outbox = options.outbox;
    this.#graceMs = options.graceMs;
    this.#random = options.random;
  }

  /** When the next one should be sent. */
  get dueMs(): number {
    return this.#dueMs;
  }

  /** Whether an answer is missing. */
  get unanswered(): boolean {
    return this.#outstanding.size > 0;
  }

  /** There is something to be kept alive from now on. */
  start(nowMs: number): void {
    this.#shortestDurationMs = Number.POSITIVE_INFINITY;
    this.#dueMs = nowMs + this.#intervalMs();
  }

  /** The next one is sent as soon as what has arrived is handled: what it does not claim any more matters. */
  hasten(nowMs: number): void {
    this.#dueMs = Math.min(this.#dueMs, nowMs);
  }

  stop(): void {
    this.#dueMs = Number.POSITIVE_INFINITY;
  }

  disconnected(): void {
    this.#outstanding.clear();
  }

  /** A new session begins: grant numbers start again. */
  reset(): void {
    this.#seen = 0;
    this.#disownedThrough = 0;
  }

  /** Notes a grant that arrived; false when it was disowned before and must not be used. */
  see(grant: LockedBody): boolean {
    this.#seen = Math.max(this.#seen, grant.grant);
    return grant.grant > this.#disownedThrough;
  }

  /**
   * Claims a grant. Its lease counts from a keep-alive before the grant, and who only waited sends those
   * rarely: a third of the lease may be over, or all of it. Then only a renewal sent at once helps.
   */
  claim(ticket: Ticket, grant: LockedBody, nowMs: number): void {
    if (this.#table.holdings.get(grant.token) !== undefined) {
      throw new LockdError("protocol", `read LOCKED: token ${grant.token} was granted twice`);
    }
    this.#table.holdings.add(grant.token, ticket);
    if (grant.duration < this.#shortestDurationMs) {
      this.#shortestDurationMs = grant.duration;
      const leaseFromMs = ticket.deadlineMs - usableMs(grant.duration);
      this.#dueMs = Math.min(this.#dueMs, Math.max(nowMs, leaseFromMs + this.#intervalMs()));
    }
    if (ticket.deadlineMs <= nowMs) this.#dueMs = nowMs;
  }

  /** A third of the shortest lease or of the grace, ten per cent more or less so that clients spread. */
  #intervalMs(): number {
    return (Math.min(this.#shortestDurationMs, this.#graceMs) / 3) * (0.9 + 0.2 * this.#random());
  }

  /** Sent whether or not the one before was answered: a lost answer must not end renewing. */
  send(nowMs: number): void {
    this.#send(nowMs, false);
  }

  #send(nowMs: number, listed: boolean): void {
    const { holdings } = this.#table;
    const claim = listed ? { tokens: holdings.tokens } : { count: holdings.count, digest: holdings.digest };
    const id = this.#outbox.send("RENEW", { seen: this.#seen, ...claim }, nowMs);
    if (listed) this.#disownedThrough = this.#seen;
    this.#outstanding.set(id, listed);
    const oldest = this.#outstanding.keys().next().value;
    if (this.#outstanding.size > OUTSTANDING_MAX && oldest !== undefined) this.#outstanding.delete(oldest);
    this.#dueMs = nowMs + this.#intervalMs();
  }

  /** A RENEW was answered by an error; whether it was one of these. The next one is sent when it is due. */
  refused(id: number): boolean {
    return this.#outstanding.delete(id);
  }

  /** Takes the answer RENEWED. Throws LockdError `protocol` when it is malformed. */
  answered(id: number, body: Body, nowMs: number): void {
    const listed = this.#outstanding.get(id);
    if (listed === undefined) return;
    const renewed = parseRenewed(body);
    // answers come in order: what was asked before this one will not be answered any more
    for (const earlier of this.#outstanding.keys()) if (earlier <= id) this.#outstanding.delete(earlier);
    if (renewed.mismatch) {
      if (!listed) this.#resolveMismatch(id, nowMs);
      return;
    }
    for (const { token, reason } of renewed.lost) {
      const ticket = this.#table.holdings.get(token);
      if (ticket !== undefined) this.#table.takenBack(ticket, lostReason(reason), nowMs);
      if (lostReason(reason) === "forced") this.hasten(nowMs);
    }
    this.#extend(id, this.#outbox.sentMs(renewed.processed), nowMs);
  }

  /** Says exactly what is held, then asks again for what may have been answered long ago: a LOCKED was lost. */
  #resolveMismatch(renewId: number, nowMs: number): void {
    this.#send(nowMs, true);
    for (const ticket of this.#table.all()) {
      if (ticket.phase === "sent" && ticket.lockId < renewId) this.#table.sendLock(ticket, nowMs);
    }
  }

  /** Every lock that the RENEW claimed runs its whole duration from `sentMs` on. What has ended stays ended. */
  #extend(renewId: number, sentMs: number, nowMs: number): void {
    const held: Ticket[] = [];
    const confirmed: Ticket[] = [];
    let shortestMs = Number.POSITIVE_INFINITY;
    for (const ticket of this.#table.holdings) {
      if (ticket.grant === null) continue;
      shortestMs = Math.min(shortestMs, ticket.grant.duration);
      if (ticket.phase === "lost" || ticket.knownAtId >= renewId) continue;
      const deadlineMs = sentMs + usableMs(ticket.grant.duration);
      if (deadlineMs <= ticket.deadlineMs || deadlineMs <= nowMs) continue;
      ticket.deadlineMs = deadlineMs;
      (ticket.phase === "held" ? held : confirmed).push(ticket);
    }
    this.#shortestDurationMs = shortestMs;
    this.#table.rescheduleHeld(held);
    for (const ticket of held) ticket.holder?.renewed(ticket.deadlineMs);
    for (const ticket of confirmed) this.#table.hold(ticket);
  }
}

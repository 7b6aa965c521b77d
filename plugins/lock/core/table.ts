/**
 * The lock table: commands in, answers and effects out, nothing else. Owns the order of work in a
 * step and its bound; the rules are in the modules around it. It must not know time beyond the instant
 * it is given, nor storage beyond the records it hands out.
 */
import { assert } from "../../../src/errors.ts";
import type { RecordChange } from "../../../src/store/types.ts";
import { restartGrace } from "./ending.ts";
import { extendLease } from "./leases.ts";
import { cancel, lock, release, unlock } from "./locking.ts";
import { renew, renewHandle } from "./renewing.ts";
import { drain, recordsOf, restore } from "./restore.ts";
import { close, disconnect, kick, open, ownTickets, restartSessions } from "./sessions.ts";
import { TableState } from "./state.ts";
import type {
  Instant,
  LockAnswer,
  LockCommand,
  LockEvent,
  LockLimits,
  LockStatistics,
  OwnTicket,
  SessionView,
  StepResult,
  TicketView,
  WhyView,
} from "./types.ts";
import { type TicketCursor, listSessions, listTickets, statistics } from "./views.ts";
import { why } from "./why.ts";
import { doWork, isDue } from "./work.ts";

export class LockTable {
  #state: TableState;

  constructor(limits: LockLimits) {
    this.#state = new TableState(limits);
  }

  /**
   * A table from the records of another. Exact when that one had no work left (`more` false); else a
   * position report may be missing and a grant may come in another order. Follow it with `restart`
   * when the connections did not survive. Throws LockdError `corrupt` with the key of a bad record.
   */
  static restore(records: Iterable<[string, Uint8Array]>, limits: LockLimits): LockTable {
    const table = new LockTable(limits);
    table.#state = restore(records, limits);
    return table;
  }

  /**
   * Applies one command at an instant that is not before the last one. What is due by then comes
   * first, as far as half of the step's work allows; a lock that ran out and was not reached yet may
   * still be renewed, since nobody else was let in.
   */
  step(command: LockCommand, at: Instant): StepResult {
    const state = this.#state;
    assert(at.nowMs >= state.nowMs, "time does not go back");
    state.nowMs = at.nowMs;
    state.wallMs = at.wallMs;
    state.effects = [];
    const workMax = state.limits.workPerStepMax;
    const done = doWork(state, Math.ceil(workMax / 2));
    state.applying = true;
    const answer = this.#apply(command);
    state.applying = false;
    doWork(state, Math.max(1, workMax - done));
    return { answer, effects: state.effects, more: isDue(state) };
  }

  /** When `tick` is next due, on the table's timeline; in the past or now while work is pending. */
  nextDeadlineMs(): number | null {
    if (this.#state.hasScheduled) return this.#state.nowMs;
    return this.#state.timers.first()?.timerMs ?? null;
  }

  /** The durable records that changed since the last drain, each once. */
  drainChanges(): RecordChange[] {
    return drain(this.#state);
  }

  /** The events since the last drain. */
  drainEvents(): LockEvent[] {
    const events = this.#state.events;
    this.#state.events = [];
    return events;
  }

  /** Every token from now on is above `floor`. */
  raiseToken(floor: number): void {
    assert(Number.isSafeInteger(floor), "tokens stay exact");
    const { meta, journal } = this.#state;
    if (floor <= meta.lastToken) return;
    meta.lastToken = floor;
    journal.touch(meta);
  }

  /** Tickets in the order of their objects (UTF-16 code units) and numbers. */
  list(options: { prefix: string; after: TicketCursor | null; limit: number }): {
    tickets: TicketView[];
    next: TicketCursor | null;
  } {
    return listTickets(this.#state, options);
  }

  why(object: string, options: { waitersMax: number }): WhyView {
    return why(this.#state, object, options.waitersMax);
  }

  /** `nowMs` tells whose grace is over; default: the time of the last step. */
  sessions(options: { after: string | null; limit: number; nowMs?: number }): { sessions: SessionView[]; next: string | null } {
    return listSessions(this.#state, options);
  }

  statistics(): LockStatistics {
    return statistics(this.#state);
  }

  /** Whether an exclusive lock asked for now, without waiting, would be granted. */
  isFree(object: string, nowMs: number): boolean {
    const known = this.#state.objects.get(object);
    if (known === undefined) return true;
    const delayed = known.delay !== null && known.delay.untilMs > nowMs;
    return !delayed && known.held.tickets === 0 && known.waiting.tickets === 0;
  }

  /** When the lock-delay that keeps an object free ends, on the table's timeline; null: there is none. */
  delayEndMs(object: string): number | null {
    return this.#state.objects.get(object)?.delay?.untilMs ?? null;
  }

  /** A session's tickets in the order of its requests; null: there is no such session. */
  ownTickets(session: string): OwnTicket[] | null {
    const known = this.#state.sessions.get(session);
    return known === undefined ? null : ownTickets(this.#state, known);
  }

  /** All records, for a snapshot. */
  records(): Iterable<[key: string, value: Uint8Array]> {
    return recordsOf(this.#state);
  }

  /** A digest of all records, the same for the same state however it came about. Costs a whole pass. */
  stateHash(): string {
    let sum = 0n;
    for (const [key, value] of this.records()) {
      sum = BigInt.asUintN(64, sum + Bun.hash.wyhash(value, Bun.hash.wyhash(key)));
    }
    return sum.toString(16).padStart(16, "0");
  }

  #apply(command: LockCommand): LockAnswer {
    const state = this.#state;
    switch (command.kind) {
      case "open":
        return open(state, command);
      case "disconnect":
        return disconnect(state, command);
      case "close":
        return close(state, command);
      case "lock":
        return lock(state, command);
      case "cancel":
        return cancel(state, command);
      case "unlock":
        return unlock(state, command);
      case "renew":
        return renew(state, command);
      case "renewHandle":
        return renewHandle(state, command);
      case "release":
        return release(state, command);
      case "kick":
        return kick(state, command);
      case "tick":
        return { kind: "done" };
      case "restart":
        return this.#restart(command.rebooted);
    }
  }

  #restart(rebooted: boolean): LockAnswer {
    const state = this.#state;
    restartSessions(state);
    if (!rebooted) return { kind: "done" };
    for (const ticket of state.tokens.values()) {
      if (ticket.state === "locked") extendLease(state, ticket, ticket.durationMs);
      else restartGrace(state, ticket);
    }
    return { kind: "done" };
  }
}

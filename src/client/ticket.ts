/**
 * One LOCK request from call to end, as this client sees it, and the set of those that it claims to
 * hold, with the digest of their tokens. Data and bookkeeping only: session.ts moves them.
 */
import { assert, type LockdError } from "../errors.ts";
import type { LockLostError } from "./errors.ts";
import { type LockedBody, type LockMode, mixToken } from "./protocol.ts";

/** Who waits for the grant. Told exactly one of `granted` and `failed`. */
export interface TicketWaiter {
  granted(ticket: Ticket): void;
  failed(error: LockdError): void;
  /** place in the queue, 1 is next */
  queued(position: number): void;
}

/** Who uses the lock. */
export interface TicketHolder {
  /** at most once; the lock must not be relied on any more */
  lost(error: LockLostError): void;
  /** the lock now holds until this time of the lease clock */
  renewed(deadlineMs: number): void;
  /** once, after a release: null when the server has taken it back */
  released(error: LockdError | null): void;
}

/**
 * queued: not sent yet. sent: asked for. unconfirmed: granted, but so late that only a renewal can tell
 * whether it still runs. held. lost: the holder has been told, the server may still count it as held.
 * releasing, cancelling: UNLOCK is under way or will be sent. done: of no further interest.
 */
export type TicketPhase = "queued" | "sent" | "unconfirmed" | "held" | "lost" | "releasing" | "cancelling" | "done";

/** Body of the LOCK, sent again when needed with another `request` and the `wait` that is left. */
export type LockBody = {
  request: string;
  readonly objects: readonly string[];
  readonly mode: LockMode | undefined;
  readonly permits: number | undefined;
  readonly count: number | undefined;
  wait: number | null;
  readonly duration: number | undefined;
  readonly unlockDuration: number | undefined;
  readonly lockDelay: number | undefined;
  readonly value: string | null | undefined;
  readonly detached: boolean | undefined;
  readonly detectDeadlock: boolean | undefined;
  readonly queue: boolean | undefined;
  readonly parents: readonly string[] | undefined;
  readonly commandLine: string | undefined;
};

export class Ticket {
  readonly body: LockBody;
  phase: TicketPhase = "queued";
  /** end of the wait on the lease clock, Infinity: none */
  readonly waitUntilMs: number;
  /** null once told */
  waiter: TicketWaiter | null;
  holder: TicketHolder | null = null;
  grant: LockedBody | null = null;
  /** until when the lock may be relied on, lease clock */
  deadlineMs = Number.NEGATIVE_INFINITY;
  /** newest frame id when the grant became known: only a RENEW after it covers this lock */
  knownAtId = 0;
  /** ids of the frames that were not answered yet on this connection, 0: none */
  lockId = 0;
  unlockId = 0;
  /** UNLOCKs sent; an answer `notheld` to a repeated one means done */
  unlocksSent = 0;
  /** why it was given up or lost */
  error: LockdError | null = null;
  /** for the heap of deadlines */
  dueMs = Number.POSITIVE_INFINITY;
  heapIndex = -1;

  constructor(body: LockBody, waitUntilMs: number, waiter: TicketWaiter) {
    this.body = body;
    this.waitUntilMs = waitUntilMs;
    this.waiter = waiter;
  }

  get detached(): boolean {
    return this.body.detached === true;
  }
}

/** The locks that a RENEW claims: those held, and those lost so recently that the holder may still be stopping. */
export class Holdings {
  readonly #tickets = new Map<number, Ticket>();
  #sum = 0;
  #xor = 0;

  get count(): number {
    return this.#tickets.size;
  }

  get digest(): readonly [number, number] {
    return [this.#sum, this.#xor];
  }

  get tokens(): number[] {
    return [...this.#tickets.keys()];
  }

  [Symbol.iterator](): Iterator<Ticket> {
    return this.#tickets.values();
  }

  get(token: number): Ticket | undefined {
    return this.#tickets.get(token);
  }

  add(token: number, ticket: Ticket): void {
    assert(!this.#tickets.has(token), "a token is claimed once");
    this.#tickets.set(token, ticket);
    const mixed = mixToken(token);
    this.#sum = (this.#sum + mixed) >>> 0;
    this.#xor = (this.#xor ^ mixed) >>> 0;
  }

  /** Ends the claim; whether there was one. */
  remove(ticket: Ticket): boolean {
    const token = ticket.grant?.token;
    if (token === undefined || this.#tickets.get(token) !== ticket) return false;
    this.#tickets.delete(token);
    const mixed = mixToken(token);
    this.#sum = (this.#sum - mixed) >>> 0;
    this.#xor = (this.#xor ^ mixed) >>> 0;
    return true;
  }
}

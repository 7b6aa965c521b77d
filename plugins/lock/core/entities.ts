/**
 * The things that the table is made of, and the few facts that they can tell about themselves.
 * Plain data with links; who may change what is the business of the modules around it.
 */
import type { Recorded } from "./journal.ts";
import { Load } from "./load.ts";
import { OrderedNode, OrderedTree } from "./ordered-tree.ts";
import type { Timed } from "./timer-heap.ts";
import type { Holder, LockFailure, LockSpec, LossReason } from "./types.ts";

/** The order of what is due at the same millisecond. */
const TIMER_CLASS = { delay: 0, ticket: 1, group: 2, session: 3 } as const;

/** Who waits for whom is asked among agents: a session, with the nested requests made on its behalf. */
export class Agent {
  /** tickets that act for this agent, waiting or held */
  tickets = 0;
  /** those of them that wait */
  readonly waits = new Set<Ticket>();

  constructor(readonly id: string) {}
}

/** A ticket's place in the queue of one of its objects. */
export class Place {
  readonly node: OrderedNode<number, Place>;
  /** waiting and eligible here, while another object of the ticket is not free yet */
  reserved = false;
  /** neighbours in the object's list of holders */
  previousHolder: Place | null = null;
  nextHolder: Place | null = null;

  constructor(
    readonly ticket: Ticket,
    readonly object: LockObject,
  ) {
    this.node = new OrderedNode<number, Place>(ticket.number, this, 0);
  }
}

export class LockObject {
  /** all tickets by number; those that are ready to be granted weigh 1 */
  readonly tickets = new OrderedTree<number, Place>();
  /** entry in the sorted index of names */
  readonly nameNode: OrderedNode<string, LockObject>;
  firstHolder: Place | null = null;
  /** who holds, up to the end of the grace */
  readonly held = new Load();
  /** who waits and is ready */
  readonly waiting = new Load();
  /** the part of `waiting` that is eligible here; always its front */
  readonly reserved = new Load();
  /** number of the last reserved ticket */
  frontier = 0;
  /** all that wait, ready or passed over */
  waiters = 0;
  /** semaphore tickets of any state, and the permits that they agreed on */
  semaphoreTickets = 0;
  permits = 0;
  delay: Delay | null = null;
  walkScheduled = false;
  /** number of waiting tickets whose sessions want to hear of their position */
  reporters = 0;
  reportScheduled = false;
  /** positions changed behind the current round of reports, so that another one is needed */
  reportAgain = false;
  /** zero-based position where the round goes on */
  reportRank = 0;

  constructor(readonly name: string) {
    this.nameNode = new OrderedNode<string, LockObject>(name, this, 0);
  }
}

export type HeldState = "locked" | "unlocking";

/** closed by its client; kicked, or kicked by somebody who states that the client is dead */
export type SessionEnding = "closed" | "kicked" | "kicked-dead";

export class Ticket implements Recorded, Timed {
  readonly kind = "ticket";
  dirty = false;
  stored = false;
  gone = false;
  readonly timerClass = TIMER_CLASS.ticket;
  timerMs = 0;
  timerIndex = -1;

  state: "waiting" | HeldState = "waiting";
  /** waiting, and its session is there: counts in the queues */
  ready = false;
  readonly places: Place[] = [];
  /** last position that the session was told */
  reportedPosition = 0;
  /** since when in this state */
  sinceMs: number;
  durationMs: number;
  /** what its holder shows to others; it may change while it holds */
  value: string | null;

  token = 0;
  grantNumber = 0;
  grantedMs = 0;
  /** newest message of the session processed before the grant */
  message = 0;
  /**
   * Locked: end of the duration by the ticket's own clock; a renewal of the session may set a later one.
   * Unlocking: until when its holder may have relied on it.
   */
  endMs = 0;
  freeAtMs = 0;
  lossReason: LossReason = "timedout";
  /** entry among what the session holds, by grant number; null: detached, or not locked */
  leaseNode: OrderedNode<number, Ticket> | null = null;
  /** the renewals that cover it, if any */
  group: RenewalGroup | null = null;

  #text: string | null = null;

  constructor(
    readonly number: number,
    readonly session: Session,
    readonly request: string,
    readonly spec: LockSpec,
    readonly handle: string,
    readonly agents: readonly Agent[],
    readonly enteredMs: number,
  ) {
    this.sinceMs = enteredMs;
    this.durationMs = spec.durationMs;
    this.value = spec.value;
  }

  get timerKey(): number {
    return this.number;
  }

  /** The ticket key as people see it: 8 hex digits of the number, a slash, the entering key. */
  get text(): string {
    this.#text ??= ticketText(this.number, this.session.id);
    return this.#text;
  }

  /** End of the obtention timeout; null: none. */
  get waitDeadlineMs(): number | null {
    return this.spec.waitMs === null ? null : this.enteredMs + this.spec.waitMs;
  }

  /** End of the duration, with the session's renewals. */
  get leaseEndMs(): number {
    return this.group === null ? this.endMs : this.group.endMs;
  }

  get holder(): Holder {
    const line = this.spec.commandLine;
    return line === undefined ? this.session.holder : { ...this.session.holder, commandLine: line };
  }
}

export const ticketText = (number: number, enteringKey: string): string =>
  `${number.toString(16).padStart(8, "0")}/${enteringKey}`;

/**
 * The held tickets of a session that its last keep-alive renewed and that have the same duration: they
 * end together, so one timer stands for all, and a keep-alive costs the same for any number of them.
 */
export class RenewalGroup implements Timed {
  readonly kind = "group";
  readonly timerClass = TIMER_CLASS.group;
  readonly timerKey: string;
  timerMs = 0;
  timerIndex = -1;
  readonly tickets = new OrderedTree<number, Ticket>();

  constructor(
    readonly session: Session,
    readonly durationMs: number,
  ) {
    this.timerKey = `${session.id}/${durationMs}`;
  }

  get endMs(): number {
    return this.session.renewedAtMs + this.durationMs;
  }
}

export class Session implements Recorded, Timed {
  readonly kind = "session";
  dirty = false;
  stored = false;
  gone = false;
  readonly timerClass = TIMER_CLASS.session;
  timerMs = 0;
  timerIndex = -1;

  readonly idNode: OrderedNode<string, Session>;
  generation = 0;
  graceMs = 0;
  connected = true;
  /** no new requests; forgotten when its tickets are gone */
  ending: SessionEnding | null = null;
  /** why it was kicked, for the messages to its waiting requests */
  endReason = "";
  heardMs = 0;
  /** newest message of the client that was processed */
  message = 0;
  /** number of the last grant */
  lastGrant = 0;
  /** when the last keep-alive came, and the newest grant that it knew of */
  renewedAtMs = 0;
  renewedSeen = 0;
  /** the part of the record that only a take-over changes, encoded; null: to be encoded */
  profile: Uint8Array | null = null;

  /** all tickets by request id, in the order of their numbers */
  readonly requests = new Map<string, Ticket>();
  /** tickets that wait or are locked, by object */
  readonly byObject = new Map<string, Ticket>();
  readonly waiting = new Set<Ticket>();
  /** what it owns and holds; a granted detached ticket is its handle's */
  heldCount = 0;
  /** locked, owned by the session, not covered by its last keep-alive */
  readonly fresh = new OrderedTree<number, Ticket>();
  /** the rest of what it owns, by duration */
  readonly groups = new Map<number, RenewalGroup>();
  /** taken by force, and it did not confirm yet that it heard: until then its holder relies on the duration */
  readonly unheard = new Set<Ticket>();
  /** digest over what it owns */
  digestSum = 0;
  digestXor = 0;
  digestCount = 0;
  /** waits that failed lately, so that a retry hears the same */
  failed: Map<string, FailedRequest> | null = null;

  sweepScheduled = false;
  sweepRound: Iterator<Ticket> | null = null;

  constructor(
    readonly id: string,
    readonly secretHash: string,
    public holder: Holder,
  ) {
    this.idNode = new OrderedNode<string, Session>(id, this, 0);
  }

  get timerKey(): string {
    return this.id;
  }

  get kicked(): boolean {
    return this.ending === "kicked" || this.ending === "kicked-dead";
  }

  /** When its waiting tickets are dropped, unless it is heard of before. */
  get silentAtMs(): number {
    return this.heardMs + this.graceMs;
  }
}

/** Keeps an object free for a while after an abnormal loss. */
export class Delay implements Recorded, Timed {
  readonly kind = "delay";
  dirty = false;
  stored = false;
  gone = false;
  readonly timerClass = TIMER_CLASS.delay;
  timerMs = 0;
  timerIndex = -1;

  constructor(
    readonly object: LockObject,
    public untilMs: number,
  ) {}

  get timerKey(): string {
    return this.object.name;
  }
}

/** A lock that its holder lost, remembered so that it hears so when it comes back. */
export class LostLock implements Recorded {
  readonly kind = "lost";
  dirty = false;
  stored = false;
  gone = false;

  constructor(
    readonly number: number,
    readonly handle: string,
    readonly token: number,
    readonly reason: LossReason,
    /** rises with each loss */
    readonly order: number,
  ) {}
}

/** A wait that failed, remembered for a retry of the same request. */
export class FailedRequest implements Recorded {
  readonly kind = "failed";
  dirty = false;
  stored = false;
  gone = false;

  constructor(
    readonly number: number,
    readonly session: string,
    readonly request: string,
    readonly code: LockFailure,
    readonly message: string,
    /** rises with each failure */
    readonly order: number,
  ) {}
}

/** The counters. Each only rises, also across restarts. */
export class Meta implements Recorded {
  readonly kind = "meta";
  dirty = false;
  stored = false;
  gone = false;
  lastNumber = 0;
  lastToken = 0;
  lastEventId = 0;
}

export type Entity = Ticket | Session | Delay | LostLock | FailedRequest | Meta;
export type Timer = Ticket | RenewalGroup | Session | Delay;

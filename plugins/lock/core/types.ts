/**
 * The vocabulary of the lock table: commands that go in, effects that come out. Values only: no
 * clock, socket, storage or random source. Times are milliseconds on the engine's own timeline,
 * which never goes back; `wallMs` is carried for people and decides nothing.
 */

export type LockMode = "exclusive" | "shared" | "semaphore";

/** The two readings that every step gets. */
export interface Instant {
  nowMs: number;
  wallMs: number;
}

/** Who asks, for listings and messages. */
export interface Holder {
  name: string;
  host: string;
  pid: number;
  program: string;
  address: string;
  /** whole command line, only when its owner chose to share it */
  commandLine?: string;
}

/** What is asked for. Validated and in range; objects sorted by UTF-16 code units and distinct. */
export interface LockSpec {
  objects: readonly string[];
  mode: LockMode;
  /** semaphore: permits of the object, else 1 */
  permits: number;
  /** semaphore: permits taken by this ticket, else 1 */
  count: number;
  /** how long to wait for the grant; 0: now or not at all; null: without end */
  waitMs: number | null;
  durationMs: number;
  unlockDurationMs: number;
  /** after an abnormal loss the objects stay free this long */
  lockDelayMs: number;
  value: string | null;
  /** owned by its handle once granted, instead of by its session */
  detached: boolean;
  /** answer `deadlock` instead of waiting in a cycle for ever */
  detectDeadlock: boolean;
  /** push QUEUE when the position changes */
  reportQueue: boolean;
  /** handles of held locks on whose behalf this one is asked for (nested exec) */
  parents: readonly string[];
  commandLine?: string;
}

/** Everything that can happen to the table. Applied in one order, each with its Instant. */
export type LockCommand =
  /** a session is opened, or taken over by a higher generation with the same secret */
  | { kind: "open"; session: string; secretHash: string; generation: number; graceMs: number; holder: Holder }
  /** the connection that carried this generation is gone */
  | { kind: "disconnect"; session: string; generation: number }
  /** the client says goodbye: waiting tickets go, held ones run out, the session is forgotten after them */
  | { kind: "close"; session: string }
  /** `message` is the number of the client's newest message that was processed before this one or is this one */
  | { kind: "lock"; session: string; request: string; spec: LockSpec; handle: string; message: number }
  | { kind: "cancel"; session: string; request: string; message: number }
  /** `by`: the session that asks, if any; another session that owns the lock is told that it is gone */
  | { kind: "unlock"; handle: string; by?: string }
  /** keep-alive of the session and renewal of what it holds; `seen` is the newest grant number it knows */
  | { kind: "renew"; session: string; seen: number; held: HeldClaim; message: number }
  /** `value`: what listings show from now on; absent: as before */
  | { kind: "renewHandle"; handle: string; durationMs: number | null; value?: string }
  /**
   * force: names the exact token. The victim is told; its objects go on after its unlock duration, counted
   * from when its session has confirmed that it heard, or else from the end of its duration. `dead`: whoever
   * forces states that the holder does nothing any more, so it counts from now.
   */
  | { kind: "release"; object: string; token: number; reason: string; by: string; dead?: boolean }
  /** force-release of all that a session holds, and the end of the session */
  | { kind: "kick"; session: string; reason: string; by: string; dead?: boolean }
  /** deadlines and grants that are due; bounded work, repeat while `more` */
  | { kind: "tick" }
  /** first command after recovery: nobody is connected; after a reboot leases start anew */
  | { kind: "restart"; rebooted: boolean };

/** What a session says it holds among grants up to `seen`: all tokens, or their count and digest. */
export type HeldClaim = { tokens: readonly number[] } | { count: number; digest: readonly [number, number] };

export interface Grant {
  session: string;
  request: string;
  objects: readonly string[];
  handle: string;
  token: number;
  /** the whole duration: the lease runs from this step's nowMs for a fresh grant */
  leftMs: number;
  durationMs: number;
  unlockDurationMs: number;
  /** newest message of the session processed before this attempt to grant */
  message: number;
  /** rises by one with each grant of the session */
  grantNumber: number;
}

export type LockFailure =
  | "timedout" | "duplicate" | "invalid" | "denied" | "overflow" | "deadlock" | "unavailable" | "cancelled" | "lost";

/** Names a blocker in messages: the object, its holder, its token and since when (nowMs timeline). */
export interface Blocker {
  object: string;
  holder: Holder;
  session: string;
  token: number | null;
  sinceMs: number;
  state: TicketState;
}

export type TicketState = "entering" | "waiting" | "locked" | "unlocking";

/** Pushed to a session that is not the one whose command is being answered, or later than its answer. */
export type LockEffect =
  | { kind: "locked"; grant: Grant }
  | {
      kind: "lockfailed";
      session: string;
      request: string;
      code: LockFailure;
      message: string;
      blockers?: readonly Blocker[];
      /** where the ticket stood in the queue when it failed */
      position?: number;
    }
  /** the lock is lost; its holder may go on stopping for `leftMs`, then it may go to the next */
  | { kind: "unlocking"; session: string; request: string; token: number; leftMs: number; reason: LossReason }
  | { kind: "unlocked"; session: string; request: string; token: number; reason: LossReason }
  | { kind: "queue"; session: string; request: string; position: number };

export type LossReason = "timedout" | "forced" | "kicked" | "lost";

/** A ticket as its session sees it after a take-over. */
export interface OwnTicket {
  request: string;
  objects: readonly string[];
  state: TicketState;
  /** present when granted */
  grant?: Grant;
}

/** The direct answer to the command. */
export type LockAnswer =
  | { kind: "opened"; tickets: readonly OwnTicket[]; resumed: boolean }
  | { kind: "locked"; grant: Grant }
  | { kind: "waiting"; position: number }
  | { kind: "unlocked"; token: number | null; /** false: it was waiting */ held: boolean }
  /** `lost`: tokens claimed that are not held any more; `mismatch`: send all tokens instead of the digest */
  | { kind: "renewed"; message: number; lost: readonly { token: number; reason: LossReason }[]; mismatch: boolean }
  | { kind: "renewedHandle"; token: number; leftMs: number; durationMs: number; unlockDurationMs: number }
  /** `freeMs`: the longest time until the objects go on to the next; less when the holder confirms or unlocks */
  | { kind: "releasing"; holder: Holder; session: string; freeMs: number }
  | { kind: "kicked"; tickets: number }
  | { kind: "done" }
  | { kind: "refused"; code: LockFailure | "notheld" | "notfound"; message: string; blockers?: readonly Blocker[]; position?: number };

export interface StepResult {
  answer: LockAnswer;
  effects: readonly LockEffect[];
  /** work is left that is already due: apply `tick` again, after other commands had a turn */
  more: boolean;
}

export type LockEventKind =
  | "waiting" | "granted" | "released" | "expiring" | "expired" | "forced" | "kicked" | "failed" | "cancelled" | "lost"
  | "value";

/** One line of the history; for several objects at once, one event an object. Ids rise by one. */
export interface LockEvent {
  id: number;
  wallMs: number;
  event: LockEventKind;
  object: string;
  ticket: string;
  mode: LockMode;
  session: string;
  holder: Holder;
  token?: number;
  waitedMs?: number;
  heldMs?: number;
  reason?: string;
  /** of a `value` event: what the holder shows from now on */
  value?: string;
}

export interface LockLimits {
  /** distinct objects that have tickets */
  objectsMax: number;
  ticketsMax: number;
  ticketsPerSessionMax: number;
  waitersPerObjectMax: number;
  objectsPerTicketMax: number;
  sessionsMax: number;
  /** lost handles that are remembered, so that their owner hears `lost` instead of `notheld` */
  lostMax: number;
  /** grants, expiries and drops carried out in one step before `more` is set */
  workPerStepMax: number;
}

/** One row of a listing. */
export interface TicketView {
  object: string;
  ticket: string;
  /** order within the object; with `object` the cursor of a page */
  number: number;
  state: TicketState;
  mode: LockMode;
  permits?: number;
  count?: number;
  holder: Holder;
  session: string;
  detached: boolean;
  token?: number;
  /** since when in this state */
  sinceMs: number;
  /** end of the duration */
  expiresMs?: number;
  /** end of the grace */
  freeAtMs?: number;
  waitDeadlineMs?: number;
  /** 1 is next; absent when held */
  position?: number;
  value?: string;
}

export interface SessionView {
  session: string;
  holder: Holder;
  generation: number;
  connected: boolean;
  /** last heard of */
  heardMs: number;
  graceMs: number;
  held: number;
  waiting: number;
}

export interface LockStatistics {
  objects: number;
  tickets: number;
  held: number;
  waiting: number;
  sessions: number;
  lastToken: number;
  lastNumber: number;
}

/** One step of a deadlock: the waiter, the object it waits for, and who is in its way there. */
export interface WaitEdge {
  waiter: TicketView;
  object: string;
  holder: TicketView;
}

/** Who holds an object and who waits for it. */
export interface WhyView {
  /** the first ones, in ticket order */
  holders: readonly TicketView[];
  holdersTotal: number;
  /** the first ones, in ticket order */
  waiters: readonly TicketView[];
  waitersTotal: number;
  /** a lock-delay keeps the object free until then */
  delayUntilMs: number | null;
  /** the deadlock that one of the waiters shown is part of; empty: none */
  cycle: readonly WaitEdge[];
}

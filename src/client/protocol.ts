/**
 * The lock protocol as both sides speak it: bodies of requests, answers and pushes, their limits and
 * the digest of held tokens. docs/protocol.md describes the same for other languages. Times on the
 * wire are relative milliseconds. Knows no socket.
 */

/** Version of the wire protocol; a HELLO with another one is refused. */
export const PROTOCOL_VERSION = 1;

export const LIMITS = {
  objectBytesMax: 1024,
  objectsPerTicketMax: 64,
  valueBytesMax: 4096,
  requestBytesMax: 64,
  /** name and host in HELLO */
  nameBytesMax: 255,
  programBytesMax: 4096,
  waitMsMax: 7 * 86_400_000,
  durationMsMin: 500,
  durationMsMax: 7 * 86_400_000,
  unlockDurationMsMin: 500,
  unlockDurationMsMax: 3_600_000,
  lockDelayMsMax: 3_600_000,
  graceMsMin: 500,
  graceMsMax: 60_000,
  permitsMax: 1_000_000,
  pageLimitMax: 1000,
} as const;

export const DEFAULTS = {
  durationMs: 10_000,
  detachedDurationMs: 30_000,
  unlockDurationMs: 5_000,
  graceMs: 5_000,
  libraryWaitMs: 5_000,
} as const;

export type LockMode = "exclusive" | "shared" | "semaphore";

/** SESSION: opens a session, or takes it over with a higher generation and the same secret. */
export interface SessionRequest {
  /** client-chosen, 22 characters of base64url (128 random bits); public */
  session: string;
  /** client-chosen, 16 to 64 bytes; proves ownership, never shown */
  secret: Uint8Array;
  /** rises by one with each connection that carries the session */
  generation: number;
  grace: number;
}

/** Answer SESSION. `tickets` is what the session owns on the server, for a take-over. */
export interface SessionAnswer {
  session: string;
  generation: number;
  grace: number;
  resumed: boolean;
  tickets: readonly SessionTicket[];
}

export interface SessionTicket {
  request: string;
  objects: readonly string[];
  state: "entering" | "waiting" | "locked" | "unlocking";
  grant?: LockedBody;
}

/**
 * LOCK. Answered by LOCKED or LOCKFAILED with the same frame id, by its deadline. When one request is
 * sent again while it waits, what comes later has the newest frame id; over another connection, id 0.
 */
export interface LockRequest {
  /** client-chosen, unique in the session: a retry with the same one finds the same ticket */
  request: string;
  objects: readonly string[];
  mode?: LockMode;
  permits?: number;
  count?: number;
  /** null or absent: without end; 0: now or not at all */
  wait?: number | null;
  duration?: number;
  unlockDuration?: number;
  lockDelay?: number;
  value?: string | null;
  detached?: boolean;
  detectDeadlock?: boolean;
  queue?: boolean;
  parents?: readonly string[];
  commandLine?: string;
}

export interface LockedBody {
  request: string;
  objects: readonly string[];
  handle: string;
  token: number;
  left: number;
  duration: number;
  unlockDuration: number;
  /** newest frame id of this session that was processed before this attempt to grant began */
  processed: number;
  /** number of the grant within the session; RENEW's `seen` refers to it */
  grant: number;
}

export interface LockFailedBody {
  request: string;
  code: string;
  message: string;
  holders?: readonly BlockerBody[];
  position?: number;
}

export interface BlockerBody {
  object: string;
  holder: HolderBody;
  token?: number;
  /** how long it has been in this state, milliseconds */
  sinceAgo: number;
  state: string;
}

export interface HolderBody {
  name: string;
  host: string;
  pid: number;
  program: string;
  address: string;
  session: string;
  commandLine?: string;
}

/** RENEW of a whole session: with the tokens it holds among grants up to `seen`, or their digest. */
export interface RenewSessionRequest {
  seen: number;
  tokens?: readonly number[];
  count?: number;
  digest?: readonly [number, number];
}

/** RENEW of one lock by its handle; `duration` changes it from now on; only of a detached one it may be shorter. `value` is shown instead of the one before. */
export interface RenewHandleRequest {
  handle: string;
  duration?: number;
  value?: string | null;
}

/** RENEWED for a session: every lock it named and that is not in `lost` runs its whole duration again. */
export interface RenewedSessionBody {
  processed: number;
  lost: readonly { token: number; reason: string }[];
  mismatch: boolean;
}

export interface RenewedHandleBody {
  token: number;
  left: number;
  duration: number;
  unlockDuration: number;
  processed: number;
}

/**
 * Types of requests and of the frame that answers each, with the same id. Instead of it may come ERROR
 * {code, message, hint?, retryable}, for LOCK, RENEW and UNLOCK also LOCKFAILED, and UNKNOWN {type}
 * from a server that does not know the request. A LOCK may follow SESSION without waiting for its answer.
 */
export const ANSWERS = {
  SESSION: "SESSION",
  LOCK: "LOCKED",
  RENEW: "RENEWED",
  UNLOCK: "UNLOCKED",
  LISTTICKETS: "TICKETLIST",
  EVENTS: "EVENTS",
  UNFOLLOW: "UNFOLLOWED",
  WHY: "WHY",
  STATUS: "STATUS",
  SESSIONS: "SESSIONS",
  KICK: "KICKED",
  RELEASE: "RELEASING",
  WAITFREE: "FREE",
  GOODBYE: "GOODBYE",
  PING: "PONG",
} as const;

/** UNLOCK by handle, or of a request that may still be waiting. */
export type UnlockRequest = { handle: string } | { request: string };
export interface UnlockedBody {
  token: number | null;
  held: boolean;
}

/** Pushes, frame id 0. */
export interface UnlockingPush {
  request: string;
  token: number;
  left: number;
  reason: string;
}
export interface UnlockedPush {
  request: string;
  token: number;
  reason: string;
}
export interface QueuePush {
  request: string;
  position: number;
}

/** LISTTICKETS, answered by TICKETLIST; `after` is the `next` of the page before. */
export interface ListRequest {
  prefix?: string;
  after?: readonly [object: string, number: number] | null;
  limit?: number;
}
export interface TicketBody {
  object: string;
  ticket: string;
  state: string;
  mode: LockMode;
  permits?: number;
  count?: number;
  holder: HolderBody;
  detached: boolean;
  token?: number;
  /** relative to the answer, milliseconds: how long ago, or how long from now (may be negative) */
  sinceAgo: number;
  expiresIn?: number;
  freeIn?: number;
  waitLeft?: number;
  position?: number;
  value?: string;
}
export interface TicketListBody {
  tickets: readonly TicketBody[];
  next: readonly [object: string, number: number] | null;
}

/** EVENTS: a page of the history, and with `follow` EVENT frames of the same id from then on. */
export interface EventsRequest {
  prefix?: string;
  /** first id wanted; absent with `follow`: only new ones; absent without: the oldest kept */
  from?: number;
  follow?: boolean;
  limit?: number;
}
export interface EventBody {
  id: number;
  /** wall clock of the server, milliseconds since 1970; for people only */
  time: number;
  event: string;
  object: string;
  ticket: string;
  mode: LockMode;
  holder: HolderBody;
  token?: number;
  waited?: number;
  held?: number;
  reason?: string;
  /** of a `value` event: what is shown from now on */
  value?: string;
}
export interface EventsBody {
  events: readonly EventBody[];
  /** first id kept; a `from` below it was compacted away */
  oldest: number;
  /** id that the next event will have */
  next: number;
}

/** UNFOLLOW: no more EVENT frames for the EVENTS request with the id `follow`. Answered UNFOLLOWED {}. */
export interface UnfollowRequest {
  follow: number;
}

/** WHY object. */
export interface WhyBody {
  object: string;
  holders: readonly TicketBody[];
  waiters: readonly TicketBody[];
  waitersTotal: number;
  /** time until a lock-delay ends, when one keeps the object free */
  delayLeft?: number;
  /** the deadlock that a waiter of this object is part of: who waits for what held by whom */
  cycle: readonly CycleEdge[];
  events: readonly EventBody[];
}
export interface CycleEdge {
  waiter: HolderBody;
  object: string;
  holder: HolderBody;
}

/** SESSIONS, in pages; `after` is the `next` of the page before. */
export interface SessionsRequest {
  after?: string | null;
  limit?: number;
}
export interface SessionListBody {
  sessions: readonly SessionBody[];
  next: string | null;
}

/** KICK: force-release of all that a session holds, and its end. */
export interface KickRequest {
  session: string;
  reason?: string;
  /** as in RELEASE */
  dead?: boolean;
}
export interface KickedBody {
  /** tickets that it had */
  tickets: number;
}

/**
 * RELEASE: force-release of one lock. The holder is told; its unlock duration is waited out from when its
 * session has confirmed that it heard, by a RENEW that does not claim the lock, or from the lease's end.
 */
export interface ReleaseRequest {
  object: string;
  token: number;
  reason?: string;
  /** states that the holder does nothing any more: only its unlock duration is waited out */
  dead?: boolean;
}
export interface ReleasingBody {
  holder: HolderBody;
  /** the longest time until the object goes on to the next, milliseconds */
  freeIn: number;
}

/** WAITFREE: answered FREE {} when nobody holds the object, or ERROR `timedout` after `wait`. */
export interface WaitFreeRequest {
  object: string;
  /** null: without end */
  wait: number | null;
}

export interface SessionBody {
  session: string;
  holder: HolderBody;
  generation: number;
  connected: boolean;
  heardAgo: number;
  grace: number;
  held: number;
  waiting: number;
}

export interface StatusBody {
  name: string;
  mode: string;
  version: string;
  ready: boolean;
  reason: string | null;
  readyIn: number | null;
  cluster: {
    id: string;
    size: number;
    quorum: number;
    members: readonly { name: string; address: string; role: string; connected: boolean; version: string; lag: number }[];
  };
  leaders: readonly string[];
  epoch: number;
  term: number;
  commit: number;
  applied: number;
  tickets: number;
  waiting: number;
  /** milliseconds */
  uptime: number;
}

/**
 * Order-independent digest of a set of tokens: [sum, xor] of the 32-bit finalizer of MurmurHash3
 * (Appleby) over (low word xor high word x 0x9e3779b1). Lets one RENEW stand for any number of locks.
 */
export function tokenDigest(tokens: Iterable<number>): readonly [number, number] {
  let sum = 0;
  let xor = 0;
  for (const token of tokens) {
    const mixed = mixToken(token);
    sum = (sum + mixed) >>> 0;
    xor = (xor ^ mixed) >>> 0;
  }
  return [sum, xor];
}

/** The summand of one token, so that a holder set can keep its digest up to date. */
export function mixToken(token: number): number {
  let h = (token >>> 0) ^ Math.imul(Math.floor(token / 2 ** 32), 0x9e3779b1);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/**
 * The client library's face: `connect`, locks, and the requests that look at or change a lock service.
 * Joins connection, session and plain requests; each of their rules lives in its own file.
 */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { Clock, Timer, Timers } from "../clock/clock.ts";
import { portableClock, portableTimers } from "../clock/portable.ts";
import { LockdError } from "../errors.ts";
import type { Body, Frame } from "../wire/types.ts";
import { parseRenewedHandle, parseUnlocked } from "./answers.ts";
import type { Channel, ClientIdentity, ServerIdentity } from "./channel.ts";
import { Dialer } from "./dialer.ts";
import { parseEndpoint } from "./endpoint.ts";
import { type EventOptions, streamEvents } from "./event-stream.ts";
import { LeaseClock } from "./lease-clock.ts";
import { Link } from "./link.ts";
import { callBack, Lock, LockState } from "./lock.ts";
import { lockSpec, type LockOptions, waitMsOf } from "./lock-options.ts";
import {
  DEFAULTS,
  type EventBody,
  type KickedBody,
  type ReleasingBody,
  type RenewedHandleBody,
  type SessionBody,
  type StatusBody,
  type TicketBody,
  type UnlockedBody,
  type WhyBody,
} from "./protocol.ts";
import { ConnectionBrokenError, type FrameSink, Requests, type RequestType } from "./requests.ts";
import { parseKicked, parseReleasing, parseSessionList, parseStatus, parseTicketList, parseWhy } from "./schemas.ts";
import { Session } from "./session.ts";
import type { Ticket } from "./ticket.ts";
import { type Dial, dialTcp, type Resolve, resolveHost } from "./transport.ts";

export interface ConnectOptions {
  /** `host:port` or `[v6]:port`, tried in turn */
  servers: readonly string[];
  /** how to find a server: absent, one round over all; else rounds until this many milliseconds are over, null: without end */
  wait?: number | null | undefined;
  signal?: AbortSignal | undefined;
  /** for one server with all its addresses, default 2000 */
  connectTimeoutMs?: number | undefined;
  /** for one plain request such as `status`, default 10,000 */
  requestTimeoutMs?: number | undefined;
  /** how long the service keeps waiting requests of a client that it does not hear of, default 5000 */
  graceMs?: number | undefined;
  /** who asks, for listings; default: host name */
  name?: string | undefined;
  host?: string | undefined;
  pid?: number | undefined;
  program?: string | undefined;
  software?: string | undefined;
  /** for tests */
  clock?: Clock | undefined;
  timers?: Pick<Timers, "after"> | undefined;
  random?: (() => number) | undefined;
  dial?: Dial | undefined;
  resolve?: Resolve | undefined;
}

/**
 * Finds a server. Rejects with LockdError: `unavailable` naming each server and why it could not be
 * used, the servers' own refusal, `invalid` for an address, `cancelled` when the signal aborts.
 */
export async function connect(options: ConnectOptions): Promise<LockdClient> {
  const client = new LockdClient(options);
  try {
    await client.connected(options.wait === undefined ? 0 : options.wait, options.signal);
    return client;
  } catch (error) {
    await client.close();
    throw error;
  }
}

/** While a lock is held the clock is looked at this often: a suspended machine stops timers, but not leases. */
const WATCH_MS = 500;
const CONNECT_TIMEOUT_MS = 2000;
const REQUEST_TIMEOUT_MS = 10_000;
const CLOSE_MS_MAX = 2000;
/** Beyond its own time limit, a request that waits at the server gets this much. */
const ANSWER_SLACK_MS = 1000;
const RETRY_MS = 50;
const PAGE = 500;

export class LockdClient implements AsyncDisposable {
  readonly #leaseClock: LeaseClock;
  readonly #timers: Pick<Timers, "after">;
  readonly #requestTimeoutMs: number;
  readonly #requests: Requests;
  readonly #session: Session;
  readonly #link: Link;
  #frameId = 0;
  #nowMs: number;
  #timer: Timer | null = null;
  #timerDueMs = Number.POSITIVE_INFINITY;
  /** loops that want a connection besides the session */
  #followers = 0;
  #closed: Promise<void> | null = null;
  #onIdle: (() => void) | null = null;

  /** Use `connect`: it also waits for the connection. */
  constructor(options: ConnectOptions) {
    if (options.servers.length === 0) throw new LockdError("invalid", "connect: no server is named");
    const servers = options.servers.map(parseEndpoint);
    const clock = options.clock ?? portableClock();
    const timers = options.timers ?? portableTimers(clock);
    const random = options.random ?? Math.random;
    const nextFrameId = () => this.#nextFrameId();
    this.#leaseClock = new LeaseClock(clock);
    this.#nowMs = this.#leaseClock.now();
    this.#timers = timers;
    this.#requestTimeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
    this.#requests = new Requests({ nextFrameId, timers });
    this.#session = new Session(
      {
        nextFrameId,
        send: (type, id, body) => this.#link.channel?.send(type, id, body),
        reconnect: (reason) => this.#link.channel?.fail(reason),
        newIdentity: () => ({ session: randomBytes(16).toString("base64url"), secret: new Uint8Array(randomBytes(32)) }),
        random,
        unreachable: () => this.#link.lastError,
        idle: () => this.#onIdle?.(),
      },
      { graceMs: options.graceMs ?? DEFAULTS.graceMs },
    );
    const dialer = new Dialer({
      servers,
      identity: identityOf(options),
      connectTimeoutMs: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
      dial: options.dial ?? dialTcp,
      resolve: options.resolve ?? resolveHost,
      leaseClock: this.#leaseClock,
      timers,
      random,
      nextFrameId,
    });
    this.#link = new Link({
      dialer,
      leaseClock: this.#leaseClock,
      timers,
      owner: { connected: (channel) => this.#onConnected(channel), wanted: () => this.#wanted() },
    });
  }

  /** Finds a server within `waitMs` (at least one round, null: without end). Rejects as `connect`. */
  connected(waitMs: number | null, signal?: AbortSignal): Promise<void> {
    return this.#link.connect(waitMs, signal);
  }

  /** Public id of this client's session, as listings show it. */
  get session(): string {
    return this.#session.id;
  }

  /** The server that this client is connected to at the moment. */
  get server(): ServerIdentity | null {
    return this.#link.channel?.server ?? null;
  }

  // Locks.

  /**
   * Waits for a lock on all the objects and returns it held. Survives broken connections and restarts
   * of the servers for the whole wait (`wait`: 5 s unless given, null: without end). Rejects with
   * LockFailedError or LockdError: `timedout`, `duplicate`, `deadlock`, `overflow`, `denied`, `invalid`,
   * `unavailable` (no server in all that time), `cancelled` (the signal aborted: the request is then
   * gone at the server, too, or the server could not confirm that within a second).
   */
  lock(objects: string | readonly string[], options: LockOptions = {}): Promise<Lock> {
    return new Promise((resolve, reject) => {
      const spec = lockSpec(objects, options);
      const waitMs = waitMsOf(options);
      const { signal, onQueue } = options;
      this.#mustBeOpen();
      if (signal?.aborted === true) throw cancelled(spec.objects, signal);
      if (this.#link.channel?.congested === true) {
        throw new LockdError("overflow", `lock ${spec.objects.join(", ")}: too much waits to be sent`);
      }
      let abort: (() => void) | null = null;
      const ticket = this.#session.lock(
        spec,
        waitMs,
        {
          granted: (granted) => {
            if (abort !== null) signal?.removeEventListener("abort", abort);
            resolve(this.#hold(granted));
          },
          failed: (error) => {
            if (abort !== null) signal?.removeEventListener("abort", abort);
            reject(error);
          },
          queued: (position) => {
            if (onQueue !== undefined) callBack(() => onQueue(position));
          },
        },
        this.#leaseClock.now(),
      );
      if (signal !== undefined) {
        abort = () => {
          this.#session.cancel(ticket, cancelled(spec.objects, signal), this.#leaseClock.now());
          this.#arm();
        };
        signal.addEventListener("abort", abort);
      }
      this.#link.wake();
      this.#arm();
    });
  }

  #hold(ticket: Ticket): Lock {
    const state = new LockState(ticket.deadlineMs);
    ticket.holder = state;
    const { grant } = ticket;
    if (grant === null) throw new LockdError("failed", "hold lock: granted without a grant");
    return new Lock(grant, state, {
      check: () => this.#check(),
      release: () => {
        this.#session.release(ticket, this.#leaseClock.now());
        this.#arm();
      },
    });
  }

  /** Releases or withdraws by handle, whoever owns it. Rejects with `notheld` or `lost`. */
  async unlockHandle(handle: string): Promise<UnlockedBody> {
    let tries = 0;
    return this.#askAgain("UNLOCK", () => {
      tries += 1;
      return { handle };
    }).then(parseUnlocked, (error: unknown) => {
      // a repeated UNLOCK that finds nothing: the first one was done, its answer was lost
      if (tries > 1 && error instanceof LockdError && error.code === "notheld") return { token: null, held: true };
      throw error;
    });
  }

  /** Renews one lock by its handle, `durationMs` changes its duration. Rejects with `lost` or `notheld`. */
  async renewHandle(handle: string, durationMs?: number): Promise<RenewedHandleBody> {
    return parseRenewedHandle(await this.#askAgain("RENEW", () => ({ handle, duration: durationMs })));
  }

  // Looking at the service.

  /** Tickets of the objects whose names start with `prefix`, in the order of objects and queues, in pages as they are read. */
  async *list(prefix = ""): AsyncGenerator<TicketBody, void, undefined> {
    let after: readonly [string, number] | null = null;
    do {
      const page = parseTicketList(await this.#ask("LISTTICKETS", { prefix, after, limit: PAGE }));
      yield* page.tickets;
      after = page.next;
    } while (after !== null);
  }

  /** Who holds the object, who waits, its recent history, and a deadlock that it is part of. */
  async why(object: string): Promise<WhyBody> {
    return parseWhy(await this.#ask("WHY", { object }));
  }

  async status(): Promise<StatusBody> {
    return parseStatus(await this.#ask("STATUS", {}));
  }

  async *sessions(): AsyncGenerator<SessionBody, void, undefined> {
    let after: string | null = null;
    do {
      const page = parseSessionList(await this.#ask("SESSIONS", { after, limit: PAGE }));
      yield* page.sessions;
      after = page.next;
    } while (after !== null);
  }

  /** The history, and with `follow` what happens from then on, over broken connections without gap or repetition. */
  async *events(options: EventOptions = {}): AsyncGenerator<EventBody, void, undefined> {
    this.#followers += 1;
    try {
      yield* streamEvents(
        {
          ask: (body, sink) => this.#ask("EVENTS", body, { sink }),
          forget: (sink) => this.#requests.forget(sink),
          retry: (_error, signal) => this.#link.connect(options.follow === true ? null : 0, signal),
        },
        options,
      );
    } catch (error) {
      if (options.signal?.aborted !== true) throw error;
    } finally {
      this.#followers -= 1;
    }
  }

  /** Resolves when nobody holds the object; rejects with `timedout` after `waitMs` (null: never). */
  async waitFree(object: string, waitMs: number | null, signal?: AbortSignal): Promise<void> {
    const untilMs = waitMs === null ? Number.POSITIVE_INFINITY : this.#leaseClock.fresh() + waitMs;
    for (;;) {
      const leftMs = waitMs === null ? null : Math.max(0, Math.round(untilMs - this.#leaseClock.fresh()));
      const timeoutMs = leftMs === null ? Number.MAX_SAFE_INTEGER : leftMs + ANSWER_SLACK_MS;
      try {
        await unlessAborted(this.#ask("WAITFREE", { object, wait: leftMs }, { timeoutMs }), signal);
        return;
      } catch (error) {
        if (!(error instanceof ConnectionBrokenError) || this.#leaseClock.fresh() >= untilMs) throw error;
        await this.#link.connect(leftMs, signal);
      }
    }
  }

  // Changing the service.

  /** Takes a lock away from its holder, named by the exact token. Rejects with `notfound` when that is not held. */
  async releaseByForce(object: string, token: number, reason?: string): Promise<ReleasingBody> {
    return parseReleasing(await this.#askOnce("RELEASE", { object, token, reason }));
  }

  /** Ends a session and takes away all that it holds. Rejects with `notfound`. */
  async kick(session: string, reason?: string): Promise<KickedBody> {
    return parseKicked(await this.#askOnce("KICK", { session, reason }));
  }

  // The end.

  /**
   * Releases what is held, withdraws what waits, says goodbye and ends the connection; within two
   * seconds whatever the server does. Detached locks stay. Never rejects.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#session.releaseAll(this.#leaseClock.now());
    if (this.#session.active) await this.#idleWithin(CLOSE_MS_MAX);
    const channel = this.#link.channel;
    if (channel !== null && this.#session.opened) {
      const farewell = this.#requests.ask(channel, "GOODBYE", { session: this.#session.id }, CLOSE_MS_MAX);
      // the session ends by its grace when nobody hears the goodbye
      await farewell.catch(() => undefined);
    }
    this.#link.close();
    this.#timer?.cancel();
    this.#timer = null;
  }

  #idleWithin(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#timers.after(ms, resolve);
      this.#onIdle = () => {
        timer.cancel();
        resolve();
      };
    });
  }

  #mustBeOpen(): void {
    if (this.#closed !== null) throw new LockdError("cancelled", "use client: it was closed");
  }

  // Plain requests.

  async #ask(type: RequestType, body: Body, options: { timeoutMs?: number; sink?: FrameSink | null } = {}): Promise<Body> {
    this.#mustBeOpen();
    const channel = await this.#link.ensure();
    const answer = this.#requests.ask(channel, type, body, options.timeoutMs ?? this.#requestTimeoutMs, options.sink);
    this.#arm();
    return answer;
  }

  /** For what may be done twice without harm: asked again when the connection breaks, within the time of one request. */
  async #askAgain(type: RequestType, body: () => Body): Promise<Body> {
    const untilMs = this.#leaseClock.fresh() + this.#requestTimeoutMs;
    for (;;) {
      try {
        return await this.#ask(type, body());
      } catch (error) {
        const leftMs = untilMs - this.#leaseClock.fresh();
        if (!(error instanceof ConnectionBrokenError) || leftMs <= RETRY_MS) throw error;
        await this.#link.connect(leftMs);
      }
    }
  }

  /** For what must not be done twice: when the connection breaks after it was sent, the outcome is open. */
  async #askOnce(type: RequestType, body: Body): Promise<Body> {
    try {
      return await this.#ask(type, body);
    } catch (error) {
      if (!(error instanceof ConnectionBrokenError)) throw error;
      throw new LockdError("unknown", `ask ${type}: it may or may not have been done: ${error.message}`, { cause: error });
    }
  }

  // Connection and time.

  #nextFrameId(): number {
    this.#frameId += 1;
    return this.#frameId;
  }

  #wanted(): boolean {
    return this.#session.active || (this.#followers > 0 && this.#requests.active);
  }

  #onConnected(channel: Channel): void {
    channel.attach({
      received: () => {
        this.#check();
      },
      frame: (frame: Frame) => {
        if (!this.#requests.frame(frame)) this.#session.frame(frame, this.#nowMs);
      },
      handled: () => this.#arm(),
      closed: (reason) => {
        this.#session.disconnected();
        this.#link.lost(reason);
        this.#requests.disconnected(reason);
      },
    });
    this.#session.connected(this.#leaseClock.now());
    this.#arm();
  }

  /** Looks at the clock before anything is said to be held. */
  #check(): number {
    this.#nowMs = this.#leaseClock.fresh();
    if (this.#session.dueMs <= this.#nowMs) this.#session.tick(this.#nowMs);
    return this.#nowMs;
  }

  #arm(): void {
    const channel = this.#link.channel;
    let dueMs = this.#session.dueMs;
    if (channel !== null && channel.dueMs < dueMs) dueMs = channel.dueMs;
    if (dueMs >= this.#timerDueMs || this.#link.closed) return;
    const nowMs = this.#leaseClock.now();
    if (this.#session.holding) dueMs = Math.min(dueMs, nowMs + WATCH_MS);
    this.#timer?.cancel();
    this.#timerDueMs = dueMs;
    this.#timer = this.#timers.after(Math.max(0, dueMs - nowMs), () => {
      this.#timerDueMs = Number.POSITIVE_INFINITY;
      this.#timer = null;
      const atMs = this.#check();
      this.#link.channel?.tick(atMs);
      this.#arm();
    });
  }
}

const cancelled = (objects: readonly string[], signal: AbortSignal): LockdError =>
  new LockdError("cancelled", `lock ${objects.join(", ")}: cancelled while waiting`, { cause: signal.reason });

function identityOf(options: ConnectOptions): ClientIdentity {
  const host = options.host ?? hostname();
  return {
    name: options.name ?? host,
    host,
    pid: options.pid ?? process.pid,
    program: options.program ?? process.argv0,
    software: options.software ?? "lockd client library",
  };
}

/** Rejects with `cancelled` when the signal aborts first; the answer is then ignored. */
function unlessAborted<T>(answer: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return answer;
  return new Promise((resolve, reject) => {
    const abort = () => reject(new LockdError("cancelled", "wait: cancelled", { cause: signal.reason }));
    signal.addEventListener("abort", abort);
    if (signal.aborted) abort();
    answer.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

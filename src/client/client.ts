/**
 * The client library's face: `connect`, locks, and the requests that look at or change a lock service.
 * Only calls and their results; what runs behind them is runtime.ts.
 */
import { hostname } from "node:os";
import type { Clock, Timers } from "../clock/clock.ts";
import { portableClock, portableTimers } from "../clock/portable.ts";
import { assert, LockdError } from "../errors.ts";
import type { ClientSecurity } from "../security/client-security.ts";
import { clipped } from "../text.ts";
import { isFrameType } from "../wire/frame.ts";
import { unlessAborted } from "./abort.ts";
import { parseRenewedHandle, parseUnlocked } from "./answers.ts";
import type { ClientIdentity, ServerIdentity } from "./channel.ts";
import { type CampaignOptions, type Leader, Leadership, leaderOf, observeLeader, retryLater } from "./election.ts";
import { parseEndpoint } from "./endpoint.ts";
import { type EventOptions, streamEvents } from "./event-stream.ts";
import { callBack, Lock, LockState, runUnder } from "./lock.ts";
import { type LockOptions, lockSpec, waitMsOf } from "./lock-options.ts";
import {
  ANSWERS,
  DEFAULTS,
  type EventBody,
  type KickedBody,
  LIMITS,
  type ReleasingBody,
  type RenewedHandleBody,
  type SessionBody,
  type StatusBody,
  type TicketBody,
  type UnlockedBody,
  type WhyBody,
} from "./protocol.ts";
import { ReentrantLocks } from "./reentrant.ts";
import { ConnectionBrokenError } from "./requests.ts";
import { Runtime } from "./runtime.ts";
import { parseKicked, parseReleasing, parseSessionList, parseStatus, parseTicketList, parseWhy } from "./schemas.ts";
import type { Ticket } from "./ticket.ts";
import { type Dial, dialTcp, dialTls, type Resolve, resolveHost } from "./transport.ts";

/** How a lock, or all of a session, is taken away. */
export interface ForceOptions {
  /** kept in the history */
  reason?: string;
  /**
   * States that the holder does nothing any more. Without it a holder that cannot be told, because it stands
   * still or is cut off, keeps the lock until its lease ends; with it, and with the holder alive, two may run.
   */
  dead?: boolean;
}

/** What a plugin of the server answered. */
export interface PluginAnswer {
  type: string;
  /** as it came over the wire: nothing has looked at its fields yet */
  body: Readonly<Record<string, unknown>>;
}

export interface ConnectOptions {
  /** `host:port` or `[v6]:port`, tried in turn */
  servers: readonly string[];
  /** how to find a server: absent, one round over all; else rounds until this many milliseconds are over, null: without end */
  wait?: number | null | undefined;
  signal?: AbortSignal | undefined;
  /** called after each round without a server that is followed by another one */
  onRetry?: ((failure: LockdError) => void) | undefined;
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
  /** TLS and credentials; default: none */
  security?: ClientSecurity | undefined;
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
    await client.connected(options.wait === undefined ? 0 : options.wait, options.signal, options.onRetry);
    return client;
  } catch (error) {
    await client.close();
    throw error;
  }
}

const CONNECT_TIMEOUT_MS = 2000;
const REQUEST_TIMEOUT_MS = 10_000;
/** Beyond its own time limit, a request that waits at the server gets this much. */
const ANSWER_SLACK_MS = 1000;
const PAGE = 500;

/** A client of a lock service: one connection at a time, one session, any number of locks. Made by `connect`. */
export class LockdClient implements AsyncDisposable {
  readonly #runtime: Runtime;
  readonly #timers: Pick<Timers, "after">;
  readonly #reentrant: ReentrantLocks;
  #closed: Promise<void> | null = null;

  /** Use `connect`, which also waits for the connection. Throws LockdError `invalid` for a bad address. */
  constructor(options: ConnectOptions) {
    if (options.servers.length === 0) throw new LockdError("invalid", "connect: no server is named");
    const clock = options.clock ?? portableClock();
    const security = options.security ?? {};
    this.#timers = options.timers ?? portableTimers(clock);
    this.#runtime = new Runtime({
      servers: options.servers.map(parseEndpoint),
      identity: identityOf(options),
      connectTimeoutMs: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
      requestTimeoutMs: options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS,
      graceMs: options.graceMs ?? DEFAULTS.graceMs,
      clock,
      timers: this.#timers,
      random: options.random ?? Math.random,
      security,
      dial: options.dial ?? (security.tls === undefined ? dialTcp : dialTls(security.tls)),
      resolve: options.resolve ?? resolveHost,
    });
    this.#reentrant = new ReentrantLocks({
      timers: this.#timers,
      nowMs: () => this.#runtime.leaseClock.fresh(),
      request: (objects, lockOptions) => this.#request(objects, lockOptions),
    });
  }

  /** Finds a server within `waitMs` (at least one round, null: without end). Rejects as `connect`. */
  connected(waitMs: number | null, signal?: AbortSignal, onRetry?: (failure: LockdError) => void): Promise<void> {
    return this.#runtime.link.connect(waitMs, signal, onRetry && ((failure) => callBack(() => onRetry(failure))));
  }

  /** Public id of this client's session, as listings show it. */
  get session(): string {
    return this.#runtime.session.id;
  }

  /** The server that this client is connected to at the moment. */
  get server(): ServerIdentity | null {
    return this.#runtime.link.channel?.server ?? null;
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
    return options.reentrant === true ? this.#reentrant.lock(objects, options) : this.#request(objects, options);
  }

  /**
   * Runs `work` under a lock and gives the lock back, whatever happens. `work` gets the signal that aborts
   * when the lock is lost, with LockLostError as its reason. Resolves with what `work` returned; rejects with
   * what it threw, and with LockLostError when the lock was lost before it had finished.
   */
  async withLock<T>(
    objects: string | readonly string[],
    options: LockOptions,
    work: (signal: AbortSignal, lock: Lock) => T | Promise<T>,
  ): Promise<T> {
    return runUnder(await this.lock(objects, options), work);
  }

  #request(objects: string | readonly string[], options: LockOptions): Promise<Lock> {
    return new Promise((resolve, reject) => {
      const spec = lockSpec(objects, options);
      const waitMs = waitMsOf(options);
      const { signal, onQueue } = options;
      this.#runtime.mustBeOpen();
      if (signal?.aborted === true) throw cancelled(spec.objects, signal);
      if (this.#runtime.link.channel?.congested === true) {
        throw new LockdError("overflow", `lock ${spec.objects.join(", ")}: too much waits to be sent`);
      }
      let abort: (() => void) | null = null;
      const ticket = this.#runtime.session.lock(
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
        this.#runtime.leaseClock.now(),
      );
      if (signal !== undefined) {
        abort = () => {
          this.#runtime.session.cancel(ticket, cancelled(spec.objects, signal), this.#runtime.leaseClock.now());
          this.#runtime.arm();
        };
        signal.addEventListener("abort", abort);
      }
      this.#runtime.link.wake();
      this.#runtime.arm();
    });
  }

  #hold(ticket: Ticket): Lock {
    const state = new LockState(ticket.deadlineMs);
    ticket.holder = state;
    const { grant } = ticket;
    assert(grant !== null, "what is held was granted");
    return new Lock(grant, state, {
      check: () => this.#runtime.check(),
      release: () => {
        this.#runtime.session.release(ticket, this.#runtime.leaseClock.now());
        this.#runtime.arm();
      },
    });
  }

  /** Releases or withdraws by handle, whoever owns it. Rejects with `notheld` or `lost`. */
  async unlockHandle(handle: string): Promise<UnlockedBody> {
    let tries = 0;
    return this.#runtime.askAgain("UNLOCK", () => {
      tries += 1;
      return { handle };
    }).then(parseUnlocked, (error: unknown) => {
      // a repeated UNLOCK that finds nothing: the first one was done, its answer was lost
      if (tries > 1 && error instanceof LockdError && error.code === "notheld") return { token: null, held: true };
      throw error;
    });
  }

  /** Renews one lock by its handle, and changes its duration (ms) or value if given. Rejects with `lost` or `notheld`. */
  async renewHandle(handle: string, changes: { duration?: number | undefined; value?: string | undefined } = {}): Promise<RenewedHandleBody> {
    return parseRenewedHandle(await this.#runtime.askAgain("RENEW", () => ({ handle, ...changes })));
  }

  // Elections.

  /**
   * Becomes a candidate, and resolves when it leads. An election is an exclusive lock on the object of that
   * name: same queue, same rules, same rejections as `lock`, but the wait is without end unless given.
   */
  async campaign(name: string, options: CampaignOptions = {}): Promise<Leadership> {
    const lock = await this.lock(name, { wait: null, ...options });
    const { link } = this.#runtime;
    return new Leadership(name, lock, {
      show: (value) => this.renewHandle(lock.handle, { value }),
      retry: (signal) => retryLater(() => link.connect(null, signal), this.#timers, signal),
    });
  }

  /** Who leads now; null: nobody. */
  async leader(name: string): Promise<Leader | null> {
    return leaderOf(await this.why(name));
  }

  /**
   * Who leads (null: nobody), and again after every change of leader or value, over broken connections and
   * restarts of the servers. A slow reader gets the newest, and never an older one after it.
   */
  async *observe(name: string, options: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<Leader | null, void, undefined> {
    const { link, requests } = this.#runtime;
    const { signal } = options;
    try {
      yield* observeLeader(
        {
          follow: (body, sink) => this.#runtime.ask("EVENTS", body, { sink }),
          forget: (sink) => requests.forget(sink),
          leader: () => this.leader(name),
          retry: (retrySignal) => link.connect(null, retrySignal),
          timers: this.#timers,
        },
        name,
        signal,
      );
    } catch (error) {
      if (signal?.aborted !== true) throw error;
    }
  }

  // Looking at the service.

  /** Tickets of the objects whose names start with `prefix`, in the order of objects and queues, in pages as they are read. */
  async *list(prefix = ""): AsyncGenerator<TicketBody, void, undefined> {
    let after: readonly [string, number] | null = null;
    do {
      const page = parseTicketList(await this.#runtime.ask("LISTTICKETS", { prefix, after, limit: PAGE }));
      yield* page.tickets;
      after = page.next;
    } while (after !== null);
  }

  /** Who holds the object, who waits, its recent history, and a deadlock that it is part of. */
  async why(object: string): Promise<WhyBody> {
    return parseWhy(await this.#runtime.ask("WHY", { object }));
  }

  async status(): Promise<StatusBody> {
    return parseStatus(await this.#runtime.ask("STATUS", {}));
  }

  async *sessions(): AsyncGenerator<SessionBody, void, undefined> {
    let after: string | null = null;
    do {
      const page = parseSessionList(await this.#runtime.ask("SESSIONS", { after, limit: PAGE }));
      yield* page.sessions;
      after = page.next;
    } while (after !== null);
  }

  /** The history, and with `follow` what happens from then on, over broken connections without gap or repetition. */
  async *events(options: EventOptions = {}): AsyncGenerator<EventBody, void, undefined> {
    const { link, requests } = this.#runtime;
    const waitMs = options.follow === true ? null : 0;
    try {
      yield* streamEvents(
        {
          ask: (body, sink) => this.#runtime.ask("EVENTS", body, { sink }),
          forget: (sink) => requests.forget(sink),
          retry: (signal) => link.connect(waitMs, signal),
        },
        options,
      );
    } catch (error) {
      if (options.signal?.aborted !== true) throw error;
    }
  }

  /** Resolves when nobody holds the object; rejects with `timedout` after `waitMs` (null: never). */
  async waitFree(object: string, waitMs: number | null, signal?: AbortSignal): Promise<void> {
    const untilMs = waitMs === null ? Number.POSITIVE_INFINITY : this.#runtime.leaseClock.fresh() + waitMs;
    for (;;) {
      const leftMs = waitMs === null ? null : Math.max(0, Math.round(untilMs - this.#runtime.leaseClock.fresh()));
      const timeoutMs = leftMs === null ? Number.MAX_SAFE_INTEGER : leftMs + ANSWER_SLACK_MS;
      try {
        await unlessAborted(this.#runtime.ask("WAITFREE", { object, wait: leftMs }, { timeoutMs }), signal, "wait");
        return;
      } catch (error) {
        if (!(error instanceof ConnectionBrokenError) || this.#runtime.leaseClock.fresh() >= untilMs) throw error;
        await this.#runtime.link.connect(leftMs, signal);
      }
    }
  }

  // Changing the service.

  /** Takes a lock away from its holder, named by the exact token. Rejects with `notfound` when that is not held. */
  async releaseByForce(object: string, token: number, options: ForceOptions = {}): Promise<ReleasingBody> {
    return parseReleasing(await this.#runtime.askOnce("RELEASE", { object, token, ...options }));
  }

  /** Ends a session and takes away all that it holds. Rejects with `notfound`. */
  async kick(session: string, options: ForceOptions = {}): Promise<KickedBody> {
    return parseKicked(await this.#runtime.askOnce("KICK", { session, ...options }));
  }

  // What plugins of the server bring.

  /**
   * Sends a message that a plugin of the server serves; resolves with type and body of its answer. Rejects
   * with the error that it was answered with, `protocol` when the server does not know the type, `unknown`
   * when the connection broke or no answer came in time, and `invalid` for a message of lockd itself.
   */
  async request(type: string, body: Readonly<Record<string, unknown>>, options: { timeoutMs?: number } = {}): Promise<PluginAnswer> {
    if (!isFrameType(type) || Object.hasOwn(ANSWERS, type)) {
      throw new LockdError("invalid", `ask ${JSON.stringify(type)}: it is not the type of a plugin's message`, {
        hint: "a type is upper-case letters and digits, 32 at most, and none of lockd's own",
      });
    }
    const answer = await this.#runtime.askOther(type, body, options.timeoutMs);
    return { type: answer.type, body: answer.body };
  }

  // The end.

  /**
   * Releases what is held, withdraws what waits, says goodbye and ends the connection; within four
   * seconds whatever the server does. Detached locks stay. Never rejects.
   */
  close(): Promise<void> {
    this.#closed ??= this.#runtime.close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

const cancelled = (objects: readonly string[], signal: AbortSignal): LockdError =>
  new LockdError("cancelled", `lock ${objects.join(", ")}: cancelled while waiting`, { cause: signal.reason });

function identityOf(options: ConnectOptions): ClientIdentity {
  const host = options.host ?? hostname();
  // for listings only: a long one is cut rather than a reason to be refused
  return {
    name: clipped(options.name ?? host, LIMITS.nameBytesMax),
    host: clipped(host, LIMITS.nameBytesMax),
    pid: options.pid ?? process.pid,
    program: clipped(options.program ?? process.argv0, LIMITS.programBytesMax),
    software: options.software ?? "lockd client library",
  };
}

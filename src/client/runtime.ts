/**
 * What runs behind a client: the connection, the session and the plain requests on it, and the one
 * timer that lets time act on them. Their rules live in their own files; the program sees client.ts.
 */
import { randomBytes } from "node:crypto";
import type { Clock, Timer, Timers } from "../clock/clock.ts";
import { asLockdError, LockdError } from "../errors.ts";
import type { ClientSecurity } from "../security/client-security.ts";
import type { Body, Frame } from "../wire/types.ts";
import type { Channel, ClientIdentity } from "./channel.ts";
import { Dialer } from "./dialer.ts";
import type { Endpoint } from "./endpoint.ts";
import { LeaseClock } from "./lease-clock.ts";
import { Link } from "./link.ts";
import { ConnectionBrokenError, type FrameSink, Requests, type RequestType } from "./requests.ts";
import { Session } from "./session.ts";
import type { Dial, Resolve } from "./transport.ts";

export interface RuntimeOptions {
  servers: readonly Endpoint[];
  identity: ClientIdentity;
  connectTimeoutMs: number;
  requestTimeoutMs: number;
  graceMs: number;
  clock: Clock;
  timers: Pick<Timers, "after">;
  random: () => number;
  dial: Dial;
  security: ClientSecurity;
  resolve: Resolve;
}

/** While a lock is held the clock is looked at this often: a suspended machine stops timers, but not leases. */
const WATCH_MS = 500;
const CLOSE_MS_MAX = 2000;
/** Less time than this is not worth another try. */
const RETRY_MS_MIN = 50;

/** 128 random bits; on a command line (`lockd kick`) a leading dash would read as a flag. */
function newSessionId(): string {
  for (;;) {
    const id = randomBytes(16).toString("base64url");
    if (!id.startsWith("-")) return id;
  }
}

/** What to tell of a request that is not to be repeated blindly: a lost answer leaves it open whether it was done. */
function outcomeUnknown(type: string, error: unknown): unknown {
  if (!(error instanceof ConnectionBrokenError)) return error;
  return new LockdError("unknown", `ask ${type}: it may or may not have been done: ${error.message}`, { cause: error });
}

export class Runtime {
  readonly leaseClock: LeaseClock;
  readonly session: Session;
  readonly link: Link;
  readonly requests: Requests;
  readonly #timers: Pick<Timers, "after">;
  readonly #requestTimeoutMs: number;
  #frameId = 0;
  /** as of the chunk that is being handled */
  #nowMs: number;
  #timer: Timer | null = null;
  #timerDueMs = Number.POSITIVE_INFINITY;
  #closing = false;
  #onIdle: (() => void) | null = null;

  constructor(options: RuntimeOptions) {
    const { timers, random } = options;
    const nextFrameId = () => this.#nextFrameId();
    this.#timers = timers;
    this.#requestTimeoutMs = options.requestTimeoutMs;
    this.leaseClock = new LeaseClock(options.clock);
    this.#nowMs = this.leaseClock.now();
    this.requests = new Requests({ nextFrameId, timers });
    this.session = new Session(
      {
        nextFrameId,
        send: (type, id, body) => this.link.channel?.send(type, id, body),
        reconnect: (reason) => this.link.channel?.fail(reason),
        newIdentity: () => ({ session: newSessionId(), secret: new Uint8Array(randomBytes(32)) }),
        random,
        unreachable: () => this.link.lastError,
        idle: () => this.#onIdle?.(),
      },
      { graceMs: options.graceMs },
    );
    this.link = new Link({
      dialer: new Dialer({ ...options, leaseClock: this.leaseClock, nextFrameId }),
      leaseClock: this.leaseClock,
      timers,
      owner: {
        connected: (channel) => this.#onConnected(channel),
        wanted: () => this.session.active || this.requests.following,
      },
    });
  }

  /** Throws when the program has closed the client. */
  mustBeOpen(): void {
    if (this.#closing) throw new LockdError("cancelled", "use client: it was closed");
  }

  #nextFrameId(): number {
    this.#frameId += 1;
    return this.#frameId;
  }

  // Connection and time.

  #onConnected(channel: Channel): void {
    channel.attach({
      received: () => {
        this.check();
      },
      frame: (frame: Frame) => {
        if (!this.requests.frame(frame)) this.session.frame(frame, this.#nowMs);
      },
      handled: () => this.arm(),
      closed: (reason) => {
        this.session.disconnected();
        this.link.lost(reason);
        this.requests.disconnected(reason);
        this.arm();
      },
    });
    this.session.connected(this.leaseClock.now());
    this.arm();
  }

  /** Looks at the clock, before anything is said to be held: what is due is carried out. The fresh reading. */
  check(): number {
    this.#nowMs = this.leaseClock.fresh();
    if (this.session.dueMs <= this.#nowMs) this.session.tick(this.#nowMs);
    return this.#nowMs;
  }

  /** To be called after anything that may have moved a deadline. */
  arm(): void {
    const { channel } = this.link;
    const nowMs = this.leaseClock.now();
    let dueMs = this.session.dueMs;
    if (channel !== null && channel.dueMs < dueMs) dueMs = channel.dueMs;
    if (this.session.holding) dueMs = Math.min(dueMs, nowMs + WATCH_MS);
    // a timer that is overdue has slept with the machine: it would come late by as much as it has slept
    const overdue = this.#timerDueMs <= nowMs;
    if ((dueMs >= this.#timerDueMs && !overdue) || dueMs === Number.POSITIVE_INFINITY || this.link.closed) return;
    this.#timer?.cancel();
    this.#timerDueMs = dueMs;
    this.#timer = this.#timers.after(Math.max(0, dueMs - nowMs), () => {
      this.#timerDueMs = Number.POSITIVE_INFINITY;
      this.#timer = null;
      const atMs = this.check();
      this.link.channel?.tick(atMs);
      this.arm();
    });
  }

  // Plain requests.

  /**
   * One request on the connection there is, or on one that a single round finds. Rejects with the
   * server's error, `unavailable`, or ConnectionBrokenError when it was sent and its answer is lost.
   */
  async ask(type: RequestType, body: Body, options: { timeoutMs?: number; sink?: FrameSink | null } = {}): Promise<Body> {
    this.mustBeOpen();
    const channel = await this.link.ensure();
    const answer = this.requests.ask(channel, type, body, options.timeoutMs ?? this.#requestTimeoutMs, options.sink);
    this.arm();
    return answer;
  }

  /**
   * For what may be done twice without harm: asked again when the connection breaks, within the time of one
   * request. When it was sent and no server answered in all that time, the outcome is `unknown`.
   */
  async askAgain(type: RequestType, body: () => Body): Promise<Body> {
    const untilMs = this.leaseClock.fresh() + this.#requestTimeoutMs;
    let broken: ConnectionBrokenError | null = null;
    for (;;) {
      try {
        if (broken !== null) await this.link.connect(Math.max(0, untilMs - this.leaseClock.fresh()));
        return await this.ask(type, body());
      } catch (error) {
        if (error instanceof ConnectionBrokenError) broken = error;
        else throw broken !== null && asLockdError(error).code === "unavailable" ? outcomeUnknown(type, broken) : error;
        if (untilMs - this.leaseClock.fresh() < RETRY_MS_MIN) throw outcomeUnknown(type, broken);
      }
    }
  }

  /** For what must not be done twice: when the connection breaks after it was sent, the outcome is `unknown`. */
  async askOnce(type: RequestType, body: Body): Promise<Body> {
    try {
      return await this.ask(type, body);
    } catch (error) {
      throw outcomeUnknown(type, error);
    }
  }

  /** A request that this library knows nothing of, as `askOnce` asks: the answer's frame. */
  async askOther(type: string, body: Body, timeoutMs: number = this.#requestTimeoutMs): Promise<Frame> {
    this.mustBeOpen();
    const channel = await this.link.ensure();
    try {
      const answer = this.requests.askOther(channel, type, body, timeoutMs);
      this.arm();
      return await answer;
    } catch (error) {
      throw outcomeUnknown(type, error);
    }
  }

  // The end.

  /** Gives everything back, says goodbye, ends the connection; bounded, whatever the server does. */
  async close(): Promise<void> {
    this.#closing = true;
    this.session.releaseAll(this.leaseClock.now());
    this.arm();
    if (this.session.active) await this.#idleWithin(CLOSE_MS_MAX);
    const { channel } = this.link;
    if (channel !== null && this.session.opened) {
      const farewell = this.requests.ask(channel, "GOODBYE", {}, CLOSE_MS_MAX);
      // the session ends by its grace when nobody hears the goodbye
      await farewell.catch(() => undefined);
    }
    this.link.close();
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
}

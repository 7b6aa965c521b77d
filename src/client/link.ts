/**
 * Keeps one connection to some server as long as one is wanted: first connect, reconnect with
 * back-off, and one round for those who need it now. Knows no lock.
 */
import type { Timers } from "../clock/clock.ts";
import { asLockdError, LockdError } from "../errors.ts";
import { unlessAborted } from "./abort.ts";
import type { Channel } from "./channel.ts";
import type { Dialer } from "./dialer.ts";
import type { LeaseClock } from "./lease-clock.ts";

/** A connection that lasted this long was a good one: the next back-off is short again. */
const GOOD_MS_MIN = 1000;

export interface LinkOwner {
  /** attaches its handler; the handler's `closed` must call `lost` */
  connected(channel: Channel): void;
  /** whether a lost connection should be replaced */
  wanted(): boolean;
}

export class Link {
  readonly #dialer: Dialer;
  readonly #leaseClock: LeaseClock;
  readonly #timers: Pick<Timers, "after">;
  readonly #owner: LinkOwner;
  readonly #closing = new AbortController();
  #channel: Channel | null = null;
  #connectedMs = 0;
  /** rounds without a server and connections that broke at once, in a row */
  #failures = 0;
  #round: Promise<Channel> | null = null;
  #looping = false;
  #lastError: LockdError | null = null;

  constructor(options: { dialer: Dialer; leaseClock: LeaseClock; timers: Pick<Timers, "after">; owner: LinkOwner }) {
    this.#dialer = options.dialer;
    this.#leaseClock = options.leaseClock;
    this.#timers = options.timers;
    this.#owner = options.owner;
  }

  get channel(): Channel | null {
    return this.#channel;
  }

  get closed(): boolean {
    return this.#closing.signal.aborted;
  }

  /** Why there is no connection; null while there is one or nothing was tried. */
  get lastError(): LockdError | null {
    return this.#lastError;
  }

  /**
   * Connects: at least one round over all servers, more until `waitMs` is over (null: without end).
   * Rejects as Dialer.round; `onRetry` hears why each round failed that is not the last.
   */
  async connect(waitMs: number | null, signal?: AbortSignal, onRetry?: (failure: LockdError) => void): Promise<void> {
    const untilMs = waitMs === null ? Number.POSITIVE_INFINITY : this.#leaseClock.now() + waitMs;
    for (let round = 1; ; round += 1) {
      try {
        // the first round is a whole one whatever the wait
        await this.#oneRound(round === 1 ? Number.POSITIVE_INFINITY : untilMs, signal);
        return;
      } catch (error) {
        const failure = asLockdError(error);
        const leftMs = untilMs - this.#leaseClock.now();
        if (!failure.retryable || leftMs <= 0) throw failure;
        onRetry?.(failure);
        await this.#sleep(Math.min(this.#dialer.backoffMs(this.#failures), leftMs), signal);
      }
    }
  }

  /** The connection, or the outcome of one round. */
  ensure(): Promise<Channel> {
    return this.#oneRound(Number.POSITIVE_INFINITY);
  }

  /** Connects in the background as long as it is wanted. */
  wake(): void {
    if (this.#looping || this.#channel !== null || this.#closing.signal.aborted) return;
    this.#looping = true;
    void this.#loop().finally(() => {
      this.#looping = false;
      // wanted again in the very turn in which the loop ended
      if (this.#channel === null && this.#owner.wanted()) this.wake();
    });
  }

  /** The connection is gone. */
  lost(reason: LockdError): void {
    this.#channel = null;
    this.#lastError = reason;
    if (this.#leaseClock.now() - this.#connectedMs >= GOOD_MS_MIN) this.#failures = 0;
    else this.#failures += 1;
    if (this.#owner.wanted()) this.wake();
  }

  close(): void {
    this.#closing.abort();
    this.#channel?.end();
  }

  async #loop(): Promise<void> {
    while (this.#channel === null && !this.#closing.signal.aborted && this.#owner.wanted()) {
      if (this.#failures > 0) await this.#sleep(this.#dialer.backoffMs(this.#failures)).catch(() => undefined);
      if (this.#closing.signal.aborted) return;
      // its reason is kept in lastError
      await this.#oneRound(Number.POSITIVE_INFINITY).catch(() => undefined);
    }
  }

  /**
   * All who need a connection at the same time share one round, and what it found: there is one connection.
   * Who gives up leaves the round to the others.
   */
  #oneRound(untilMs: number, signal?: AbortSignal): Promise<Channel> {
    if (this.#closing.signal.aborted) return Promise.reject(closedError());
    // another one found it while this one slept between its rounds
    if (this.#channel !== null) return Promise.resolve(this.#channel);
    this.#round ??= this.#dialer
      .round(untilMs, this.#closing.signal)
      .then(
        (channel) => this.#adopt(channel),
        (error: unknown) => {
          this.#failures += 1;
          this.#lastError = asLockdError(error);
          throw this.#lastError;
        },
      )
      .finally(() => {
        this.#round = null;
      });
    return unlessAborted(this.#round, signal, "find a server");
  }

  #adopt(channel: Channel): Channel {
    if (this.#closing.signal.aborted) {
      channel.end();
      throw closedError();
    }
    this.#channel = channel;
    this.#connectedMs = this.#leaseClock.now();
    this.#lastError = null;
    this.#owner.connected(channel);
    return channel;
  }

  #sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const signals = [this.#closing.signal, ...(signal === undefined ? [] : [signal])];
    return new Promise((resolve, reject) => {
      const finish = (settle: () => void) => {
        timer.cancel();
        for (const one of signals) one.removeEventListener("abort", abort);
        settle();
      };
      const abort = () => finish(() => reject(new LockdError("cancelled", "find a server: cancelled")));
      const timer = this.#timers.after(ms, () => finish(resolve));
      for (const one of signals) one.addEventListener("abort", abort);
      if (signals.some((one) => one.aborted)) abort();
    });
  }
}

const closedError = (): LockdError => new LockdError("cancelled", "use client: it was closed");

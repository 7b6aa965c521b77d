/**
 * What a program gets for a lock that it holds: handle, token, an AbortSignal that tells its loss, and
 * release. Knows no connection.
 */
import type { LockdError } from "../errors.ts";
import type { LockLostError } from "./errors.ts";
import type { LockedBody } from "./protocol.ts";
import type { TicketHolder } from "./ticket.ts";

/** What a lock needs of the client that it belongs to. */
export interface LockDriver {
  /** fresh reading of the lease clock, after everything that is due by it was carried out */
  check(): number;
  /** starts the release; the holder's `released` follows */
  release(): void;
}

/** The session's side of a lock: what it is told, kept for the program to look at. */
export class LockState implements TicketHolder {
  deadlineMs: number;
  error: LockLostError | null = null;
  abort: AbortController | null = null;
  renewedListeners: readonly ((deadlineMs: number) => void)[] = [];
  /** set by the first release */
  settle: ((error: LockdError | null) => void) | null = null;

  constructor(deadlineMs: number) {
    this.deadlineMs = deadlineMs;
  }

  lost(error: LockLostError): void {
    this.error = error;
    this.abort?.abort(error);
  }

  renewed(deadlineMs: number): void {
    this.deadlineMs = deadlineMs;
    for (const listener of this.renewedListeners) callBack(() => listener(deadlineMs));
  }

  released(error: LockdError | null): void {
    this.settle?.(error);
  }
}

/**
 * A lock that is held until `release`, or until `signal` aborts. Made by LockdClient.lock.
 * `await using lock = await client.lock("x")` releases it at the end of the scope.
 */
export class Lock implements AsyncDisposable {
  readonly objects: readonly string[];
  /** secret: whoever has it can release or renew the lock */
  readonly handle: string;
  /** fencing token: larger than that of every earlier incompatible grant of the same object */
  readonly token: number;
  readonly durationMs: number;
  readonly unlockDurationMs: number;
  readonly #state: LockState;
  readonly #driver: LockDriver;
  #release: Promise<void> | null = null;

  constructor(grant: LockedBody, state: LockState, driver: LockDriver) {
    this.objects = grant.objects;
    this.handle = grant.handle;
    this.token = grant.token;
    this.durationMs = grant.duration;
    this.unlockDurationMs = grant.unlockDuration;
    this.#state = state;
    this.#driver = driver;
  }

  /**
   * Aborts when the lock is lost, with a LockLostError as its reason: at the end of its lease at the
   * latest, without any call. What the lock protects must have stopped within `unlockDurationMs`.
   */
  get signal(): AbortSignal {
    const state = this.#state;
    if (state.abort === null) {
      state.abort = new AbortController();
      if (state.error !== null) state.abort.abort(state.error);
    }
    return state.abort.signal;
  }

  /** Why the lock was lost, by the clock as it is now; null while it was not. */
  get lost(): LockLostError | null {
    if (this.#state.error === null) this.#driver.check();
    return this.#state.error;
  }

  /**
   * Until when the lock may be relied on unless it is renewed, margin taken off: milliseconds of the
   * boot clock (CLOCK_BOOTTIME on Linux), so that another process of this machine can watch it, too.
   */
  get deadline(): number {
    return this.#state.deadlineMs;
  }

  /** Milliseconds for which the lock may still be relied on without a renewal; 0 when lost or released. */
  expiresIn(): number {
    const nowMs = this.#driver.check();
    if (this.#state.error !== null || this.#release !== null) return 0;
    return Math.max(0, this.#state.deadlineMs - nowMs);
  }

  /** Calls back with the new `deadline` at each renewal; returns what ends that. */
  onRenewed(listener: (deadlineMs: number) => void): () => void {
    const state = this.#state;
    state.renewedListeners = [...state.renewedListeners, listener];
    return () => {
      state.renewedListeners = state.renewedListeners.filter((other) => other !== listener);
    };
  }

  /**
   * Gives the lock back; resolves when the server has confirmed it. Every call returns the same
   * promise. Rejects with LockLostError when the lock had been lost before, so that work that was not
   * protected to its end does not look as if it had been; with `unavailable` when no server confirmed it
   * before the lock ended by itself.
   */
  release(): Promise<void> {
    this.#release ??= new Promise((resolve, reject) => {
      const state = this.#state;
      this.#driver.check();
      state.settle = (error) => (error === null ? resolve() : reject(error));
      // of a lost lock the server may still keep the grace: it is given back, but nobody waits for that
      if (state.error !== null) reject(state.error);
      this.#driver.release();
    });
    return this.#release;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

/** Runs code of the program: what it throws must not stop the session, it goes where uncaught errors go. */
export function callBack(run: () => void): void {
  try {
    run();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

/**
 * What a program gets for a lock that it holds: handle, token, an AbortSignal that tells its loss, and
 * release. Knows no connection.
 */
import { assert, type LockdError } from "../errors.ts";
import { LockLostError } from "./errors.ts";
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
  /** Lock objects of this lock that were not released: more than one when it is reentrant */
  handles = 0;
  /** called when the lock is lost, and when its last handle is released */
  ended: (() => void) | null = null;
  /** set by the first release */
  settle: ((error: LockdError | null) => void) | null = null;

  constructor(deadlineMs: number) {
    this.deadlineMs = deadlineMs;
  }

  lost(error: LockLostError): void {
    this.error = error;
    this.ended?.();
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
  readonly #grant: LockedBody;
  readonly #state: LockState;
  readonly #driver: LockDriver;
  #release: Promise<void> | null = null;

  constructor(grant: LockedBody, state: LockState, driver: LockDriver) {
    this.objects = grant.objects;
    this.handle = grant.handle;
    this.token = grant.token;
    this.durationMs = grant.duration;
    this.unlockDurationMs = grant.unlockDuration;
    this.#grant = grant;
    this.#state = state;
    this.#driver = driver;
    state.handles += 1;
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
   * Gives the lock back (of a reentrant one only the last handle does); resolves when the server has confirmed it. Every call returns the same
   * promise. Rejects with LockLostError when the lock had been lost before, so that work that was not
   * protected to its end does not look as if it had been; with `unavailable` when no server confirmed it
   * before the lock ended by itself.
   */
  release(): Promise<void> {
    this.#release ??= new Promise((resolve, reject) => {
      const state = this.#state;
      this.#driver.check();
      state.handles -= 1;
      if (state.handles > 0) {
        if (state.error === null) resolve();
        else reject(state.error);
        return;
      }
      state.ended?.();
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

  /**
   * Another handle of the same lock, which is given back with the last of them.
   * @internal
   */
  again(): Lock {
    assert(this.#state.handles > 0, "what was given back is not taken again");
    return new Lock(this.#grant, this.#state, this.#driver);
  }

  /**
   * Calls back once or twice: when the lock is lost, and when its last handle is released.
   * @internal
   */
  onEnded(ended: () => void): void {
    this.#state.ended = ended;
  }
}

/** Runs `work` and releases the lock after it. Rejects with what `work` threw, or when the lock was lost before it ended. */
export async function runUnder<T>(lock: Lock, work: (signal: AbortSignal, lock: Lock) => T | Promise<T>): Promise<T> {
  let result: T;
  try {
    result = await work(lock.signal, lock);
  } catch (error) {
    await lock.release().catch(() => undefined);
    throw error;
  }
  await lock.release().catch((error: unknown) => {
    // a release that nobody confirmed changes nothing: the work was protected, and the lock ends by itself
    if (error instanceof LockLostError) throw error;
  });
  return result;
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

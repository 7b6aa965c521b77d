/**
 * Reentrant locks of one client: who asks again for what the client holds gets another handle of the
 * same lock. Owns which objects are held that way and who waits for a request of this client's own;
 * knows no server, which sees one request for each lock.
 */
import type { Timers } from "../clock/clock.ts";
import { LockdError } from "../errors.ts";
import { LockFailedError } from "./errors.ts";
import type { Lock } from "./lock.ts";
import { type LockOptions, waitMsOf } from "./lock-options.ts";

export interface ReentrantOptions {
  timers: Pick<Timers, "after">;
  nowMs(): number;
  /** asks the server */
  request(objects: readonly string[], options: LockOptions): Promise<Lock>;
}

/** A lock that is held, or asked for. */
interface Entry {
  objects: ReadonlySet<string>;
  terms: string;
  /** null: still asked for */
  lock: Lock | null;
  /** resolves when the request has ended, one way or the other */
  settled: Promise<void>;
}

export class ReentrantLocks {
  readonly #options: ReentrantOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(options: ReentrantOptions) {
    this.#options = options;
  }

  /**
   * A handle of the lock that covers all the objects, else a lock of their own. Rejects as a plain
   * request does; with `duplicate` when they are held or asked for in another mode.
   */
  async lock(objects: string | readonly string[], options: LockOptions): Promise<Lock> {
    const names = typeof objects === "string" ? [objects] : objects;
    if (options.detached === true) throw new LockdError("invalid", "lock: what is detached belongs to its handle and cannot be reentrant");
    const waitMs = waitMsOf(options);
    const untilMs = waitMs === null ? Number.POSITIVE_INFINITY : this.#options.nowMs() + waitMs;
    const terms = JSON.stringify([options.mode ?? "exclusive", options.permits ?? null, options.count ?? null]);
    for (;;) {
      const leftMs = waitMs === null ? null : Math.max(0, Math.round(untilMs - this.#options.nowMs()));
      const entry = this.#covering(names);
      if (entry === null) return this.#first(names, terms, { ...options, wait: leftMs });
      if (entry.terms !== terms) {
        throw new LockFailedError("duplicate", `lock ${names.join(", ")}: this client has it in another mode`, { holders: [], position: null }, {
          hint: "a reentrant lock is asked for again with the mode, permits and count of the first time",
        });
      }
      if (entry.lock !== null) return entry.lock.again();
      await this.#settled(entry, names, leftMs, options.signal);
    }
  }

  /** The one lock that all the objects belong to. */
  #covering(names: readonly string[]): Entry | null {
    const entry = this.#entries.get(names[0] ?? "");
    return entry !== undefined && names.every((name) => entry.objects.has(name)) ? entry : null;
  }

  async #first(names: readonly string[], terms: string, options: LockOptions): Promise<Lock> {
    const requested = this.#options.request(names, options);
    const settled = requested.then(
      () => undefined,
      () => undefined,
    );
    const entry: Entry = { objects: new Set(names), terms, lock: null, settled };
    // what overlaps with another lock is refused by the server, and must not hide that one
    const own = names.filter((name) => !this.#entries.has(name));
    for (const name of own) this.#entries.set(name, entry);
    const forget = (): void => {
      for (const name of own) if (this.#entries.get(name) === entry) this.#entries.delete(name);
    };
    try {
      const lock = await requested;
      lock.onEnded(forget);
      if (lock.lost === null) entry.lock = lock;
      else forget();
      return lock;
    } catch (error) {
      forget();
      throw error;
    }
  }

  /** Waits until the client's own request has ended; rejects when this caller's wait is over before. */
  #settled(entry: Entry, names: readonly string[], leftMs: number | null, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const what = `lock ${names.join(", ")}`;
      const late = (): void => {
        const message = `${what}: not obtained in time, this client's first request for it still waits`;
        reject(new LockFailedError("timedout", message, { holders: [], position: null }));
      };
      const abort = (): void => reject(new LockdError("cancelled", `${what}: cancelled while waiting`, { cause: signal?.reason }));
      const timer = leftMs === null ? null : this.#options.timers.after(leftMs, late);
      signal?.addEventListener("abort", abort);
      if (signal?.aborted === true) abort();
      void entry.settled.then(() => {
        timer?.cancel();
        signal?.removeEventListener("abort", abort);
        resolve();
      });
    });
  }
}

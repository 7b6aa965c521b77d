/**
 * Who wants to hear of events: followers of the history (EVENTS with `follow`) and those who wait for
 * an object to be free (WAITFREE). Each is bound to a connection and gone with it. Knows no table;
 * what is free is asked through a function.
 */
import type { Timer, Timers } from "../../../src/clock/clock.ts";
import type { Connection } from "../../../src/wire/types.ts";
import type { LockEvent } from "../core/types.ts";
import { eventBody } from "./bodies.ts";

/** A lock-delay ends without an event, so waiters for a free object look again this often. */
const FREE_POLL_MS = 200;

interface Follower {
  connection: Connection;
  frameId: number;
  prefix: string;
}

interface FreeWaiter {
  connection: Connection;
  frameId: number;
  object: string;
  timeout: Timer | null;
}

export class Watchers {
  readonly #timers: Timers;
  readonly #isFree: (object: string) => boolean;
  readonly #followers = new Map<Connection, Map<number, Follower>>();
  readonly #freeWaiters = new Map<string, Set<FreeWaiter>>();
  #poll: Timer | null = null;

  constructor(options: { timers: Timers; isFree: (object: string) => boolean }) {
    this.#timers = options.timers;
    this.#isFree = options.isFree;
  }

  /** Sends EVENT frames with this id from now on. A second follow with the same id replaces the first. */
  follow(connection: Connection, frameId: number, prefix: string): void {
    let own = this.#followers.get(connection);
    if (own === undefined) {
      own = new Map();
      this.#followers.set(connection, own);
      connection.onClose(() => this.#followers.delete(connection));
    }
    own.set(frameId, { connection, frameId, prefix });
  }

  /** Answers FREE when the object is free, or ERROR `timedout` after `waitMs` (null: never). */
  waitFree(connection: Connection, frameId: number, object: string, waitMs: number | null): void {
    if (this.#isFree(object)) {
      connection.send("FREE", frameId, { object });
      return;
    }
    const waiter: FreeWaiter = { connection, frameId, object, timeout: null };
    if (waitMs !== null) waiter.timeout = this.#timers.after(waitMs, () => this.#timedOut(waiter));
    const waiters = this.#freeWaiters.get(object) ?? new Set();
    waiters.add(waiter);
    this.#freeWaiters.set(object, waiters);
    connection.onClose(() => this.#forget(waiter));
    this.#poll ??= this.#timers.every(FREE_POLL_MS, () => this.#checkAll());
  }

  /** Events that became durable. */
  notify(events: readonly LockEvent[]): void {
    if (this.#followers.size > 0) {
      for (const event of events) {
        for (const own of this.#followers.values()) {
          for (const follower of own.values()) {
            if (event.object.startsWith(follower.prefix)) follower.connection.send("EVENT", follower.frameId, { ...eventBody(event) });
          }
        }
      }
    }
    if (this.#freeWaiters.size > 0) for (const event of events) this.#check(event.object);
  }

  stop(): void {
    this.#poll?.cancel();
    for (const waiters of this.#freeWaiters.values()) for (const waiter of waiters) waiter.timeout?.cancel();
    this.#freeWaiters.clear();
    this.#followers.clear();
  }

  #checkAll(): void {
    for (const object of [...this.#freeWaiters.keys()]) this.#check(object);
  }

  #check(object: string): void {
    const waiters = this.#freeWaiters.get(object);
    if (waiters === undefined || !this.#isFree(object)) return;
    for (const waiter of [...waiters]) {
      waiter.connection.send("FREE", waiter.frameId, { object });
      this.#forget(waiter);
    }
  }

  #timedOut(waiter: FreeWaiter): void {
    const message = `wait for ${JSON.stringify(waiter.object)}: still locked`;
    waiter.connection.send("ERROR", waiter.frameId, { code: "timedout", message, retryable: false });
    this.#forget(waiter);
  }

  #forget(waiter: FreeWaiter): void {
    waiter.timeout?.cancel();
    const waiters = this.#freeWaiters.get(waiter.object);
    waiters?.delete(waiter);
    if (waiters?.size === 0) this.#freeWaiters.delete(waiter.object);
    if (this.#freeWaiters.size === 0) {
      this.#poll?.cancel();
      this.#poll = null;
    }
  }
}

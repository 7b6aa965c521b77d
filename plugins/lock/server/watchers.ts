/**
 * Who wants to hear of events: followers of the history (EVENTS with `follow`) and those who wait for
 * an object to be free (WAITFREE). Each is bound to a connection and gone with it. Knows no table;
 * whether an object is free is asked through a function, and only when that may have changed.
 */
import type { Timer, Timers } from "../../../src/clock/clock.ts";
import { LockdError } from "../../../src/errors.ts";
import type { Connection } from "../../../src/wire/types.ts";
import type { LockEvent } from "../core/types.ts";
import { eventBody } from "./bodies.ts";

const FOLLOWS_PER_CONNECTION_MAX = 100;
const WAITS_PER_CONNECTION_MAX = 10_000;

/** `delayLeftMs`: a lock-delay ends then, and no event will tell; null: there is none. */
export interface Freedom {
  free: boolean;
  delayLeftMs: number | null;
}

export interface WatchersOptions {
  timers: Timers;
  /** calls back, once that is durable, with whether an object is free */
  look(object: string, found: (freedom: Freedom) => void): void;
  /** whether the client may see events of the object, now */
  sees(connection: Connection, object: string): boolean;
}

interface FreeWaiter {
  connection: Connection;
  frameId: number;
  object: string;
  /** no answer but FREE is due at the first look */
  patient: boolean;
  timeout: Timer | null;
}

interface WatchedObject {
  waiters: Set<FreeWaiter>;
  looking: boolean;
  /** something happened while it was looked at */
  again: boolean;
  delayEnd: Timer | null;
}

/** What one connection wants to hear. */
interface Audience {
  /** prefixes by the id of the EVENTS request */
  follows: Map<number, string>;
  waiters: Set<FreeWaiter>;
}

export class Watchers {
  readonly #timers: Timers;
  readonly #look: WatchersOptions["look"];
  readonly #sees: WatchersOptions["sees"];
  readonly #audiences = new Map<Connection, Audience>();
  readonly #followers = new Set<Connection>();
  readonly #objects = new Map<string, WatchedObject>();

  constructor(options: WatchersOptions) {
    this.#timers = options.timers;
    this.#look = (object, found) => options.look(object, found);
    this.#sees = (connection, object) => options.sees(connection, object);
  }

  /**
   * Sends EVENT frames with this id from now on. A second follow with the same id replaces the first.
   * Throws LockdError `overflow` when one connection follows too much.
   */
  follow(connection: Connection, frameId: number, prefix: string): void {
    const { follows } = this.#audience(connection);
    if (follows.size >= FOLLOWS_PER_CONNECTION_MAX && !follows.has(frameId)) {
      throw new LockdError("overflow", `follow events: this connection follows ${FOLLOWS_PER_CONNECTION_MAX} times already`);
    }
    follows.set(frameId, prefix);
    this.#followers.add(connection);
  }

  /** Ends what `follow` began; nothing with this id is sent any more. */
  unfollow(connection: Connection, frameId: number): void {
    const follows = this.#audiences.get(connection)?.follows;
    follows?.delete(frameId);
    if (follows?.size === 0) this.#followers.delete(connection);
  }

  /**
   * Answers FREE when the object is free, or ERROR `timedout` after `waitMs` (null: never, 0: when it is
   * not free now). Throws LockdError `overflow` when one connection waits for too much.
   */
  waitFree(connection: Connection, frameId: number, object: string, waitMs: number | null): void {
    const { waiters } = this.#audience(connection);
    if (waiters.size >= WAITS_PER_CONNECTION_MAX) {
      throw new LockdError("overflow", `wait for object: this connection waits for ${WAITS_PER_CONNECTION_MAX} already`);
    }
    const waiter: FreeWaiter = { connection, frameId, object, patient: waitMs !== 0, timeout: null };
    if (waitMs !== null && waitMs > 0) waiter.timeout = this.#timers.after(waitMs, () => this.#timedOut(waiter));
    const watched = this.#objects.get(object) ?? { waiters: new Set(), looking: false, again: false, delayEnd: null };
    watched.waiters.add(waiter);
    waiters.add(waiter);
    this.#objects.set(object, watched);
    this.#check(object);
  }

  /** Events that became durable. */
  notify(events: readonly LockEvent[]): void {
    if (this.#followers.size > 0) this.#tellFollowers(events);
    if (this.#objects.size === 0) return;
    for (const object of new Set(events.map((event) => event.object))) this.#check(object);
  }

  stop(): void {
    for (const watched of this.#objects.values()) {
      watched.delayEnd?.cancel();
      for (const waiter of watched.waiters) waiter.timeout?.cancel();
    }
    this.#objects.clear();
    this.#audiences.clear();
    this.#followers.clear();
  }

  #tellFollowers(events: readonly LockEvent[]): void {
    for (const event of events) {
      const body = eventBody(event);
      for (const connection of this.#followers) {
        if (!this.#sees(connection, event.object)) continue;
        for (const [frameId, prefix] of this.#audience(connection).follows) {
          if (event.object.startsWith(prefix)) connection.send("EVENT", frameId, body);
        }
      }
    }
  }

  #audience(connection: Connection): Audience {
    let audience = this.#audiences.get(connection);
    if (audience === undefined) {
      audience = { follows: new Map(), waiters: new Set() };
      this.#audiences.set(connection, audience);
      connection.onClose(() => this.#left(connection));
    }
    return audience;
  }

  #left(connection: Connection): void {
    for (const waiter of this.#audiences.get(connection)?.waiters ?? []) this.#forget(waiter);
    this.#audiences.delete(connection);
    this.#followers.delete(connection);
  }

  #check(object: string): void {
    const watched = this.#objects.get(object);
    if (watched === undefined) return;
    if (watched.looking) {
      watched.again = true;
      return;
    }
    watched.looking = true;
    this.#look(object, (freedom) => {
      watched.looking = false;
      if (this.#objects.get(object) !== watched) return;
      this.#found(object, watched, freedom);
      if (!watched.again) return;
      watched.again = false;
      this.#check(object);
    });
  }

  #found(object: string, watched: WatchedObject, { free, delayLeftMs }: Freedom): void {
    watched.delayEnd?.cancel();
    watched.delayEnd = null;
    for (const waiter of [...watched.waiters]) {
      if (free) {
        waiter.connection.send("FREE", waiter.frameId, { object });
        this.#forget(waiter);
      } else if (!waiter.patient) this.#timedOut(waiter);
    }
    if (delayLeftMs === null || this.#objects.get(object) !== watched) return;
    // one millisecond later, because the engine counts whole ones
    watched.delayEnd = this.#timers.after(Math.max(0, delayLeftMs) + 1, () => this.#check(object));
  }

  #timedOut(waiter: FreeWaiter): void {
    const message = `wait for ${JSON.stringify(waiter.object)}: still locked`;
    waiter.connection.send("ERROR", waiter.frameId, { code: "timedout", message, retryable: false });
    this.#forget(waiter);
  }

  #forget(waiter: FreeWaiter): void {
    waiter.timeout?.cancel();
    this.#audiences.get(waiter.connection)?.waiters.delete(waiter);
    const watched = this.#objects.get(waiter.object);
    watched?.waiters.delete(waiter);
    if (watched?.waiters.size !== 0) return;
    watched.delayEnd?.cancel();
    this.#objects.delete(waiter.object);
  }
}

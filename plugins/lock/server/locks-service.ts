/**
 * What the lock plugin offers to other plugins of the same server, `host.use("lock")`: durable lock events
 * as they happen, and questions about the table. Changes nothing; knows no connection.
 */
import type { EventBody, TicketListBody, WhyBody } from "../../../src/client/protocol.ts";
import { LIMITS } from "../../../src/client/protocol.ts";
import { LockdError } from "../../../src/errors.ts";
import type { Logger } from "../../../src/observe/types.ts";
import type { LockEvent } from "../core/types.ts";
import type { LockEngine } from "../engine.ts";
import { eventBody, ticketBody, WHY_EVENTS_MAX, WHY_WAITERS_MAX, whyBody } from "./bodies.ts";
import type { History } from "./history.ts";

export interface Subscription {
  /**
   * Id of the first event that can come. Larger than the `from` that was asked for: the events between are
   * not kept any more. Smaller: this history is another one, or was set back.
   */
  readonly firstId: number;
  /** Nothing comes after it. */
  stop(): void;
}

/** The service of the plugin `lock`. */
export interface LocksService {
  /**
   * Calls `listener` with every event of objects whose names start with `prefix`, in the order of their
   * ids, each once it is durable. With `from`, those that are kept from that id on come first, before this
   * returns; so from a plugin's `start` on, not in its `setup`, when the history is not read yet. What the
   * listener throws is logged, and the next event comes all the same.
   */
  subscribe(listener: (event: EventBody) => void, options?: { prefix?: string; from?: number }): Subscription;
  /** A page of tickets by object and queue; `after` is the `next` of the page before. */
  list(options?: { prefix?: string; after?: readonly [object: string, number: number] | null; limit?: number }): Promise<TicketListBody>;
  /** Who holds the object, who waits for it, and what happened to it. */
  why(object: string): Promise<WhyBody>;
}

interface Subscriber {
  prefix: string;
  listener: (event: EventBody) => void;
}

export class LocksForPlugins implements LocksService {
  readonly #engine: LockEngine;
  readonly #history: History;
  readonly #logger: Logger;
  readonly #subscribers = new Set<Subscriber>();

  constructor(options: { engine: LockEngine; history: History; logger: Logger }) {
    this.#engine = options.engine;
    this.#history = options.history;
    this.#logger = options.logger;
  }

  subscribe(listener: (event: EventBody) => void, options: { prefix?: string; from?: number } = {}): Subscription {
    const { prefix = "", from } = options;
    if (from !== undefined && !Number.isSafeInteger(from)) throw new LockdError("invalid", "subscribe to lock events: `from` is no whole number");
    const subscriber = { prefix, listener };
    const { oldestId, nextId } = this.#history;
    const firstId = from === undefined ? nextId : Math.min(Math.max(from, oldestId), nextId);
    this.#subscribers.add(subscriber);
    for (const event of this.#history.page(firstId, prefix, Number.MAX_SAFE_INTEGER).events) this.#tell(subscriber, event);
    return { firstId, stop: () => void this.#subscribers.delete(subscriber) };
  }

  /** Events that became durable, and are in the history. */
  notify(events: readonly LockEvent[]): void {
    if (this.#subscribers.size === 0) return;
    for (const event of events) {
      for (const subscriber of this.#subscribers) if (event.object.startsWith(subscriber.prefix)) this.#tell(subscriber, event);
    }
  }

  list(options: { prefix?: string; after?: readonly [object: string, number: number] | null; limit?: number } = {}): Promise<TicketListBody> {
    const { prefix = "", after = null } = options;
    const limit = Math.max(1, Math.min(options.limit ?? LIMITS.pageLimitMax, LIMITS.pageLimitMax));
    return new Promise((resolve) => {
      this.#engine.read(
        (table) => table.list({ prefix, after, limit }),
        ({ tickets, next }, at) => resolve({ tickets: tickets.map((view) => ticketBody(view, at)), next }),
      );
    });
  }

  why(object: string): Promise<WhyBody> {
    return new Promise((resolve) => {
      this.#engine.read(
        (table) => table.why(object, { waitersMax: WHY_WAITERS_MAX }),
        (why, at) => resolve(whyBody(object, why, { at, sees: () => true, events: this.#history.ofObject(object, WHY_EVENTS_MAX) })),
      );
    });
  }

  /** A body of its own for each: what one listener does to it is not seen by the next. */
  #tell(subscriber: Subscriber, event: LockEvent): void {
    try {
      subscriber.listener(eventBody(event));
    } catch (error) {
      this.#logger.error("lock-listener-failed", { event: event.id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
    }
  }
}

/**
 * Requests that only look: LISTTICKETS, WHY, EVENTS, SESSIONS, WAITFREE, LOCKSTATUS, STATUS. They
 * change nothing and, but for the last two, are answered from durable state. Knows no session binding.
 */
import type { StatusBody } from "../../../src/client/protocol.ts";
import type { Connection } from "../../../src/wire/types.ts";
import type { LockEvent } from "../core/types.ts";
import type { LockEngine } from "../engine.ts";
import { eventBody, sessionBody, ticketBody } from "./bodies.ts";
import type { History } from "./history.ts";
import type { Watchers } from "./watchers.ts";

const WHY_WAITERS_MAX = 1000;
const WHY_EVENTS_MAX = 10;

export interface LockQueriesOptions {
  engine: LockEngine;
  history: History;
  watchers: Watchers;
  status(): StatusBody;
}

export class LockQueries {
  readonly #engine: LockEngine;
  readonly #history: History;
  readonly #watchers: Watchers;
  readonly #status: () => StatusBody;

  constructor(options: LockQueriesOptions) {
    this.#engine = options.engine;
    this.#history = options.history;
    this.#watchers = options.watchers;
    this.#status = options.status;
  }

  list(connection: Connection, id: number, body: { prefix: string; after: readonly [string, number] | null; limit: number }): void {
    this.#engine.read(
      (table) => table.list({ ...body, after: body.after === null ? null : [body.after[0], body.after[1]] }),
      ({ tickets, next }, at) => {
        connection.send("TICKETLIST", id, { tickets: tickets.map((view) => ticketBody(view, at)), next });
      },
    );
  }

  why(connection: Connection, id: number, { object }: { object: string }): void {
    this.#engine.read(
      (table) => table.why(object, { waitersMax: WHY_WAITERS_MAX }),
      (why, at) => {
        connection.send("WHY", id, {
          object,
          holders: why.holders.map((view) => ticketBody(view, at)),
          waiters: why.waiters.map((view) => ticketBody(view, at)),
          waitersTotal: why.waitersTotal,
          ...(why.delayUntilMs === null ? {} : { delayLeft: Math.max(0, why.delayUntilMs - at.nowMs) }),
          cycle: why.cycle.map((edge) => ({
            waiter: ticketBody(edge.waiter, at).holder,
            object: edge.object,
            holder: ticketBody(edge.holder, at).holder,
          })),
          events: this.#history.ofObject(object, WHY_EVENTS_MAX).map(eventBody),
        });
      },
    );
  }

  events(connection: Connection, id: number, body: { prefix: string; from: number | null; follow: boolean; limit: number }): void {
    const from = body.from ?? (body.follow ? this.#history.nextId : this.#history.oldestId);
    const { events, nextId } = this.#history.page(from, body.prefix, body.limit);
    connection.send("EVENTS", id, { events: events.map(eventBody), oldest: this.#history.oldestId, next: nextId });
    // live events only once the client has read all pages: then none is doubled and none left out
    if (body.follow && events.length < body.limit) this.#watchers.follow(connection, id, body.prefix);
  }

  sessions(connection: Connection, id: number, body: { after: string | null; limit: number }): void {
    this.#engine.read(
      (table) => table.sessions(body),
      ({ sessions, next }, at) => {
        connection.send("SESSIONS", id, { sessions: sessions.map((view) => sessionBody(view, at)), next });
      },
    );
  }

  waitFree(connection: Connection, id: number, { object, waitMs }: { object: string; waitMs: number | null }): void {
    this.#engine.read(
      () => null,
      () => this.#watchers.waitFree(connection, id, object, waitMs),
    );
  }

  lockStatus(connection: Connection, id: number): void {
    const { ready, reason, readyInMs } = this.#engine.status();
    if (ready) connection.send("LOCKREADY", id, {});
    else connection.send("NOLOCK", id, { reason, readyIn: readyInMs });
  }

  /** Answered at once, also while the disk is slow: that is when somebody asks. Its counts promise nothing. */
  status(connection: Connection, id: number): void {
    connection.send("STATUS", id, { ...this.#status() });
  }

  /** Events that became durable: into the history, then to those who watch. */
  added(events: readonly LockEvent[]): void {
    for (const event of events) this.#history.add(event);
    this.#watchers.notify(events);
  }
}

/**
 * Requests that only look: LISTTICKETS, WHY, EVENTS, UNFOLLOW, SESSIONS, WAITFREE, LOCKSTATUS, STATUS. They
 * change nothing and, but for the last two, are answered from durable state. Knows no session binding.
 */
import type { StatusBody } from "../../../src/client/protocol.ts";
import { asLockdError } from "../../../src/errors.ts";
import { errorBody } from "../../../src/wire/error-body.ts";
import type { Body, Connection } from "../../../src/wire/types.ts";
import type { LockTable } from "../core/table.ts";
import type { LockEvent, TicketView } from "../core/types.ts";
import type { LockEngine } from "../engine.ts";
import { eventBody, sessionBody, ticketBody, WHY_EVENTS_MAX, WHY_WAITERS_MAX, whyBody } from "./bodies.ts";
import type { History } from "./history.ts";
import type { Permissions } from "./permissions.ts";
import type { Watchers } from "./watchers.ts";

export interface LockQueriesOptions {
  engine: LockEngine;
  history: History;
  watchers: Watchers;
  permissions: Permissions;
  status(): StatusBody;
}

export class LockQueries {
  readonly #engine: LockEngine;
  readonly #history: History;
  readonly #watchers: Watchers;
  readonly #permissions: Permissions;
  readonly #status: () => StatusBody;

  constructor(options: LockQueriesOptions) {
    this.#engine = options.engine;
    this.#history = options.history;
    this.#watchers = options.watchers;
    this.#permissions = options.permissions;
    this.#status = options.status;
  }

  list(connection: Connection, id: number, body: { prefix: string; after: readonly [string, number] | null; limit: number }): void {
    const prefixes = this.#permissions.seenPrefixes(connection, body.prefix);
    this.#engine.read(
      (table) => listPrefixes(table, { ...body, prefixes }),
      ({ tickets, next }, at) => {
        answer(connection, id, "TICKETLIST", { tickets: tickets.map((view) => ticketBody(view, at)), next });
      },
    );
  }

  why(connection: Connection, id: number, { object }: { object: string }): void {
    this.#engine.read(
      (table) => table.why(object, { waitersMax: WHY_WAITERS_MAX }),
      (why, at) => {
        const sees = (name: string): boolean => this.#permissions.sees(connection, name);
        answer(connection, id, "WHY", whyBody(object, why, { at, sees, events: this.#history.ofObject(object, WHY_EVENTS_MAX) }));
      },
    );
  }

  events(connection: Connection, id: number, body: { prefix: string; from: number | null; follow: boolean; limit: number }): void {
    const from = body.from ?? (body.follow ? this.#history.nextId : this.#history.oldestId);
    const { events, nextId } = this.#history.page(from, body.prefix, body.limit, (object) => this.#permissions.sees(connection, object));
    connection.send("EVENTS", id, { events: events.map(eventBody), oldest: this.#history.oldestId, next: nextId });
    // live events only once the client has read all pages: then none is doubled and none left out
    if (body.follow && events.length < body.limit) this.#watchers.follow(connection, id, body.prefix);
  }

  sessions(connection: Connection, id: number, body: { after: string | null; limit: number }): void {
    this.#engine.read(
      (table, { nowMs }) => table.sessions({ ...body, nowMs }),
      ({ sessions, next }, at) => {
        answer(connection, id, "SESSIONS", { sessions: sessions.map((view) => sessionBody(view, at)), next });
      },
    );
  }

  waitFree(connection: Connection, id: number, { object, waitMs }: { object: string; waitMs: number | null }): void {
    this.#watchers.waitFree(connection, id, object, waitMs);
  }

  unfollow(connection: Connection, id: number, { follow }: { follow: number }): void {
    this.#watchers.unfollow(connection, follow);
    connection.send("UNFOLLOWED", id, {});
  }

  lockStatus(connection: Connection, id: number): void {
    const { ready, reason, readyInMs } = this.#engine.status();
    if (ready) connection.send("LOCKREADY", id, {});
    else connection.send("NOLOCK", id, { reason, readyIn: readyInMs });
  }

  /** Answered at once, also while the disk is slow: that is when somebody asks. Its counts promise nothing. */
  status(connection: Connection, id: number): void {
    answer(connection, id, "STATUS", { ...this.#status() });
  }

  /** Events that became durable: into the history, then to those who watch. */
  added(events: readonly LockEvent[]): void {
    for (const event of events) this.#history.add(event);
    this.#watchers.notify(events);
  }
}

/** One page of what the client may see: no cursor names an object that it may not. */
function listPrefixes(
  table: LockTable,
  { prefixes, after, limit }: { prefixes: readonly string[]; after: readonly [string, number] | null; limit: number },
): ReturnType<LockTable["list"]> {
  const tickets: TicketView[] = [];
  for (const prefix of prefixes) {
    const last = tickets.at(-1);
    if (tickets.length >= limit && last !== undefined) return { tickets, next: [last.object, last.number] };
    const page = table.list({ prefix, after: after === null ? null : [after[0], after[1]], limit: limit - tickets.length });
    tickets.push(...page.tickets);
    if (page.next !== null) return { tickets, next: page.next };
  }
  return { tickets, next: null };
}

/** An answer that comes later than its request: what cannot be sent becomes an error. */
function answer(connection: Connection, id: number, type: string, body: Body): void {
  try {
    connection.send(type, id, body);
  } catch (thrown) {
    connection.send("ERROR", id, errorBody(asLockdError(thrown)));
  }
}

/**
 * Which connection carries which session, and what waits behind a SESSION that is not decided yet. A
 * session has one connection, a connection one session. Knows no lock and no frame but ERROR.
 */
import { asLockdError, LockdError } from "../../../src/errors.ts";
import { errorBody } from "../../../src/wire/error-body.ts";
import type { Connection } from "../../../src/wire/types.ts";

/** Frames that may wait behind a SESSION of one connection. */
const WAITING_MAX = 1_000;

export interface BoundSession {
  id: string;
  generation: number;
  connection: Connection;
  /** frame ids of LOCK requests that are not answered yet, by request; of a repeated one the newest */
  pending: Map<string, number>;
}

interface WaitingFrame {
  id: number;
  proceed: () => void;
}

export class SessionBindings {
  readonly #disconnected: (bound: BoundSession) => void;
  readonly #bySession = new Map<string, BoundSession>();
  readonly #byConnection = new Map<Connection, BoundSession>();
  readonly #opening = new Map<Connection, WaitingFrame[]>();
  /** connections whose end is listened for already */
  readonly #watched = new WeakSet<Connection>();

  /** `disconnected` hears of a session whose connection went away. */
  constructor(disconnected: (bound: BoundSession) => void) {
    this.#disconnected = disconnected;
  }

  bySession(id: string): BoundSession | undefined {
    return this.#bySession.get(id);
  }

  find(connection: Connection): BoundSession | undefined {
    return this.#byConnection.get(connection);
  }

  /** Throws `invalid` when the connection carries no session. */
  of(connection: Connection): BoundSession {
    const bound = this.#byConnection.get(connection);
    if (bound === undefined) throw new LockdError("invalid", "this request needs a session: send SESSION first");
    return bound;
  }

  /** What comes from this connection waits from now on. Throws `invalid` when it has a session or opens one. */
  beginOpening(connection: Connection): void {
    const bound = this.#byConnection.get(connection);
    if (bound !== undefined) throw new LockdError("invalid", `open session: this connection carries session ${bound.id} already`);
    if (this.#opening.has(connection)) throw new LockdError("invalid", "open session: one is being opened on this connection");
    this.#opening.set(connection, []);
  }

  isOpening(connection: Connection): boolean {
    return this.#opening.has(connection);
  }

  /** Runs `proceed` when the session that this connection is opening, if any, is open or refused. */
  afterOpening(connection: Connection, id: number, proceed: () => void): void {
    const waiting = this.#opening.get(connection);
    if (waiting === undefined) proceed();
    else if (waiting.length < WAITING_MAX) waiting.push({ id, proceed });
    else throw new LockdError("overflow", `take in request: ${WAITING_MAX} others wait for the session to be opened`);
  }

  /** Lets what waits go on; its errors are answered. */
  endOpening(connection: Connection): void {
    const waiting = this.#opening.get(connection) ?? [];
    this.#opening.delete(connection);
    for (const { id, proceed } of waiting) {
      try {
        proceed();
      } catch (thrown) {
        if (id !== 0) connection.send("ERROR", id, errorBody(asLockdError(thrown)));
      }
    }
  }

  /** The session goes on over this connection; an earlier one is told and closed. */
  bind(bound: BoundSession): void {
    const { connection } = bound;
    const earlier = this.#bySession.get(bound.id);
    if (earlier !== undefined) {
      this.forget(earlier);
      earlier.connection.closeWith("denied", "the session goes on over a newer connection");
    }
    if (connection.closed) {
      this.#disconnected(bound);
      return;
    }
    this.#bySession.set(bound.id, bound);
    this.#byConnection.set(connection, bound);
    if (this.#watched.has(connection)) return;
    this.#watched.add(connection);
    connection.onClose(() => this.#closed(connection));
  }

  /** The connection carries the session no longer, and the table knows that. */
  forget(bound: BoundSession): void {
    if (this.#byConnection.get(bound.connection) === bound) this.#byConnection.delete(bound.connection);
    if (this.#bySession.get(bound.id) === bound) this.#bySession.delete(bound.id);
  }

  /** Ends all bindings with this reason. */
  reset(reason: string): void {
    for (const bound of [...this.#bySession.values()]) {
      this.forget(bound);
      bound.connection.closeWith("unavailable", reason);
    }
  }

  #closed(connection: Connection): void {
    const bound = this.#byConnection.get(connection);
    if (bound === undefined) return;
    this.forget(bound);
    this.#disconnected(bound);
  }
}

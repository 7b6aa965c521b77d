/**
 * What message handlers see of the wire: frames, connections and the registry of messages.
 * Knows no socket and no plugin.
 */

import type { Principal } from "../security/rules.ts";

/** A CBOR map as it came off the wire, before a schema has looked at it. */
export type Body = Readonly<Record<string, unknown>>;

/** One frame: `[type, id, body]`. `id` pairs answers with requests; 0 means no answer expected. */
export interface Frame {
  type: string;
  id: number;
  body: Body;
}

/** Who is at the other end, as its HELLO said (validated, and authenticated where that is asked for). */
export interface PeerIdentity {
  role: "client" | "peer" | "sync";
  /** who it is by its credentials, which decide what it may do */
  principal: Principal;
  /** name of the computer or the client program */
  name: string;
  host: string;
  pid: number;
  program: string;
  software: string;
  features: readonly string[];
  /** address as seen from here, `ip:port` */
  address: string;
}

/** One accepted connection, as a message handler sees it. */
export interface Connection {
  /** unique in this process */
  readonly id: number;
  readonly identity: PeerIdentity;
  readonly closed: boolean;
  /**
   * Queues a frame. Frames queued in one turn of the event loop share a write. A reader so slow that
   * the queue passes its limit is closed with the reason `slow`.
   */
  send(type: string, id: number, body: Body): void;
  /** Sends an ERROR frame, then closes after what is queued was written. */
  closeWith(code: string, message: string): void;
  /** Called once when the connection is gone, whatever the cause; never from within `send`. */
  onClose(listener: () => void): void;
}

/** Checks a body and gives it its type; throws LockdError `invalid` with the path of the bad field. */
export type BodyParser<T> = (body: Body) => T;

/**
 * Handles one message. A thrown or rejected LockdError is answered with an ERROR frame of the same id;
 * anything else is logged with its stack and answered `failed`. A promise settles when the request has
 * been taken in, not when a long wait is over: requests whose promises are pending count against the
 * limit at which a connection is not read from any more.
 */
export type MessageHandler<T> = (connection: Connection, id: number, body: T) => void | Promise<void>;

export interface MessageRegistry {
  /** Registers a request type. A type registered twice is a configuration error naming both plugins. */
  on<T>(type: string, parse: BodyParser<T>, handle: MessageHandler<T>): void;
}

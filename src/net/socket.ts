/**
 * The socket as connections see it: bytes out, bytes in, and the ends of both. Lets a connection run
 * over a real socket or over one that a test plays.
 */
import type { ConnectionFacts } from "../security/authenticator.ts";

/** What a connection does to its socket. */
export interface ByteSocket {
  /** Takes what it can of `length` bytes from `offset`; returns how many, negative when it is closed. */
  write(data: Uint8Array, offset: number, length: number): number;
  /** Ends the output; the input goes on until the other side ends it too. */
  shutdown(): void;
  /** Closes both ways, when both sides have ended their output. */
  end(): void;
  /** Ends both at once. */
  terminate(): void;
  pause(): void;
  resume(): void;
}

/** What a socket does to its connection. */
export interface SocketHandler {
  /** TLS is agreed on: before the first bytes are received; not called without TLS. */
  secured(tls: NonNullable<ConnectionFacts["tls"]>): void;
  /** The chunk may be reused after the call. */
  received(chunk: Uint8Array): void;
  /** The socket takes bytes again. */
  drained(): void;
  /** The other side sends nothing more; it may still read. */
  peerEnded(): void;
  /** Both ways are closed. Called once, last. */
  socketClosed(): void;
}

/** Bounds of a server and its connections, each with its default. Values only. */
import type { CborLimits } from "../wire/cbor-decode.ts";
import { CBOR_LIMITS } from "../wire/cbor-decode.ts";
import { FRAME_BYTES_MAX } from "../wire/frame.ts";
import { HELLO_TIMEOUT_MS } from "../wire/hello.ts";

export interface ServerLimits {
  /** connections at once; the limit of descriptors may lower it */
  connectionsMax: number;
  /** of them those that are not through with HELLO; never all, see greetingLimit */
  greetingMax: number;
  /** payload of one frame, both ways */
  frameBytesMax: number;
  cbor: CborLimits;
  /** output that waits for a slow reader; beyond it the connection is closed */
  outputBytesMax: number;
  /** from here on nothing is read from a connection until half of its output is gone */
  outputBytesHigh: number;
  /** requests of one connection whose handlers have not settled; beyond it nothing is read */
  runningMax: number;
  /** time until HELLO must have come */
  helloTimeoutMs: number;
  /** silence after which a PING is sent */
  pingAfterMs: number;
  /** silence, or output that does not move, after which a connection is closed */
  silenceMaxMs: number;
  /** time that the other side has to close after our last byte */
  lingerMs: number;
}

export const SERVER_LIMITS: ServerLimits = {
  connectionsMax: 20_000,
  greetingMax: 2_000,
  frameBytesMax: FRAME_BYTES_MAX,
  cbor: CBOR_LIMITS,
  outputBytesMax: 16 * 1024 * 1024,
  outputBytesHigh: 1024 * 1024,
  runningMax: 4096,
  helloTimeoutMs: HELLO_TIMEOUT_MS,
  pingAfterMs: 30_000,
  silenceMaxMs: 60_000,
  lingerMs: 2_000,
};

/** Few connections are shared out sparingly: a burst of clients greets all at the same time. */
const FEW = 100;

/**
 * Connections that may be before HELLO at once: what is configured, but always fewer than may be open,
 * so that who does not say who it is cannot keep out who does.
 */
export function greetingLimit(configured: number, connectionsMax: number): number {
  return Math.max(1, Math.min(configured, connectionsMax < FEW ? connectionsMax - 1 : Math.floor(connectionsMax * 0.75)));
}

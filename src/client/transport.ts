/**
 * Byte streams to a server: the interface that the library needs, and TCP over node:net, the same in
 * Bun and in Node. Knows no frame.
 */
import { lookup } from "node:dns/promises";
import { connect } from "node:net";

export interface TransportHandler {
  /** the connection stands; nothing was read yet */
  opened(): void;
  /** the chunk is the handler's for the duration of the call */
  data(chunk: Uint8Array): void;
  /** all that was written has left; called after a `write` that returned false */
  drain(): void;
  /** called once, whatever the cause; nothing follows */
  closed(error: Error | null): void;
}

export interface Transport {
  /** Takes all of it; false: wait for `drain` before writing more. */
  write(bytes: Uint8Array): boolean;
  /** Closes after what was written has left. */
  end(): void;
  /** Closes at once. */
  destroy(): void;
}

/** Opens a stream to one IP address. Failure comes through `closed`, never as a throw. */
export type Dial = (target: { address: string; port: number }, handler: TransportHandler) => Transport;

/** All addresses of a host name, at the time of the call. */
export type Resolve = (host: string) => Promise<readonly string[]>;

export const dialTcp: Dial = (target, handler) => {
  const socket = connect({ host: target.address, port: target.port, noDelay: true });
  let failure: Error | null = null;
  socket.on("connect", () => handler.opened());
  socket.on("data", (chunk: Buffer) => handler.data(chunk));
  socket.on("drain", () => handler.drain());
  socket.on("error", (error) => {
    failure = error;
  });
  socket.on("close", () => handler.closed(failure));
  return {
    write: (bytes) => socket.write(bytes),
    end: () => void socket.end(),
    destroy: () => void socket.destroy(),
  };
};

export const resolveHost: Resolve = async (host) => {
  const found = await lookup(host, { all: true, verbatim: true });
  return found.map((entry) => entry.address);
};

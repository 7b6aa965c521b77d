/**
 * A listening TCP socket that never takes more connections than it may: at the limit it stops
 * listening, below it it listens again, because an accept without a free descriptor would spin.
 * Knows no frame.
 */
import { formatAddress } from "../config/address.ts";
import type { Timer, Timers } from "../clock/clock.ts";
import { LockdError } from "../errors.ts";
import type { Logger } from "../observe/types.ts";
import type { ByteSocket, SocketHandler } from "./socket.ts";

/** Tries to listen again are this far apart when the port was taken meanwhile. */
const RETRY_MS = 250;

export interface ListenerOptions {
  /** name, IPv4 or IPv6 without brackets */
  host: string;
  /** 0: any free one */
  port: number;
  connectionsMax: number;
  logger: Logger;
  timers: Timers;
  /** Called for each connection; `address` is the other side's `ip:port`. */
  accept(socket: ByteSocket, address: string): SocketHandler;
}

interface SocketData {
  /** null: it came over the limit and is being closed */
  handler: SocketHandler | null;
}

export class Listener {
  readonly host: string;
  readonly #options: ListenerOptions;
  #server: Bun.TCPSocketListener<SocketData> | null = null;
  #port: number;
  #connections = 0;
  #stopped = false;
  #retry: Timer | null = null;

  /** Listens from now on. Throws LockdError `config` when the address cannot be had. */
  constructor(options: ListenerOptions) {
    this.#options = options;
    this.host = options.host;
    this.#port = options.port;
    this.#server = this.#listen();
    this.#port = this.#server.port;
  }

  /** The real one, also when 0 was asked for. */
  get port(): number {
    return this.#port;
  }

  /** `host:port` with the real port */
  get address(): string {
    return formatAddress({ host: this.host, port: this.#port });
  }

  get connections(): number {
    return this.#connections;
  }

  /** whether new connections are taken now */
  get listening(): boolean {
    return this.#server !== null;
  }

  /** Takes no new connections from now on; the others live on. */
  stop(): void {
    this.#stopped = true;
    this.#retry?.cancel();
    this.#close();
  }

  #listen(): Bun.TCPSocketListener<SocketData> {
    const { host } = this.#options;
    try {
      return Bun.listen<SocketData>({
        hostname: host,
        port: this.#port,
        // without it the answer to a client that has ended its output is lost
        allowHalfOpen: true,
        data: { handler: null },
        socket: {
          open: (socket) => this.#opened(socket),
          data: (socket, chunk) => socket.data.handler?.received(chunk),
          drain: (socket) => socket.data.handler?.drained(),
          end: (socket) => socket.data.handler?.peerEnded(),
          close: (socket) => this.#closed(socket),
          // every error is followed by close
          error: () => undefined,
        },
      });
    } catch (error) {
      throw listenError(error, formatAddress({ host, port: this.#port }));
    }
  }

  #opened(socket: Bun.Socket<SocketData>): void {
    socket.data = { handler: null };
    // accepted in one go with the one that reached the limit, or with the stop
    if (this.#stopped || this.#connections >= this.#options.connectionsMax) {
      socket.terminate();
      return;
    }
    this.#connections++;
    const address = formatAddress({ host: socket.remoteAddress, port: socket.remotePort });
    socket.data.handler = this.#options.accept(socket, address);
    if (this.#connections >= this.#options.connectionsMax) {
      this.#options.logger.warn("connections-full", { connections: this.#connections, address: this.address });
      this.#close();
    }
  }

  #closed(socket: Bun.Socket<SocketData>): void {
    const { handler } = socket.data;
    if (handler === null) return;
    socket.data.handler = null;
    this.#connections--;
    handler.socketClosed();
    if (this.#server === null && this.#retry === null) this.#listenAgain();
  }

  #close(): void {
    this.#server?.stop(false);
    this.#server = null;
  }

  /** With some distance below the limit, so that one connection more or less does not toggle it. */
  #listenAgain(): void {
    const { connectionsMax, logger, timers } = this.#options;
    // accepted in one go with the one that reached the limit, or with the stop
    if (this.#stopped || this.#connections >= Math.ceil(connectionsMax * 0.95)) return;
    try {
      this.#server = this.#listen();
      logger.info("connections-accepted-again", { connections: this.#connections, address: this.address });
    } catch (error) {
      logger.error("listen-failed", { address: this.address, reason: error instanceof Error ? error.message : String(error) });
      this.#retry = timers.after(RETRY_MS, () => {
        this.#retry = null;
        this.#listenAgain();
      });
    }
  }
}

const REASONS: Readonly<Record<string, { reason: string; hint: string }>> = {
  EADDRINUSE: { reason: "address already in use", hint: "another process listens there: stop it, or choose another port" },
  EACCES: { reason: "permission denied", hint: "ports below 1024 need root or CAP_NET_BIND_SERVICE" },
  EADDRNOTAVAIL: { reason: "not an address of this machine", hint: "listen on an address of this machine, or on 0.0.0.0 or [::] for all" },
};

function listenError(error: unknown, address: string): LockdError {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const known = REASONS[code];
  if (known !== undefined) return new LockdError("config", `listen on ${address}: ${known.reason}`, { hint: known.hint, cause: error });
  const reason = code === "" || code === "ENOTFOUND" ? "the host name cannot be resolved" : code;
  return new LockdError("config", `listen on ${address}: ${reason}`, { cause: error });
}

/**
 * A listening socket, TCP or TLS, that never takes more connections than it may: at the limit it stops
 * listening, below it it listens again, because an accept without a free descriptor would spin.
 * Knows no frame and does not decide who may connect.
 */
import { formatAddress } from "../config/address.ts";
import type { Timer, Timers } from "../clock/clock.ts";
import { LockdError } from "../errors.ts";
import type { Logger } from "../observe/types.ts";
import type { ConnectionFacts } from "../security/authenticator.ts";
import { certificateProblem, nameInCertificate } from "../security/certificates.ts";
import type { ServerTls } from "../security/server-security.ts";
import type { ByteSocket, SocketHandler } from "./socket.ts";

/** Tries to listen again are this far apart when the port was taken meanwhile. */
const RETRY_MS = 250;

export interface ListenerOptions {
  /** name, IPv4 or IPv6 without brackets */
  host: string;
  /** 0: any free one */
  port: number;
  connectionsMax: number;
  /** null: no TLS */
  tls: ServerTls | null;
  logger: Logger;
  timers: Timers;
  /** Called for each connection; `address` is the other side's `ip:port`. Null: it is not wanted. */
  accept(socket: ByteSocket, from: { address: string; host: string }): SocketHandler | null;
}

interface SocketData {
  /** null: it came over the limit and is being closed */
  handler: SocketHandler | null;
}

export class Listener {
  readonly host: string;
  readonly #options: ListenerOptions;
  #server: Bun.TCPSocketListener<SocketData> | null = null;
  #tls: ServerTls | null;
  #port: number;
  #connections = 0;
  #stopped = false;
  #retry: Timer | null = null;

  /** Listens from now on. Throws LockdError `config` when the address cannot be had. */
  constructor(options: ListenerOptions) {
    this.#options = options;
    this.host = options.host;
    this.#port = options.port;
    this.#tls = options.tls;
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

  /**
   * New connections speak TLS like this from now on; the others live on as they are. For the moment
   * between the two sockets a client finds nobody listening.
   */
  useTls(tls: ServerTls | null): void {
    this.#tls = tls;
    // at the limit, or without the port: what listens next takes it up
    if (this.#server === null) return;
    this.#close();
    this.#listenAgain("quiet");
  }

  #listen(): Bun.TCPSocketListener<SocketData> {
    const { host } = this.#options;
    const tls = this.#tls;
    try {
      return Bun.listen<SocketData>({
        hostname: host,
        port: this.#port,
        // without it the answer to a client that has ended its output is lost
        allowHalfOpen: true,
        data: { handler: null },
        ...(tls === null ? {} : { tls: tlsOptions(tls) }),
        socket: {
          open: (socket) => this.#opened(socket),
          handshake: (socket, agreed, problem) => {
            if (tls !== null && agreed) socket.data.handler?.secured(factsOf(socket, tls, problem));
          },
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
    const host = socket.remoteAddress;
    const handler = this.#options.accept(socket, { address: formatAddress({ host, port: socket.remotePort }), host });
    if (handler === null) {
      socket.terminate();
      return;
    }
    this.#connections++;
    socket.data.handler = handler;
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
    if (this.#server === null && this.#retry === null) this.#listenAgain("told");
  }

  #close(): void {
    this.#server?.stop(false);
    this.#server = null;
  }

  /** With some distance below the limit, so that one connection more or less does not toggle it. */
  #listenAgain(manner: "told" | "quiet"): void {
    const { connectionsMax, logger, timers } = this.#options;
    // accepted in one go with the one that reached the limit, or with the stop
    if (this.#stopped || this.#connections >= Math.ceil(connectionsMax * 0.95)) return;
    try {
      this.#server = this.#listen();
      if (manner === "told") logger.info("connections-accepted-again", { connections: this.#connections, address: this.address });
    } catch (error) {
      logger.error("listen-failed", { address: this.address, reason: error instanceof Error ? error.message : String(error) });
      this.#retry = timers.after(RETRY_MS, () => {
        this.#retry = null;
        this.#listenAgain("told");
      });
    }
  }
}

const tlsOptions = ({ certificate, key, ca }: ServerTls): Bun.TLSOptions =>
  // who is not accepted hears why, instead of a broken connection: what counts is `authorized`
  ca === null ? { cert: certificate, key } : { cert: certificate, key, ca, requestCert: true, rejectUnauthorized: false };

/** What the handshake told of the client. */
function factsOf(socket: Bun.Socket<SocketData>, tls: ServerTls, problem: Error | null): NonNullable<ConnectionFacts["tls"]> {
  const { certificateHash } = tls;
  const certificate = tls.ca === null ? undefined : socket.getPeerCertificate();
  if (certificate === undefined || certificate === null || certificate.raw === undefined) return { certificateHash, client: { kind: "none" } };
  if (!socket.authorized) {
    const code = problem !== null && "code" in problem ? String(problem.code) : "UNKNOWN";
    return { certificateHash, client: { kind: "refused", reason: certificateProblem(code) } };
  }
  const name = nameInCertificate(certificate.raw);
  return { certificateHash, client: name === null ? { kind: "refused", reason: "it names nobody" } : { kind: "trusted", name } };
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
  const unresolved = code === "" || code === "ENOTFOUND";
  return new LockdError("config", `listen on ${address}: ${unresolved ? "the host name cannot be resolved" : code}`, {
    ...(unresolved ? { hint: "listen on an IP address of this machine, or on a name that has one" } : {}),
    cause: error,
  });
}

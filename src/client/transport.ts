/**
 * Byte streams to a server: the interface that the library needs, and TCP and TLS over node:net and
 * node:tls, the same in Bun and in Node. Knows no frame.
 */
import { createHash } from "node:crypto";
import { lookup } from "node:dns/promises";
import { connect, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { LockdError } from "../errors.ts";
import { certificateProblem, isCertificateProblem } from "../security/certificates.ts";
import type { ClientSecurity } from "../security/client-security.ts";

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
  /** SHA-256 of the server's certificate, once opened; absent or null without TLS */
  readonly certificateHash?: Uint8Array | null;
  /** Takes all of it; false: wait for `drain` before writing more. */
  write(bytes: Uint8Array): boolean;
  /** Closes after what was written has left. */
  end(): void;
  /** Closes at once. */
  destroy(): void;
}

export interface DialTarget {
  /** IP address */
  address: string;
  port: number;
  /** name or address as the user wrote it: what the server's certificate must name; default: `address` */
  host?: string;
}

/** Opens a stream to one IP address. Failure comes through `closed`, never as a throw. */
export type Dial = (target: DialTarget, handler: TransportHandler) => Transport;

/** All addresses of a host name, at the time of the call. */
export type Resolve = (host: string) => Promise<readonly string[]>;

export const dialTcp: Dial = (target, handler) => {
  const socket = connect({ host: target.address, port: target.port, noDelay: true });
  socket.on("connect", () => handler.opened());
  carry(socket, handler, (error) => error);
  return transportOver(socket, () => null);
};

/** Streams that are open only once the server's certificate is found good and names the host that was asked for. */
export const dialTls =
  (tls: NonNullable<ClientSecurity["tls"]>): Dial =>
  (target, handler) => {
    const host = target.host ?? target.address;
    let hash: Uint8Array | null = null;
    let failed: Error | null = null;
    const socket = connectTls({
      host: target.address,
      port: target.port,
      // an address is checked, but not sent: only names may be
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...(tls.ca === undefined ? {} : { ca: tls.ca }),
      ...(tls.certificate === undefined || tls.key === undefined ? {} : { cert: tls.certificate, key: tls.key }),
      minVersion: "TLSv1.2",
      rejectUnauthorized: true,
    });
    socket.setNoDelay(true);
    socket.on("secureConnect", () => {
      if (!socket.authorized) {
        // a runtime that goes on all the same must not
        failed = socket.authorizationError instanceof Error ? socket.authorizationError : new Error(String(socket.authorizationError));
        socket.destroy();
        return;
      }
      hash = new Uint8Array(createHash("sha256").update(socket.getPeerCertificate().raw).digest());
      handler.opened();
    });
    carry(socket, handler, (error) => (error ?? failed) && tlsFailure(error ?? failed, host));
    return transportOver(socket, () => hash);
  };

function carry(socket: Socket, handler: TransportHandler, describe: (error: Error | null) => Error | null): void {
  let failure: Error | null = null;
  socket.on("data", (chunk: Buffer) => handler.data(chunk));
  socket.on("drain", () => handler.drain());
  socket.on("error", (error) => {
    failure = error;
  });
  socket.on("close", () => handler.closed(describe(failure)));
}

function transportOver(socket: Socket, certificateHash: () => Uint8Array | null): Transport {
  return {
    get certificateHash() {
      return certificateHash();
    },
    write: (bytes) => socket.write(bytes),
    end: () => void socket.end(),
    destroy: () => void socket.destroy(),
  };
}

/** What failed about TLS as an error that says what to do; other errors as they are. */
function tlsFailure(error: Error | null, host: string): Error | null {
  const code = error !== null && "code" in error ? String(error.code) : "";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return new LockdError("denied", `its certificate does not name ${host}`, {
      hint: "connect by a name that it has, or issue one with --host",
      cause: error,
    });
  }
  if (isCertificateProblem(code)) {
    return new LockdError("denied", `its certificate is not accepted: ${certificateProblem(code)}`, {
      hint: "--tls-ca names the CA that issued the server's certificate",
      cause: error,
    });
  }
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER" || code === "ERR_SSL_PACKET_LENGTH_TOO_LONG") {
    return new LockdError("denied", "it does not speak TLS", {
      hint: "start the server with --tls-cert and --tls-key, or leave out --tls-ca and --tls-cert",
      cause: error,
    });
  }
  return error;
}

export const resolveHost: Resolve = async (host) => {
  const found = await lookup(host, { all: true, verbatim: true });
  return found.map((entry) => entry.address);
};

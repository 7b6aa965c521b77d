/**
 * What the end-to-end tests of security build their world from: CAs and certificates made by the
 * executable itself, secrets, tokens, server configurations, and a client that speaks bytes.
 */
import { createHash, randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { encodeFrame, FrameDecoder } from "../../src/wire/frame.ts";
import type { Body, Frame } from "../../src/wire/types.ts";
import { lockd } from "./kit.ts";

export interface Identity {
  cert: string;
  key: string;
  ca: string;
}

/** `lockd tls init` in a folder of its own. */
export async function makeAuthority(directory: string): Promise<string> {
  must(await lockd(["tls", "init", "--dir", directory]));
  return directory;
}

/** `lockd tls issue`; paths of what it wrote. */
export async function issue(authority: string, name: string, out: string, ...flags: readonly string[]): Promise<Identity> {
  must(await lockd(["tls", "issue", name, "--dir", authority, "--out", out, ...flags]));
  return { cert: join(out, "cert.pem"), key: join(out, "key.pem"), ca: join(out, "ca.pem") };
}

function must({ code, stderr }: { code: number; stderr: string }): void {
  if (code !== 0) throw new Error(stderr);
}

export const identityFlags = ({ cert, key, ca }: Identity): string[] => ["--tls-cert", cert, "--tls-key", key, "--tls-ca", ca];

/** A file with a new random secret or token in it, and its text. */
export function secretFile(path: string): { path: string; text: string; sha256: string } {
  const text = randomBytes(24).toString("base64");
  writeFileSync(path, `${text}\n`, { mode: 0o600 });
  return { path, text, sha256: createHash("sha256").update(text).digest("hex") };
}

export const HELLO: Body = { protocol: 1, role: "client", name: "raw", host: "here", pid: 1, program: "test", software: "0", features: [] };

/** A client that sends exactly what it is told and keeps every byte and frame that comes back. */
export class RawClient {
  readonly socket: Socket;
  readonly frames: Frame[] = [];
  /** what it sent, for a replay */
  readonly sent: Uint8Array[] = [];
  bytes = 0;
  closed = false;
  readonly #decoder = new FrameDecoder({ frameBytesMax: 1 << 24 });

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.bytes += chunk.length;
      this.#decoder.push(chunk, (frame) => this.frames.push(frame));
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.closed = true;
    });
  }

  static async open(address: string, tls?: { ca: string }): Promise<RawClient> {
    const [host = "", port = ""] = address.split(":");
    const socket = tls === undefined ? connect(Number(port), host) : connectTls({ port: Number(port), host, ca: tls.ca });
    const client = new RawClient(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once(tls === undefined ? "connect" : "secureConnect", () => resolve());
      socket.once("close", () => reject(new Error("closed before it was open")));
    });
    return client;
  }

  send(type: string, body: Body, id = 0): void {
    this.write(encodeFrame(type, id, body));
  }

  write(bytes: Uint8Array): void {
    this.sent.push(new Uint8Array(bytes));
    this.socket.write(bytes);
  }
}

/** What the network tests build their world from: a silent logger that remembers, a server, a raw client. */
import { connect, type Socket } from "node:net";
import type { Clock, Timers } from "../../src/clock/clock.ts";
import { realClock, realTimers } from "../../src/clock/real.ts";
import { LockdError } from "../../src/errors.ts";
import type { ServerLimits } from "../../src/net/limits.ts";
import { type Server, startServer, type WireSecurity } from "../../src/net/server.ts";
import type { LogFields, Logger } from "../../src/observe/types.ts";
import { ASKS_NOBODY } from "../../src/security/authenticator.ts";
import { encodeFrame, FrameDecoder } from "../../src/wire/frame.ts";
import { clientHelloBody } from "../../src/wire/hello.ts";
import { Messages } from "../../src/wire/registry.ts";
import type { TraceHook } from "../../src/wire/trace.ts";
import type { Body, Connection, Frame } from "../../src/wire/types.ts";

/** Bound of a single wait: only a hang takes as long. */
export const HANG_MS = 10_000;

export interface LogLine {
  level: string;
  msg: string;
  fields: LogFields;
}

export function memoryLogger(): Logger & { lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at = (level: string) => (msg: string, fields: LogFields = {}): void => void lines.push({ level, msg, fields });
  const logger = {
    lines,
    trace: at("trace"),
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    enabled: () => true,
    child: () => logger,
  };
  return logger;
}

export const HELLO: Body = clientHelloBody({
  role: "client",
  name: "tester",
  host: "here",
  pid: 4711,
  program: "test",
  software: "0.0.1",
  features: [],
});

export interface World {
  server: Server;
  logger: Logger & { lines: LogLine[] };
  /** every connection that sent a request, in the order of their first */
  seen: Connection[];
}

export interface WorldOptions {
  listen?: { host: string; port: number };
  limits?: Partial<ServerLimits>;
  clock?: Clock;
  timers?: Timers;
  trace?: TraceHook;
  /** default: no TLS, nobody is asked */
  security?: WireSecurity;
  register?(messages: Messages): void;
}

/** A server on a random port with ECHO (answers ECHOED with the same body) and REJECT (throws). */
export function startWorld(options: WorldOptions = {}): World {
  const logger = memoryLogger();
  const messages = new Messages(logger);
  const seen: Connection[] = [];
  const registry = messages.registryFor("test");
  const parse = (body: Body): Body => body;
  registry.on("ECHO", parse, (connection, id, body) => {
    if (!seen.includes(connection)) seen.push(connection);
    connection.send("ECHOED", id, body);
  });
  registry.on("REJECT", parse, () => {
    throw new LockdError("denied", "reject request: as asked");
  });
  options.register?.(messages);
  const clock = options.clock ?? realClock();
  const server = startServer({
    listen: options.listen ?? { host: "127.0.0.1", port: 0 },
    hello: { name: "node", cluster: "cluster-id", software: "0.0.1", features: ["echo"] },
    security: options.security ?? { tls: null, authenticator: ASKS_NOBODY },
    messages,
    ...(options.limits === undefined ? {} : { limits: options.limits }),
    ...(options.trace === undefined ? {} : { trace: options.trace }),
    logger,
    clock,
    timers: options.timers ?? realTimers(clock),
  });
  return { server, logger, seen };
}

/** Waits until `condition` holds, or fails saying what was waited for. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  const endMs = performance.now() + HANG_MS;
  while (!condition()) {
    if (performance.now() > endMs) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** A client that sends exactly what it is told and keeps all frames that come back. */
export class RawClient {
  readonly socket: Socket;
  readonly frames: Frame[] = [];
  ended = false;
  closed = false;
  error: string | null = null;
  readonly #decoder = new FrameDecoder({ frameBytesMax: 1 << 26 });
  #wake: (() => void)[] = [];

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => {
      this.#decoder.push(chunk, (frame) => this.frames.push(frame));
      this.#notify();
    });
    socket.on("end", () => {
      this.ended = true;
      this.#notify();
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      this.error = error.code ?? error.message;
    });
    socket.on("close", () => {
      this.closed = true;
      this.#notify();
    });
  }

  static async connect(server: { port: number }, options: { allowHalfOpen?: boolean; host?: string } = {}): Promise<RawClient> {
    const socket = connect({ port: server.port, host: options.host ?? "127.0.0.1", allowHalfOpen: options.allowHalfOpen ?? false });
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return new RawClient(socket);
  }

  /** Connected and greeted; the server's HELLO is taken off the frames. */
  static async greeted(server: { port: number }, options: { allowHalfOpen?: boolean } = {}): Promise<RawClient> {
    const client = await RawClient.connect(server, options);
    client.send("HELLO", 0, HELLO);
    const hello = await client.next();
    if (hello.type !== "HELLO") throw new Error(`greeted with ${hello.type}`);
    return client;
  }

  send(type: string, id: number, body: Body = {}): void {
    this.socket.write(encodeFrame(type, id, body));
  }

  /** The next frame that is not PING. */
  async next(): Promise<Frame> {
    const endMs = performance.now() + HANG_MS;
    for (;;) {
      const frame = this.frames.shift();
      if (frame !== undefined && frame.type !== "PING") return frame;
      if (frame !== undefined) continue;
      if (this.closed) throw new Error(`closed (${this.error ?? "cleanly"}) while a frame was waited for`);
      await this.#event(endMs, "a frame");
    }
  }

  async untilClosed(): Promise<void> {
    const endMs = performance.now() + HANG_MS;
    while (!this.closed) await this.#event(endMs, "the close");
  }

  async #event(endMs: number, what: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#wake.push(resolve);
    const timer = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), Math.max(0, endMs - performance.now()));
    await promise.finally(() => clearTimeout(timer));
  }

  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}

/**
 * One connection to one server: HELLO both ways, frames in and out (those of one turn share a write),
 * back-pressure, PING with a deadline. Knows no lock and no reconnecting.
 */
import type { Timer, Timers } from "../clock/clock.ts";
import { asLockdError, assert, LockdError } from "../errors.ts";
import { FRAME_BYTES_MAX, FrameDecoder, FrameEncoder } from "../wire/frame.ts";
import type { Body, Frame } from "../wire/types.ts";
import { isLoopbackHost } from "../loopback.ts";
import { ClientHandshake, type ClientSecurity } from "../security/client-security.ts";
import { errorOf } from "./answers.ts";
import type { LeaseClock } from "./lease-clock.ts";
import { PROTOCOL_VERSION } from "./protocol.ts";
import type { Dial, DialTarget, Transport } from "./transport.ts";

/** Without a byte from the server for this long, a PING is sent … */
const PING_AFTER_MS = 1500;
/** … and when still nothing came for this long after it, the connection counts as cut. */
const PING_DEADLINE_MS = 2000;
/** What may wait for a server that does not read, bytes; more requests are refused with `overflow`. */
const QUEUE_BYTES_MAX = 16 * 1024 * 1024;
/** How long a goodbye may take to leave before the connection is cut. */
const END_MS_MAX = 1000;

/** What this client says about itself. */
export interface ClientIdentity {
  name: string;
  host: string;
  pid: number;
  program: string;
  software: string;
}

/** What the server said about itself. */
export interface ServerIdentity {
  name: string;
  cluster: string;
  software: string;
  features: readonly string[];
}

export interface ChannelHandler {
  /** bytes arrived; called before the frames in them are handled */
  received(): void;
  /** every frame but HELLO, PING and PONG */
  frame(frame: Frame): void;
  /** the frames of one chunk are handled */
  handled(): void;
  /** called once; the connection is gone */
  closed(reason: LockdError): void;
}

export interface ChannelOptions {
  target: DialTarget;
  /** for messages */
  label: string;
  identity: ClientIdentity;
  /** for the connection and both HELLOs together */
  timeoutMs: number;
  dial: Dial;
  security?: ClientSecurity;
  leaseClock: LeaseClock;
  timers: Pick<Timers, "after">;
  /** frame ids rise over the whole life of a client, so they are drawn from it */
  nextFrameId: () => number;
  signal?: AbortSignal | undefined;
}

/**
 * Connects and greets. Rejects with LockdError: the server's own refusal, `unavailable` when it cannot
 * be reached or does not answer in time, `protocol` when it speaks another language.
 */
export function openChannel(options: ChannelOptions): Promise<Channel> {
  return new Promise((resolve, reject) => {
    const channel = new Channel(options, {
      ready: () => {
        cleanUp();
        resolve(channel);
      },
      failed: (error) => {
        cleanUp();
        reject(error);
      },
    });
    const timer = options.timers.after(options.timeoutMs, () =>
      channel.fail(new LockdError("unavailable", `connect to ${options.label}: no answer within ${options.timeoutMs} ms`)),
    );
    const abort = () => channel.fail(new LockdError("cancelled", `connect to ${options.label}: cancelled`));
    const cleanUp = () => {
      timer.cancel();
      options.signal?.removeEventListener("abort", abort);
    };
    options.signal?.addEventListener("abort", abort);
    if (options.signal?.aborted === true) abort();
  });
}

interface Opening {
  ready(): void;
  failed(error: LockdError): void;
}

export class Channel {
  readonly label: string;
  readonly #options: ChannelOptions;
  readonly #decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
  readonly #encoder = new FrameEncoder({ frameBytesMax: FRAME_BYTES_MAX });
  readonly #transport: Transport;
  /** until the server's HELLO came */
  #opening: Opening | null;
  #handshake: ClientHandshake | null = null;
  #handler: ChannelHandler | null = null;
  #server: ServerIdentity | null = null;
  #closed: LockdError | null = null;
  #flushScheduled = false;
  /** the transport asked to wait for its drain */
  #blocked = false;
  #heardMs: number;
  #endTimer: Timer | null = null;
  /** when the PING that is not answered yet was sent */
  #pingMs: number | null = null;

  /** Use openChannel: before `ready` nothing may be sent. */
  constructor(options: ChannelOptions, opening: Opening) {
    this.#options = options;
    this.label = options.label;
    this.#opening = opening;
    this.#heardMs = options.leaseClock.now();
    this.#transport = options.dial(options.target, {
      opened: () => this.#greet(),
      data: (chunk) => this.#data(chunk),
      drain: () => {
        this.#blocked = false;
        this.#flush();
      },
      closed: (error) => this.#transportClosed(error),
    });
  }

  get server(): ServerIdentity {
    assert(this.#server !== null, "a channel in use has been greeted");
    return this.#server;
  }

  get closed(): boolean {
    return this.#closed !== null;
  }

  /** Bytes that wait for the server to read. */
  get congested(): boolean {
    return this.#encoder.bytes > QUEUE_BYTES_MAX;
  }

  attach(handler: ChannelHandler): void {
    assert(this.#handler === null, "a channel has one handler");
    this.#handler = handler;
  }

  /** Queues a frame; all of one turn of the event loop leave in one write. Ignored once closed. */
  send(type: string, id: number, body: Body): void {
    if (this.#closed !== null) return;
    this.#encoder.append(type, id, body);
    if (this.#flushScheduled || this.#blocked) return;
    this.#flushScheduled = true;
    setImmediate(() => this.#flush());
  }

  /** When `tick` has something to do next. */
  get dueMs(): number {
    if (this.#closed !== null) return Number.POSITIVE_INFINITY;
    return this.#pingMs === null ? this.#heardMs + PING_AFTER_MS : this.#pingMs + PING_DEADLINE_MS;
  }

  /** Keeps the connection honest: a cut network without FIN is noticed within 3.5 s. */
  tick(nowMs: number): void {
    if (nowMs < this.dueMs) return;
    if (this.#pingMs === null) {
      this.#pingMs = nowMs;
      this.send("PING", this.#options.nextFrameId(), {});
    } else {
      const silentMs = Math.round(nowMs - this.#heardMs);
      this.fail(new LockdError("unavailable", `talk to ${this.label}: nothing heard for ${silentMs} ms`));
    }
  }

  /** Closes after what is queued has left, within a second. */
  end(): void {
    if (this.#closed !== null) return;
    this.#flush();
    this.#transport.end();
    this.#endTimer = this.#options.timers.after(END_MS_MAX, () => this.#transport.destroy());
    this.#close(new LockdError("unavailable", `talk to ${this.label}: closed by this client`));
  }

  /** Closes at once. */
  fail(reason: LockdError): void {
    if (this.#closed !== null) return;
    this.#close(reason);
    this.#transport.destroy();
  }

  #close(reason: LockdError): void {
    this.#closed = reason;
    const opening = this.#opening;
    this.#opening = null;
    if (opening === null) this.#handler?.closed(reason);
    else opening.failed(reason);
  }

  #transportClosed(error: Error | null): void {
    this.#endTimer?.cancel();
    if (this.#closed !== null) return;
    const why = error === null ? "the server closed the connection" : describeNetworkError(error);
    const verb = this.#opening === null ? "talk" : "connect";
    const message = `${verb} to ${this.label}: ${why}`;
    this.#close(error instanceof LockdError ? retold(error, message) : new LockdError("unavailable", message, { cause: error ?? undefined }));
  }

  #greet(): void {
    const { target, security, identity } = this.#options;
    const certificateHash = this.#transport.certificateHash ?? null;
    this.#handshake = new ClientHandshake(security ?? {}, { label: this.label, certificateHash, loopback: isLoopbackHost(target.address) });
    this.#attempt(this.#handshake, (handshake) => {
      const auth = handshake.auth();
      const hello = { protocol: PROTOCOL_VERSION, role: "client", ...identity, features: [] };
      this.send("HELLO", 0, auth === undefined ? hello : { ...hello, auth });
    });
  }

  /** A step of the handshake; what it throws ends the connection. */
  #attempt(handshake: ClientHandshake | null, step: (handshake: ClientHandshake) => void): void {
    assert(handshake !== null, "the server is answered after it was greeted");
    try {
      step(handshake);
    } catch (error) {
      this.fail(asLockdError(error));
    }
  }

  #flush(): void {
    this.#flushScheduled = false;
    if (this.#blocked || this.#closed !== null) return;
    const bytes = this.#encoder.take();
    if (bytes !== null) this.#blocked = !this.#transport.write(bytes);
  }

  #data(chunk: Uint8Array): void {
    if (this.#closed !== null) return;
    this.#handler?.received();
    this.#heardMs = this.#options.leaseClock.now();
    this.#pingMs = null;
    try {
      this.#decoder.push(chunk, this.#onFrame);
    } catch (error) {
      if (!(error instanceof LockdError)) throw error;
      this.fail(this.#opening === null ? new LockdError("protocol", `read from ${this.label}: ${error.message}`, { cause: error }) : this.#stranger(chunk));
      return;
    }
    this.#handler?.handled();
  }

  readonly #onFrame = (frame: Frame): void => {
    if (this.#closed !== null) return;
    if (this.#opening !== null) this.#greeted(frame, this.#opening);
    else if (frame.type === "PING") this.send("PONG", frame.id, {});
    else if (frame.type === "GOODBYE" && frame.id === 0) {
      this.fail(new LockdError("unavailable", `talk to ${this.label}: the server is shutting down`));
    } else if (frame.type === "ERROR" && frame.id === 0) this.fail(errorOf(frame.body, this.label));
    else if (frame.type !== "PONG") this.#handler?.frame(frame);
  };

  /** Whoever answered HELLO with these bytes. */
  #stranger(bytes: Uint8Array): LockdError {
    // a TLS record that carries an alert
    if (bytes[0] === TLS_ALERT && bytes[1] === TLS_MAJOR_VERSION) {
      return new LockdError("denied", `greet ${this.label}: it speaks TLS, and this client was not told to`, {
        hint: "give --tls-ca, the CA of the server's certificate",
      });
    }
    return new LockdError("unavailable", `greet ${this.label}: it does not speak the protocol of lockd`, {
      hint: "check the address: something else answers there",
      retryable: false,
    });
  }

  #greeted(frame: Frame, opening: Opening): void {
    const { protocol, name, cluster, software, features } = frame.body;
    if (frame.type === "ERROR") {
      const refusal = errorOf(frame.body, this.label);
      this.fail(this.#handshake?.explain(refusal) ?? refusal);
    } else if (frame.type === "CHALLENGE") {
      this.#attempt(this.#handshake, (handshake) => this.send("PROOF", 0, handshake.prove(frame.body["nonce"])));
    } else if (frame.type !== "HELLO") {
      this.fail(this.#stranger(new Uint8Array(0)));
    } else if (protocol !== PROTOCOL_VERSION) {
      const text = `greet ${this.label}: it speaks protocol ${String(protocol)}, this client ${PROTOCOL_VERSION}`;
      this.fail(new LockdError("protocol", text, { hint: "use a client of the server's version" }));
    } else {
      this.#server = {
        name: typeof name === "string" ? name : "",
        cluster: typeof cluster === "string" ? cluster : "",
        software: typeof software === "string" ? software : "",
        features: Array.isArray(features) ? features.filter((feature) => typeof feature === "string") : [],
      };
      this.#attempt(this.#handshake, (handshake) => handshake.check(frame.body["proof"]));
      if (this.#closed !== null) return;
      this.#opening = null;
      this.#handshake = null;
      opening.ready();
    }
  }
}

const TLS_ALERT = 0x15;
const TLS_MAJOR_VERSION = 0x03;

const retold = (error: LockdError, message: string): LockdError =>
  new LockdError(error.code, message, {
    retryable: error.retryable,
    cause: error,
    ...(error.hint === undefined ? {} : { hint: error.hint }),
  });

const NETWORK_SENTENCES: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset",
  EHOSTUNREACH: "no route to host",
  ENETUNREACH: "network unreachable",
  ETIMEDOUT: "connection timed out",
  ENOTFOUND: "host name not found",
  EAI_AGAIN: "host name lookup failed for now",
  EMFILE: "too many open files in this process",
};

/** A network error in words. */
export function describeNetworkError(error: Error): string {
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return NETWORK_SENTENCES[code] ?? error.message;
}

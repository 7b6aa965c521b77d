/**
 * One accepted connection: handshake, dispatch, back-pressure both ways, keep-alive and the ways in
 * which it ends. Runs over any ByteSocket and any clock; knows no message but those that every
 * connection understands.
 */
import { assert, asLockdError, isErrorCode, LockdError } from "../errors.ts";
import type { Logger } from "../observe/types.ts";
import { errorBody } from "../wire/error-body.ts";
import { FrameDecoder } from "../wire/frame.ts";
import type { Authenticator, ConnectionFacts, Verdict } from "../security/authenticator.ts";
import {
  type Admission, checkAdmission, type ClientHello, HELLO_BYTES_MAX, identityOf, readClientHello, type ServerHello, serverHelloBody,
} from "../wire/hello.ts";
import type { Messages } from "../wire/registry.ts";
import type { TraceHook } from "../wire/trace.ts";
import type { Body, Connection, Frame, PeerIdentity } from "../wire/types.ts";
import type { ServerLimits } from "./limits.ts";
import { Liveness } from "./liveness.ts";
import { Outbox } from "./outbox.ts";
import type { ByteSocket, SocketHandler } from "./socket.ts";

/** Ids of unanswered requests that are remembered for a client that has ended its output. */
const UNANSWERED_KEPT_MAX = 65_536;

/** What all connections of a server share. */
export interface ConnectionContext {
  hello: Omit<ServerHello, "protocol" | "role" | "frameBytesMax">;
  roles: Admission["roles"];
  /** the one in force now */
  authenticator(): Authenticator;
  /** called once when a client is through with HELLO */
  admitted(connection: ServerConnection): void;
  messages: Messages;
  limits: ServerLimits;
  logger: Logger;
  trace: TraceHook | null;
  monotonicMs(): number;
  /** calls `connection.flush()` once before the event loop waits again */
  flushSoon(connection: ServerConnection): void;
}

/**
 * greeting: nothing but HELLO is accepted, and PROOF where it was challenged. open: serves. closing: the last bytes are on their way,
 * input is thrown away. closed: gone.
 */
type State = "greeting" | "open" | "closing" | "closed";

/** A client that is to prove that it knows the secret, with the HELLO it came with. */
interface Challenged {
  hello: ClientHello;
  id: number;
  verdict: Extract<Verdict, { kind: "challenge" }>;
}

export class ServerConnection implements Connection, SocketHandler {
  readonly id: number;
  readonly #address: string;
  readonly #context: ConnectionContext;
  readonly #socket: ByteSocket;
  readonly #decoder: FrameDecoder;
  readonly #outbox: Outbox;
  readonly #liveness: Liveness;
  #state: State = "greeting";
  #identity: PeerIdentity | null = null;
  #facts: ConnectionFacts;
  /** while the client is to prove that it knows the secret */
  #challenged: Challenged | null = null;
  #greetingBytes = 0;
  readonly #closeListeners: (() => void)[] = [];
  readonly #unanswered = new Set<number>();
  /** requests whose handlers have not settled */
  #running = 0;
  #flushPending = false;
  #receiving = false;
  #paused = false;
  #peerEnded = false;
  #outputEnded = false;
  #bothEnded = false;
  /** set while the server stops: the reason that new requests are answered with */
  #refusal: LockdError | null = null;
  readonly #openedMs: number;
  #pings = 0;
  #closingMs = 0;

  constructor(options: { id: number; address: string; loopback: boolean; socket: ByteSocket; context: ConnectionContext }) {
    this.id = options.id;
    this.#address = options.address;
    this.#facts = { tls: null, loopback: options.loopback };
    this.#context = options.context;
    this.#socket = options.socket;
    const { limits } = options.context;
    this.#decoder = new FrameDecoder({ frameBytesMax: Math.min(HELLO_BYTES_MAX, limits.frameBytesMax), limits: limits.cbor });
    this.#outbox = new Outbox(options.socket, limits);
    this.#openedMs = options.context.monotonicMs();
    this.#liveness = new Liveness(limits, this.#openedMs);
  }

  // ---- as handlers see it

  get identity(): PeerIdentity {
    assert(this.#identity !== null, "a connection is greeted before a handler sees it");
    return this.#identity;
  }

  get closed(): boolean {
    return this.#state === "closing" || this.#state === "closed";
  }

  /** how long it has been open without HELLO, milliseconds; null once it is through */
  greetingMs(nowMs: number): number | null {
    return this.#identity === null ? nowMs - this.#openedMs : null;
  }

  /** whether nothing that was asked for is on its way: no handler runs and no output waits */
  get settled(): boolean {
    return this.#running === 0 && this.#outbox.bytes === 0;
  }

  send(type: string, id: number, body: Body): void {
    if (id !== 0) this.#unanswered.delete(id);
    this.#queue(type, id, body);
  }

  #queue(type: string, id: number, body: Body): void {
    if (this.closed) return;
    this.#outbox.append(type, id, body);
    this.#context.trace?.("out", { type, id, body }, this);
    if (this.#outbox.bytes > this.#context.limits.outputBytesMax) {
      this.#outbox.flush();
      if (this.#outbox.bytes > this.#context.limits.outputBytesMax) return this.#abort("slow");
    }
    this.#flushSoon();
  }

  closeWith(code: string, message: string): void {
    const body = isErrorCode(code) ? errorBody(new LockdError(code, message)) : { code, message: message.toWellFormed(), retryable: false };
    this.#closeWithBody(body);
  }

  onClose(listener: () => void): void {
    if (this.#state === "closed") this.#callLater(listener);
    else this.#closeListeners.push(listener);
  }

  // ---- as the server sees it

  /** Writes what was queued. */
  flush(): void {
    this.#flushPending = false;
    if (this.#state === "closed") return;
    this.#finishWhenAnswered();
    this.#outbox.flush();
    this.#endWhenWritten();
    this.#adjustReading();
  }

  /** The server stops: requests from now on are answered with this error, those under way go on. */
  refuseRequests(reason: LockdError): void {
    this.#refusal = reason;
  }

  /** Last word of a server that stops: the reason as an ERROR frame, then the end. */
  sayGoodbye(): void {
    if (this.#refusal !== null) this.#closeWithBody(errorBody(this.#refusal));
    this.flush();
  }

  /** Ends it at once; what is queued is lost. The reason is for the log. */
  terminate(reason: string): void {
    if (this.#state !== "closed") this.#abort(reason);
  }

  /** Looks at the clock: called about every second for each connection, in place of timers. */
  check(nowMs: number): void {
    const { limits } = this.#context;
    switch (this.#state) {
      case "greeting":
        if (nowMs - this.#openedMs >= limits.helloTimeoutMs) {
          this.#refuse(new LockdError("protocol", `greet: no HELLO within ${limits.helloTimeoutMs} ms`));
        }
        return;
      case "open":
        return this.#checkLiveness(nowMs);
      case "closing":
        if (nowMs - this.#closingMs >= limits.lingerMs) this.#abort("lingered");
        return;
      case "closed":
        return;
    }
  }

  #checkLiveness(nowMs: number): void {
    const { bytes: waiting, bytesTaken } = this.#outbox;
    const verdict = this.#liveness.check(nowMs, { waiting, bytesTaken }, !this.#paused);
    if (verdict === "ping") this.#ping();
    else if (verdict === "silent") this.#abort("silent");
    else if (verdict === "stalled") this.#abort("slow");
  }

  // ---- as the socket sees it

  secured(tls: NonNullable<ConnectionFacts["tls"]>): void {
    this.#facts = { ...this.#facts, tls };
  }

  received(chunk: Uint8Array): void {
    if (this.closed) return;
    this.#liveness.heard(this.#context.monotonicMs());
    this.#receiving = true;
    try {
      this.#decoder.push(chunk, (frame) => this.#frame(frame));
      if (this.#state === "greeting") this.#countGreeting(chunk.length);
    } catch (error) {
      if (!(error instanceof LockdError)) this.#context.logger.error("connection-failed", { connection: this.id, stack: stackOf(error) });
      this.#refuse(asLockdError(error));
    }
    this.#receiving = false;
    this.flush();
  }

  drained(): void {
    if (this.#state === "closed") return;
    this.#outbox.drained();
    this.flush();
  }

  peerEnded(): void {
    this.#peerEnded = true;
    if (this.#state === "greeting") return this.#abort("left before HELLO");
    this.flush();
    // a process that died looks the same as one that only ended its output: the probe tells them apart
    if (this.#state === "open") this.#ping();
    return this.flush();
  }

  socketClosed(): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#outbox.discard();
    for (const listener of this.#closeListeners.splice(0)) this.#callLater(listener);
  }

  /** Not at once: an abort may happen within `send`, whose caller is in the middle of something. */
  #callLater(listener: () => void): void {
    queueMicrotask(() => {
      try {
        listener();
      } catch (error) {
        this.#context.logger.error("close-listener-failed", { connection: this.id, stack: stackOf(error) });
      }
    });
  }

  // ---- frames

  #frame(frame: Frame): void {
    if (this.closed) return;
    this.#context.trace?.("in", frame, this);
    if (this.#state === "greeting") return this.#greet(frame);
    switch (frame.type) {
      case "PING":
        return this.send("PONG", frame.id, {});
      case "PONG":
        return undefined;
      case "PROOF":
      case "CHALLENGE":
      case "HELLO":
        return this.#refuse(new LockdError("protocol", `greet: ${frame.type} after HELLO was through`));
      case "ERROR":
      case "UNKNOWN":
        this.#context.logger.debug("peer-complained", { connection: this.id, type: frame.type, about: frame.id });
        return undefined;
      default:
        return this.#request(frame);
    }
  }

  #countGreeting(bytes: number): void {
    this.#greetingBytes += bytes;
    if (this.#greetingBytes > HELLO_BYTES_MAX) throw new LockdError("protocol", `greet: more than ${HELLO_BYTES_MAX} bytes before HELLO was through`);
  }

  #greet(frame: Frame): void {
    try {
      if (this.#challenged === null) this.#takeHello(frame);
      else this.#takeProof(frame, this.#challenged);
    } catch (error) {
      this.#refuse(asLockdError(error));
    }
  }

  #takeHello(frame: Frame): void {
    const hello = readClientHello(frame);
    const verdict = this.#context.authenticator().begin(frame.body["auth"], hello.name, this.#facts);
    if (verdict.kind === "admitted") return this.#admit(hello, frame.id, verdict);
    this.#challenged = { hello, id: frame.id, verdict };
    return this.send("CHALLENGE", frame.id, { nonce: verdict.nonce });
  }

  #takeProof(frame: Frame, { hello, id, verdict }: Challenged): void {
    if (frame.type !== "PROOF") throw new LockdError("protocol", `greet: ${frame.type} came instead of PROOF`);
    const outcome = verdict.finish(frame.body["proof"]);
    assert(outcome.kind === "admitted", "one challenge is enough");
    this.#challenged = null;
    this.#admit(hello, id, outcome);
  }

  /** Only here the server says anything of itself. */
  #admit(client: ClientHello, id: number, { principal, proof }: Extract<Verdict, { kind: "admitted" }>): void {
    const { hello, roles, limits, logger } = this.#context;
    checkAdmission(client, { roles, cluster: hello.cluster });
    this.#identity = identityOf(client, this.#address, principal);
    this.#state = "open";
    this.#decoder.frameBytesMax = limits.frameBytesMax;
    this.#context.admitted(this);
    const body = serverHelloBody({ ...hello, frameBytesMax: limits.frameBytesMax });
    this.send("HELLO", id, proof === null ? body : { ...body, proof });
    const { role, host, pid } = client;
    const { name } = this.#identity;
    logger.debug("connection-opened", { connection: this.id, address: this.#address, role, name, host, pid, by: principal.by });
  }

  #request(frame: Frame): void {
    if (frame.id !== 0 && this.#unanswered.size < UNANSWERED_KEPT_MAX) this.#unanswered.add(frame.id);
    if (this.#refusal !== null) {
      if (frame.id !== 0) this.send("ERROR", frame.id, errorBody(this.#refusal));
      return;
    }
    const running = this.#context.messages.dispatch(this, frame);
    if (running === undefined) return;
    this.#running++;
    void running.finally(() => {
      this.#running--;
      this.#flushSoon();
    });
  }

  // ---- reading and writing

  #flushSoon(): void {
    // what a chunk brings about is flushed when the whole chunk has been handled
    if (this.#flushPending || this.#receiving || this.#state === "closed") return;
    this.#flushPending = true;
    this.#context.flushSoon(this);
  }

  /** Reads on or pauses, by what waits for this client; with distance between the two. */
  #adjustReading(): void {
    const { limits } = this.#context;
    const share = this.#paused ? 0.5 : 1;
    const behind =
      !this.closed && (this.#outbox.bytes > limits.outputBytesHigh * share || this.#running > limits.runningMax * share);
    if (behind === this.#paused || this.#state === "closed") return;
    this.#paused = behind;
    if (behind) return this.#socket.pause();
    this.#liveness.heard(this.#context.monotonicMs());
    return this.#socket.resume();
  }

  /** Ids of our requests are numbered apart from those of the client's. */
  #ping(): void {
    this.#queue("PING", ++this.#pings, {});
  }

  // ---- endings

  #refuse(error: LockdError): void {
    const { logger } = this.#context;
    logger.info("connection-refused", { connection: this.id, address: this.#address, code: error.code, reason: error.message });
    this.#closeWithBody(errorBody(error));
  }

  #closeWithBody(body: Body): void {
    if (this.closed) return;
    this.send("ERROR", 0, body);
    if (this.closed) return;
    this.#state = "closing";
    this.#closingMs = this.#context.monotonicMs();
    this.#flushSoon();
  }

  /** A client that has ended its output is let go once it has all its answers. */
  #finishWhenAnswered(): void {
    if (!this.#peerEnded || this.#state !== "open" || this.#unanswered.size > 0 || this.#running > 0) return;
    this.#state = "closing";
    this.#closingMs = this.#context.monotonicMs();
  }

  #endWhenWritten(): void {
    if (this.#state !== "closing" || this.#outbox.bytes > 0) return;
    if (this.#peerEnded) {
      if (!this.#bothEnded) this.#socket.end();
      this.#bothEnded = true;
    } else if (!this.#outputEnded) {
      // not closed yet: closing over unread input would reset the connection and lose our last words
      this.#outputEnded = true;
      this.#socket.shutdown();
    }
  }

  #abort(reason: string): void {
    // a probe of the port is not worth a line
    const level = this.#identity === null ? "debug" : "info";
    this.#context.logger[level]("connection-closed", { connection: this.id, address: this.#address, reason });
    this.#socket.terminate();
    this.socketClosed();
  }
}

const stackOf = (thrown: unknown): string => (thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown));

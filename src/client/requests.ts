/**
 * Plain requests: one frame out, one answer with the same id back, or a stream of frames after it.
 * Knows no session and does not reconnect.
 */
import type { Timer, Timers } from "../clock/clock.ts";
import { LockdError } from "../errors.ts";
import type { Body, Frame } from "../wire/types.ts";
import { errorOf, parseLockFailed } from "./answers.ts";
import type { Channel } from "./channel.ts";
import { ANSWERS } from "./protocol.ts";

export type RequestType = keyof typeof ANSWERS;

/** The connection broke while a request was under way: whether it was done is not known. */
export class ConnectionBrokenError extends LockdError {
  constructor(reason: LockdError) {
    super("unavailable", reason.message, { cause: reason });
  }
}

/** Gets the frames that follow an answer with its id. */
export interface FrameSink {
  frame(frame: Frame): void;
  /** the connection is gone; nothing follows */
  closed(reason: LockdError): void;
}

interface Asked {
  channel: Channel;
  type: string;
  /** type of the answer that is expected; null: of a request whose meaning only its asker knows, any that is no refusal */
  answer: string | null;
  timer: Timer;
  sink: FrameSink | null;
  resolve(frame: Frame): void;
  reject(error: LockdError): void;
}

export class Requests {
  readonly #nextFrameId: () => number;
  readonly #timers: Pick<Timers, "after">;
  readonly #asked = new Map<number, Asked>();
  readonly #sinks = new Map<number, { channel: Channel; sink: FrameSink }>();

  constructor(options: { nextFrameId: () => number; timers: Pick<Timers, "after"> }) {
    this.#nextFrameId = options.nextFrameId;
    this.#timers = options.timers;
  }

  /** Whether somebody is fed by the connection, or waits for an answer that will feed him. */
  get following(): boolean {
    if (this.#sinks.size > 0) return true;
    for (const asked of this.#asked.values()) if (asked.sink !== null) return true;
    return false;
  }

  /**
   * Sends and waits for the answer's body. Rejects with the server's error, ConnectionBrokenError, or
   * `unavailable` after `timeoutMs`. `sink` gets what follows the answer until `forget`.
   */
  async ask(channel: Channel, type: RequestType, body: Body, timeoutMs: number, sink: FrameSink | null = null): Promise<Body> {
    return (await this.#send({ channel, type, answer: ANSWERS[type], sink }, body, timeoutMs)).body;
  }

  /** A request that this library knows nothing of, such as one of a plugin; the answer's frame. Rejects as `ask` does. */
  askOther(channel: Channel, type: string, body: Body, timeoutMs: number): Promise<Frame> {
    return this.#send({ channel, type, answer: null, sink: null }, body, timeoutMs);
  }

  #send(asked: Pick<Asked, "channel" | "type" | "answer" | "sink">, body: Body, timeoutMs: number): Promise<Frame> {
    const { channel, type, sink } = asked;
    if (channel.congested) {
      return Promise.reject(new LockdError("overflow", `ask ${channel.label}: too much waits to be sent`));
    }
    const id = this.#nextFrameId();
    return new Promise((resolve, reject) => {
      const timer = this.#timers.after(timeoutMs, () => {
        this.#asked.delete(id);
        if (sink !== null) this.#unfollow(channel, id);
        reject(new ConnectionBrokenError(new LockdError("unavailable", `ask ${channel.label}: no answer to ${type} within ${timeoutMs} ms`)));
      });
      this.#asked.set(id, { ...asked, timer, resolve, reject });
      try {
        channel.send(type, id, body);
      } catch (error) {
        timer.cancel();
        this.#asked.delete(id);
        throw error;
      }
    });
  }

  /** Drops the stream that feeds this sink, and tells the server. */
  forget(sink: FrameSink): void {
    for (const [id, other] of this.#sinks) {
      if (other.sink !== sink) continue;
      this.#sinks.delete(id);
      this.#unfollow(other.channel, id);
    }
  }

  /** Its answer belongs to nobody, nor does that of a server that does not know it. */
  #unfollow(channel: Channel, follow: number): void {
    channel.send("UNFOLLOW", this.#nextFrameId(), { follow });
  }

  /** Whether the frame belonged to a plain request. */
  frame(frame: Frame): boolean {
    const asked = this.#asked.get(frame.id);
    if (asked === undefined) {
      const sink = this.#sinks.get(frame.id)?.sink;
      sink?.frame(frame);
      return sink !== undefined;
    }
    this.#asked.delete(frame.id);
    asked.timer.cancel();
    const answered = asked.answer === null ? frame.type !== "ERROR" && frame.type !== "UNKNOWN" : frame.type === asked.answer;
    if (answered) {
      if (asked.sink !== null) this.#sinks.set(frame.id, { channel: asked.channel, sink: asked.sink });
      asked.resolve(frame);
    } else asked.reject(refusal(asked, frame));
    return true;
  }

  disconnected(reason: LockdError): void {
    const asked = [...this.#asked.values()];
    const sinks = Array.from(this.#sinks.values(), ({ sink }) => sink);
    this.#asked.clear();
    this.#sinks.clear();
    for (const one of asked) {
      one.timer.cancel();
      one.reject(new ConnectionBrokenError(reason));
    }
    for (const sink of sinks) sink.closed(reason);
  }
}

function refusal({ type, answer }: Pick<Asked, "type" | "answer">, frame: Frame): LockdError {
  if (frame.type === "ERROR") return errorOf(frame.body, `the server, asked ${type},`);
  if (frame.type === "LOCKFAILED") {
    const failed = parseLockFailed(frame.body);
    return new LockdError(failed.code, failed.message);
  }
  if (frame.type === "UNKNOWN") {
    return new LockdError("protocol", `ask ${type}: the server does not know this request`, {
      hint: answer === null ? "the plugin that serves it has to be loaded there" : "ask a server that serves locks, of this client's version or newer",
    });
  }
  return new LockdError("protocol", `ask ${type}: answered by ${frame.type}`);
}

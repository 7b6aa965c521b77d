/** Sends the session's frames and remembers when, for leases that are counted from a frame. Knows no lock. */
import type { Body } from "../wire/types.ts";
import { SendTimes } from "./lease-clock.ts";

export interface FrameSender {
  /** ids rise over the whole life of a client */
  nextFrameId(): number;
  send(type: string, id: number, body: Body): void;
}

export class Outbox {
  readonly #sender: FrameSender;
  readonly #sendTimes = new SendTimes();
  #lastId = 0;

  constructor(sender: FrameSender) {
    this.#sender = sender;
  }

  /** id of the newest frame that was sent here */
  get lastId(): number {
    return this.#lastId;
  }

  /** Returns the frame's id. Throws LockdError when a frame cannot carry the body. */
  send(type: string, body: Body, nowMs: number): number {
    const id = this.#sender.nextFrameId();
    this.#lastId = id;
    this.#sendTimes.record(id, nowMs);
    this.#sender.send(type, id, body);
    return id;
  }

  /** When the frame was sent, or earlier; -Infinity when that is not known any more. */
  sentMs(id: number): number {
    return this.#sendTimes.at(id);
  }
}

/**
 * Whether the other side still lives and still reads, judged from what was heard and what it took.
 * Has no timer: it is asked about every second. Knows no socket.
 */
import type { ServerLimits } from "./limits.ts";

export type Verdict =
  | "fine"
  /** silent for a while: ask */
  | "ping"
  /** silent although asked */
  | "silent"
  /** output waits and none of it moves */
  | "stalled";

export class Liveness {
  readonly #limits: Pick<ServerLimits, "pingAfterMs" | "silenceMaxMs">;
  #heardMs: number;
  /** when the last PING was due in this silence, null when none was */
  #pingedMs: number | null = null;
  #bytesTaken = 0;
  #stalledMs: number | null = null;

  constructor(limits: Pick<ServerLimits, "pingAfterMs" | "silenceMaxMs">, nowMs: number) {
    this.#limits = limits;
    this.#heardMs = nowMs;
  }

  /** Something came in, or reading begins again: while nothing was read, nothing could be heard. */
  heard(nowMs: number): void {
    this.#heardMs = nowMs;
    this.#pingedMs = null;
  }

  /** `reading`: whether input is read at all. `bytesTaken` grows as long as the other side reads. */
  check(nowMs: number, output: { waiting: number; bytesTaken: number }, reading: boolean): Verdict {
    if (this.#stalls(nowMs, output)) return "stalled";
    const { pingAfterMs, silenceMaxMs } = this.#limits;
    const silentMs = nowMs - this.#heardMs;
    if (!reading || silentMs < pingAfterMs) return "fine";
    if (this.#pingedMs === null) {
      this.#pingedMs = nowMs;
      return "ping";
    }
    // also after a pause of our own process the other side gets its time to answer
    const answerTimeOver = nowMs - this.#pingedMs >= silenceMaxMs - pingAfterMs;
    return silentMs >= silenceMaxMs && answerTimeOver ? "silent" : "fine";
  }

  #stalls(nowMs: number, output: { waiting: number; bytesTaken: number }): boolean {
    if (output.waiting === 0 || output.bytesTaken !== this.#bytesTaken) {
      this.#bytesTaken = output.bytesTaken;
      this.#stalledMs = null;
      return false;
    }
    this.#stalledMs ??= nowMs;
    return nowMs - this.#stalledMs >= this.#limits.silenceMaxMs;
  }
}

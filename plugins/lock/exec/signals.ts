/**
 * The signals that the wrapper takes in place of its command: caught while it lives, handed to one
 * receiver that may change. Knows neither lock nor command.
 */
import { SIGNALS, defaultSignal, ignoreSignal, signalSelf, type SignalName } from "../../../src/system/process.ts";

/** Those that ask a waiting program to end. */
export const ENDING_SIGNALS: readonly SignalName[] = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];
const RELAYED_SIGNALS: readonly SignalName[] = [...ENDING_SIGNALS, "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT"];

/** Ends this process as if it had never caught that signal, so that a shell sees what ended it. */
export function dieOf(signal: number): void {
  defaultSignal(signal);
  signalSelf(signal);
}

export class SignalRelay {
  readonly #handlers = new Map<SignalName, () => void>();
  #receive: (signal: number) => void;

  /** Catches the signals, but for those that were ignored when lockd was started: they stay ignored. */
  constructor(ignored: ReadonlySet<number>, receive: (signal: number) => void) {
    this.#receive = receive;
    for (const name of RELAYED_SIGNALS) {
      if (ignored.has(SIGNALS[name])) ignoreSignal(SIGNALS[name]);
      else this.#catch(name);
    }
  }

  /** From now on this receiver gets them. */
  handTo(receive: (signal: number) => void): void {
    this.#receive = receive;
  }

  /** Also catches the terminal's stop, for a command that can be stopped along with us. */
  catchStop(): void {
    this.#catch("SIGTSTP");
  }

  /** Gives the signals back their default effect. */
  close(): void {
    for (const [name, handler] of this.#handlers) process.off(name, handler);
    this.#handlers.clear();
  }

  #catch(name: SignalName): void {
    const handler = (): void => this.#receive(SIGNALS[name]);
    this.#handlers.set(name, handler);
    process.on(name, handler);
  }
}

/**
 * Output on the process's own streams. Owns the order of writes and what a broken pipe means; knows
 * no command.
 */
import { writeSync } from "node:fs";
import { LockdError } from "../errors.ts";
import { isTerminal } from "../terminal.ts";
import { escapeProse } from "../text.ts";
import { stdoutWasClosed } from "./closed-stdout.ts";
import type { Output } from "./output.ts";

/** Where bytes go; replaced in tests. */
export interface Sinks {
  stdout(data: string | Uint8Array): Promise<unknown>;
  /** whether nobody reads stdout any more; where it is missing only a write tells */
  isUnread?(): Promise<boolean>;
  stderr(text: string): void;
}

/** A reader that left is noticed within this time by a command that writes nothing. */
const UNREAD_CHECK_MS = 1000;

/** The reader of stdout is gone: nobody wants the rest, so the command ends without a word. */
export class ClosedPipeError extends Error {
  override readonly name = "ClosedPipeError";
}

export class TerminalOutput implements Output {
  readonly json: boolean;
  readonly colour: boolean;
  readonly #sinks: Sinks;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: { json: boolean; colour: boolean; sinks?: Sinks }) {
    this.json = options.json;
    this.colour = options.colour;
    this.#sinks = options.sinks ?? processSinks;
  }

  async result(json: Readonly<Record<string, unknown>>, text: string): Promise<void> {
    if (this.json) await this.write(`${JSON.stringify(json)}\n`);
    else if (text !== "") await this.write(text.endsWith("\n") ? text : `${text}\n`);
  }

  /** Throws ClosedPipeError when nobody reads any more, LockdError `failed` when it cannot be written. */
  write(data: string | Uint8Array): Promise<void> {
    const written = this.#last.then(async () => {
      try {
        await this.#sinks.stdout(data);
      } catch (error) {
        if (error instanceof Error && "code" in error && error.code === "EPIPE") throw new ClosedPipeError();
        const reason = error instanceof Error ? error.message : String(error);
        throw new LockdError("failed", `write standard output: ${reason}`, { cause: error });
      }
    });
    // a failed write must not stop the next one from being tried, nor end the process unobserved
    this.#last = written.catch(() => undefined);
    return written;
  }

  async whileRead<T>(work: Promise<T>): Promise<T> {
    const unread = Promise.withResolvers<never>();
    const timer = setInterval(() => {
      void this.#sinks.isUnread?.().then((is) => is && unread.reject(new ClosedPipeError()), unread.reject);
    }, UNREAD_CHECK_MS);
    try {
      return await Promise.race([work, unread.promise]);
    } finally {
      clearInterval(timer);
    }
  }

  note(sentence: string): void {
    if (!this.json) this.#sinks.stderr(`lockd: ${escapeProse(sentence)}\n`);
  }

  warn(sentence: string): void {
    const text = this.json ? JSON.stringify({ warning: { message: sentence } }) : `lockd: warning: ${escapeProse(sentence)}`;
    this.#sinks.stderr(`${text}\n`);
  }
}

/** Whether colours are welcome on stdout: a terminal that can show them, and no NO_COLOR. */
export function wantsColour(environment: Readonly<Record<string, string | undefined>>): boolean {
  const refused = environment["NO_COLOR"];
  return (refused === undefined || refused === "") && environment["TERM"] !== "dumb" && isTerminal(1);
}

/** Standard output and error of this process. Bun.write costs 0.4 ms at start, process.stdout 8 ms. */
export const processSinks: Sinks = {
  stdout: async (data) => {
    if (stdoutWasClosed()) throw new Error("it is closed");
    await Bun.write(Bun.stdout, data);
  },
  // loaded for commands that wait alone: start-up time counts
  isUnread: async () => (await import("../system/files.ts")).isUnread(1),
  stderr: (text) => {
    try {
      writeSync(2, text);
    } catch {
      // nobody can be told that nobody can be told
    }
  },
};

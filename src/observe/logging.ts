/**
 * The Logger of servers: consola's core with reporters of our own, which write text or JSON lines to
 * a sink. Owns levels and child fields; log-format.ts owns the look of a line, log-sink.ts the writing.
 */
import { type ConsolaReporter, createConsola } from "consola/core";
import { assert } from "../errors.ts";
import { formatJson, formatText, type LogLine } from "./log-format.ts";
import { openLogSink } from "./log-sink.ts";
import type { LogFields, Logger, LogLevel } from "./types.ts";

export type LogFormat = "text" | "json";

export const LOG_LEVELS: readonly LogLevel[] = ["trace", "debug", "info", "warn", "error", "silent"];

/** consola's number of each level: a line is written when its number is not above the logger's. */
const NUMBERS: Readonly<Record<LogLevel, number>> = {
  silent: Number.NEGATIVE_INFINITY,
  error: 0,
  warn: 1,
  info: 3,
  debug: 4,
  trace: 5,
};

export interface LoggingOptions {
  level: LogLevel;
  format: LogFormat;
  /** null: standard error */
  file: string | null;
  /** colour in text lines; see `colourWanted` */
  paint: "plain" | "coloured";
}

/** The root logger of a process and what its life cycle needs beside. */
export interface Logging {
  readonly logger: Logger;
  level: LogLevel;
  /** Resolves when all lines are written, at the latest after `limitMs`. */
  flush(limitMs: number): Promise<void>;
  /** See LogSink.flushNow. */
  flushNow(): void;
  /** See LogSink.reopen. */
  reopen(): boolean;
}

/** Colour only on a terminal, and not when NO_COLOR is set to anything but nothing (no-color.org). */
export function colourWanted(terminal: boolean, environment: Readonly<Record<string, string | undefined>>): boolean {
  return terminal && (environment["NO_COLOR"] ?? "") === "" && environment["TERM"] !== "dumb";
}

/** Throws LockdError `config` when the log file cannot be opened. */
export function openLogging(options: LoggingOptions): Logging {
  const format = (line: LogLine): string =>
    options.format === "json" ? formatJson(line) : formatText(line, options.paint);
  const sink = openLogSink({
    file: options.file,
    lost: (lines, reason) =>
      format({ date: new Date(), level: "warn", msg: "log-lines-lost", fields: { lines, reason } }),
  });
  const root = loggerInto((line) => sink.write(format(line)), options.level);
  return {
    logger: root.logger,
    get level() {
      return root.level;
    },
    set level(level) {
      root.level = level;
    },
    flush: (limitMs) => sink.flush(limitMs),
    flushNow: () => sink.flushNow(),
    reopen: () => sink.reopen(),
  };
}

/** A logger that hands its lines to `put`; also the logger of tests. */
export function loggerInto(put: (line: LogLine) => void, level: LogLevel): { readonly logger: Logger; level: LogLevel } {
  const reporter: ConsolaReporter = {
    log: (entry) => {
      const line: unknown = entry.args[0];
      assert(line instanceof Line, "every line comes through ConsolaLogger");
      put({ date: entry.date, level: line.level, msg: line.msg, fields: line.fields });
    },
  };
  const consola = createConsola({
    reporters: [reporter],
    level: NUMBERS[level],
    // consola swallows repeated lines within this time; below zero also when the clock is set back
    throttle: Number.NEGATIVE_INFINITY,
  });
  const root = new ConsolaLogger(consola, {});
  return {
    logger: root,
    get level() {
      return LOG_LEVELS.find((name) => NUMBERS[name] === consola.level) ?? "info";
    },
    set level(next) {
      consola.level = NUMBERS[next];
    },
  };
}

/** What travels through consola; a class, so that consola does not take its fields for its own. */
class Line {
  constructor(
    readonly level: LogLine["level"],
    readonly msg: string,
    readonly fields: LogFields,
  ) {}
}

class ConsolaLogger implements Logger {
  readonly #consola: ReturnType<typeof createConsola>;
  readonly #fields: LogFields;

  constructor(consola: ReturnType<typeof createConsola>, fields: LogFields) {
    this.#consola = consola;
    this.#fields = fields;
  }

  trace(msg: string, fields?: LogFields): void {
    this.#log("trace", msg, fields);
  }
  debug(msg: string, fields?: LogFields): void {
    this.#log("debug", msg, fields);
  }
  info(msg: string, fields?: LogFields): void {
    this.#log("info", msg, fields);
  }
  warn(msg: string, fields?: LogFields): void {
    this.#log("warn", msg, fields);
  }
  error(msg: string, fields?: LogFields): void {
    this.#log("error", msg, fields);
  }

  enabled(level: LogLevel): boolean {
    return level !== "silent" && NUMBERS[level] <= this.#consola.level;
  }

  child(fields: LogFields): Logger {
    // one consola for all: a changed level counts for every child at once
    return new ConsolaLogger(this.#consola, { ...this.#fields, ...fields });
  }

  #log(level: LogLine["level"], msg: string, fields: LogFields | undefined): void {
    if (!this.enabled(level)) return;
    this.#consola[level].raw(new Line(level, msg, fields === undefined ? this.#fields : { ...this.#fields, ...fields }));
  }
}

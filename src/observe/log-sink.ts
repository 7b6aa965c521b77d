/**
 * Where log lines go: standard error or a file. Writes are asynchronous, one at a time and bounded, so
 * that a full disk, a closed pipe or a stopped terminal costs lines and never the server. Knows nothing
 * of what a line says.
 */
import { close, closeSync, constants, fstatSync, openSync, write, writeSync } from "node:fs";
import { LockdError } from "../errors.ts";
import { fileProblem } from "../file-errors.ts";

/** Lines that wait for a slow destination; what does not fit is dropped and counted. */
const QUEUE_BYTES_MAX = 4 * 1024 * 1024;
/** A destination that takes nothing now (EAGAIN) is tried again after this. */
const RETRY_MS = 20;
const STDERR_FD = 2;
/** What flushNow leaves to a write under way, whose thread does not need the event loop. */
const UNDER_WAY_MS = 20;

export interface LogSink {
  /** Queues whole lines, each with its newline. Never throws, never blocks. */
  write(lines: string): void;
  /** Resolves when what was queued is written or given up, at the latest after `limitMs`. */
  flush(limitMs: number): Promise<void>;
  /** Writes what is queued before it returns, for a process that ends at once. It may block. */
  flushNow(): void;
  /**
   * Opens the file anew, after its rotation. Returns whether there was a file to reopen; throws
   * LockdError `config` when it cannot be opened, and goes on with the old one.
   */
  reopen(): boolean;
}

export interface LogSinkOptions {
  /** null: standard error */
  file: string | null;
  /** makes the line that says how many lines were lost, once there is room again */
  lost: (lines: number, reason: string) => string;
  /** default 4 MiB; small in tests */
  queueBytesMax?: number;
}

/** Throws LockdError `config` when the file cannot be opened. */
export function openLogSink(options: LogSinkOptions): LogSink {
  return new FdSink(options, options.file === null ? STDERR_FD : openAppending(options.file));
}

function openAppending(path: string): number {
  try {
    // not blocking: opening a FIFO that nobody reads must fail instead of waiting
    const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
    const fd = openSync(path, flags, 0o640);
    if (fstatSync(fd).isDirectory()) {
      closeSync(fd);
      throw new Error("is a directory");
    }
    return fd;
  } catch (error) {
    throw new LockdError("config", `open log file ${path}: ${fileProblem(error)}`, {
      hint: "name a file in an existing directory that this user may write to with --log-file",
      cause: error,
    });
  }
}

class FdSink implements LogSink {
  readonly #options: LogSinkOptions;
  readonly #queueBytesMax: number;
  #fd: number;
  /** descriptors that were replaced and wait to be closed */
  readonly #retired: number[] = [];
  #queue: Buffer[] = [];
  #queuedBytes = 0;
  #lostLines = 0;
  #lostReason = "";
  /** the last write ended inside a line: the next one starts a new line first */
  #torn = false;
  #writing = false;
  #idle: (() => void)[] = [];

  constructor(options: LogSinkOptions, fd: number) {
    this.#options = options;
    this.#fd = fd;
    this.#queueBytesMax = options.queueBytesMax ?? QUEUE_BYTES_MAX;
  }

  write(lines: string): void {
    const bytes = Buffer.from(lines);
    if (this.#queuedBytes + bytes.length > this.#queueBytesMax) {
      this.#lose(bytes, "the destination is too slow");
      return;
    }
    this.#queue.push(bytes);
    this.#queuedBytes += bytes.length;
    if (!this.#writing) {
      this.#writing = true;
      // lines of one turn of the event loop share a write
      queueMicrotask(() => this.#next());
    }
  }

  async flush(limitMs: number): Promise<void> {
    if (!this.#writing) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    await Promise.race([
      new Promise<void>((resolve) => this.#idle.push(resolve)),
      new Promise<void>((resolve) => (timer = setTimeout(resolve, limitMs))),
    ]);
    clearTimeout(timer);
  }

  flushNow(): void {
    if (this.#writing) Bun.sleepSync(UNDER_WAY_MS);
    const parts = this.#queue;
    this.#queue = [];
    this.#queuedBytes = 0;
    try {
      if (parts.length > 0) writeSync(this.#fd, Buffer.concat(parts));
    } catch {
      // nobody is left to be told
    }
  }

  reopen(): boolean {
    if (this.#options.file === null) return false;
    const fresh = openAppending(this.#options.file);
    this.#retired.push(this.#fd);
    this.#fd = fresh;
    if (!this.#writing) this.#closeRetired();
    return true;
  }

  /** Only while no write is under way: it would go on with a number that may belong to another file. */
  #closeRetired(): void {
    for (const fd of this.#retired.splice(0)) close(fd, () => {});
  }

  #next(): void {
    this.#closeRetired();
    if (this.#queue.length === 0) {
      this.#writing = false;
      const waiting = this.#idle;
      this.#idle = [];
      for (const resolve of waiting) resolve();
      return;
    }
    const parts = this.#queue;
    this.#queue = [];
    this.#queuedBytes = 0;
    const reported = this.#lostLines;
    const head = (this.#torn ? "\n" : "") + (reported > 0 ? this.#options.lost(reported, this.#lostReason) : "");
    const headBytes = Buffer.byteLength(head);
    const bytes = Buffer.concat([Buffer.from(head), ...parts]);
    this.#put(this.#fd, bytes, 0, (end, failure) => {
      if (end >= headBytes) this.#lostLines -= reported;
      // the head is no line of anybody: it is made anew when there is room
      if (failure !== null) this.#lose(bytes.subarray(Math.max(end, headBytes)), failure);
      this.#next();
    });
  }

  /** Writes `bytes` from `start` on, in as many pieces as it takes; `done` gets how far it came. */
  #put(fd: number, bytes: Buffer, start: number, done: (end: number, failure: string | null) => void): void {
    write(fd, bytes, start, bytes.length - start, null, (error, count) => {
      if ((error === null || error === undefined) && count > 0) {
        const end = start + count;
        this.#torn = bytes[end - 1] !== 0x0a;
        if (end < bytes.length) this.#put(fd, bytes, end, done);
        else done(end, null);
      } else if (error === null || error === undefined || error.code === "EAGAIN") {
        setTimeout(() => this.#put(fd, bytes, start, done), RETRY_MS);
      } else {
        done(start, fileProblem(error));
      }
    });
  }

  #lose(bytes: Buffer, reason: string): void {
    for (const byte of bytes) if (byte === 0x0a) this.#lostLines += 1;
    this.#lostReason = reason;
  }
}

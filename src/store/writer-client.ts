/**
 * The store's end of the writer worker: collects batches into groups, keeps one group under way, and
 * turns the worker's answers, its death and its silence into outcomes. Knows nothing of SQLite.
 */
import { assert, LockdError } from "../errors.ts";
import { GroupPacker } from "./codec.ts";
import { StreamEnds } from "./stream-ends.ts";
import type { StoreBatch } from "./types.ts";
import type { WriterAnswer, WriterFailure, WriterRequest } from "./writer-protocol.ts";

/** A group is handed over at this size at the latest; what comes later goes into the next. */
const GROUP_BYTES_MAX = 8 * 1024 * 1024;

/** Bytes that may wait for the disk; a commit beyond is refused. */
const QUEUE_BYTES_MAX = 256 * 1024 * 1024;

export interface WriterClientOptions {
  worker: Pick<Worker, "postMessage" | "addEventListener" | "terminate">;
  /** the last durable id of a stream, null when it holds none */
  readStreamEnd: (namespace: string, stream: string) => number | null;
  /** called once for a group that is not answered after `slowAfterMs`; it stays under way */
  onSlow: (elapsedMs: number) => void;
  slowAfterMs: number;
  nowMs: () => number;
}

export interface WriterStats {
  commits: number;
  batches: number;
  bytes: number;
  lastCommitMs: number;
  walBytes: number;
}

interface Waiter {
  resolve: () => void;
  reject: (error: LockdError) => void;
}

interface Group {
  packed: Uint8Array<ArrayBuffer>;
  waiters: Waiter[];
}

interface Flight {
  id: number;
  bytes: number;
  waiters: readonly Waiter[];
  startMs: number;
  slowTimer: ReturnType<typeof setTimeout>;
}

export class WriterClient {
  readonly #options: WriterClientOptions;
  readonly #packer = new GroupPacker();
  readonly #streamEnds: StreamEnds;
  #waiters: Waiter[] = [];
  /** full groups that wait before the one that is being packed */
  readonly #full: Group[] = [];
  #fullBytes = 0;
  #flight: Flight | null = null;
  #flightId = 0;
  #flushScheduled = false;
  #failure: LockdError | null = null;
  #closing = false;
  readonly #opened = Promise.withResolvers<void>();
  readonly #failed = Promise.withResolvers<Error>();
  readonly #closed = Promise.withResolvers<void>();
  readonly #drained: (() => void)[] = [];
  readonly #stats: WriterStats = { commits: 0, batches: 0, bytes: 0, lastCommitMs: 0, walBytes: 0 };

  constructor(options: WriterClientOptions) {
    this.#options = options;
    this.#streamEnds = new StreamEnds(options.readStreamEnd);
    // A failure before anybody waits for the opening must not count as unhandled.
    this.#opened.promise.catch(() => undefined);
    const { worker } = options;
    worker.addEventListener("message", (event: MessageEvent<WriterAnswer>) => this.#take(event.data));
    worker.addEventListener("error", (event: ErrorEvent) => {
      // It takes no more messages, so it will not answer a close either.
      this.#closed.resolve();
      this.#fail({ code: "failed", message: `store writer died: ${event.message}` });
    });
    worker.addEventListener("close", () => {
      this.#closed.resolve();
      if (!this.#closing) this.#fail({ code: "failed", message: "store writer died: its worker ended" });
    });
  }

  /** Resolves once, when nothing can be made durable any more. */
  get failed(): Promise<Error> {
    return this.#failed.promise;
  }

  get failure(): LockdError | null {
    return this.#failure;
  }

  get stats(): Readonly<WriterStats> {
    return this.#stats;
  }

  /** How long the group under way has been waiting for the disk, in milliseconds; 0 when there is none. */
  get waitingMs(): number {
    return this.#flight === null ? 0 : this.#options.nowMs() - this.#flight.startMs;
  }

  /** Has the worker open the database `path`; rejects with its reason. */
  async open(path: string): Promise<void> {
    this.#post({ kind: "open", path });
    await this.#opened.promise;
  }

  /** Resolves when the batch is durable; the contract is that of Namespace.commit. */
  commit(namespace: string, batch: StoreBatch): Promise<void> {
    if (this.#failure !== null) return Promise.reject(this.#failure);
    if (this.#closing) return Promise.reject(new LockdError("failed", "write to store: it is closed"));
    if (this.#fullBytes + this.#packer.bytes > QUEUE_BYTES_MAX) {
      return Promise.reject(
        new LockdError("overflow", `write to store: more than ${QUEUE_BYTES_MAX} bytes wait for the disk`, {
          hint: "the disk is slower than the load; try again later",
        }),
      );
    }
    return new Promise((resolve, reject) => {
      // A malformed batch throws here, which rejects this promise and leaves the group as it was.
      const ends = this.#streamEnds.with(namespace, batch.appends ?? []);
      this.#packer.add(namespace, batch);
      this.#streamEnds.accept(ends);
      this.#waiters.push({ resolve, reject });
      if (this.#packer.bytes >= GROUP_BYTES_MAX) this.#sealGroup();
      this.#scheduleFlush();
    });
  }

  /** Waits for the groups under way, has the worker close the database, and ends the worker. */
  async close(): Promise<void> {
    if (!this.#closing) {
      this.#closing = true;
      await this.#whenDrained();
      this.#post({ kind: "close" });
    }
    await this.#closed.promise;
    this.#options.worker.terminate();
  }

  /** All that is committed in one turn of the loop shares the first group, also when the disk is idle. */
  #scheduleFlush(): void {
    if (this.#flight !== null || this.#flushScheduled) return;
    this.#flushScheduled = true;
    queueMicrotask(() => {
      this.#flushScheduled = false;
      this.#flush();
    });
  }

  #sealGroup(): void {
    const packed = this.#packer.take();
    this.#full.push({ packed, waiters: this.#waiters });
    this.#fullBytes += packed.length;
    this.#waiters = [];
  }

  #flush(): void {
    if (this.#flight !== null || this.#failure !== null) return;
    if (this.#full.length === 0 && this.#waiters.length > 0) this.#sealGroup();
    const group = this.#full.shift();
    if (group === undefined) {
      for (const resolve of this.#drained.splice(0)) resolve();
      return;
    }
    const bytes = group.packed.length;
    this.#fullBytes -= bytes;
    const startMs = this.#options.nowMs();
    const slowTimer = setTimeout(() => this.#options.onSlow(this.#options.nowMs() - startMs), this.#options.slowAfterMs);
    this.#flightId += 1;
    this.#flight = { id: this.#flightId, bytes, waiters: group.waiters, startMs, slowTimer };
    const buffer = group.packed.buffer;
    this.#options.worker.postMessage({ kind: "commit", id: this.#flightId, group: buffer } satisfies WriterRequest, [buffer]);
  }

  #take(answer: WriterAnswer): void {
    switch (answer.kind) {
      case "opened":
        this.#opened.resolve();
        break;
      case "committed":
        this.#landed(answer.id, answer.walBytes);
        break;
      case "rejected":
        this.#rejected(answer.id, answer.failure);
        break;
      case "failed":
        this.#fail(answer.failure);
        break;
      case "closed":
        this.#closed.resolve();
        break;
    }
  }

  #landed(id: number, walBytes: number): void {
    const flight = this.#endFlight(id);
    const stats = this.#stats;
    stats.commits += 1;
    stats.batches += flight.waiters.length;
    stats.bytes += flight.bytes;
    stats.lastCommitMs = this.#options.nowMs() - flight.startMs;
    stats.walBytes = walBytes;
    // The next group goes to the disk before the callers of this one run.
    this.#flush();
    for (const waiter of flight.waiters) waiter.resolve();
  }

  /**
   * Later batches were made in the belief that this one would stand, so those that already wait are
   * refused with it: what is durable is always a prefix of what was committed.
   */
  #rejected(id: number, failure: WriterFailure): void {
    const flight = this.#endFlight(id);
    const error = errorOf(failure);
    for (const waiter of [...flight.waiters, ...this.#takeQueue()]) waiter.reject(error);
    this.#flush();
  }

  #fail(failure: WriterFailure): void {
    const error = errorOf(failure);
    this.#failure ??= error;
    const flight = this.#flight;
    if (flight !== null) clearTimeout(flight.slowTimer);
    this.#flight = null;
    for (const waiter of [...(flight?.waiters ?? []), ...this.#takeQueue()]) waiter.reject(this.#failure);
    this.#opened.reject(this.#failure);
    this.#failed.resolve(this.#failure);
    for (const resolve of this.#drained.splice(0)) resolve();
  }

  #endFlight(id: number): Flight {
    const flight = this.#flight;
    assert(flight !== null && flight.id === id, "the worker answers the group that is under way");
    clearTimeout(flight.slowTimer);
    this.#flight = null;
    return flight;
  }

  #takeQueue(): Waiter[] {
    this.#streamEnds.forget();
    const waiters = [...this.#full.flatMap((group) => group.waiters), ...this.#waiters];
    this.#full.length = 0;
    this.#fullBytes = 0;
    this.#waiters = [];
    this.#packer.take();
    return waiters;
  }

  #whenDrained(): Promise<void> {
    const idle = this.#flight === null && this.#full.length === 0 && this.#waiters.length === 0;
    if (idle || this.#failure !== null) return Promise.resolve();
    return new Promise((resolve) => this.#drained.push(resolve));
  }

  #post(request: WriterRequest): void {
    this.#options.worker.postMessage(request);
  }
}

function errorOf({ code, message, hint }: WriterFailure): LockdError {
  return new LockdError(code, message, hint === undefined ? {} : { hint });
}

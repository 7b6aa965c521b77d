/**
 * The engine of a single node: applies commands to the lock table in memory, hands what they changed
 * to the store in batches, and delivers answers only after their batch is synced (write-ahead, group
 * commit). Owns the engine's timeline and recovery; knows no session's connection and no frame.
 */
import type { Clock, Timer, Timers } from "../../../src/clock/clock.ts";
import { asLockdError, assert, LockdError } from "../../../src/errors.ts";
import type { Logger } from "../../../src/observe/types.ts";
import type { Namespace, StoreBatch } from "../../../src/store/types.ts";
import { LockTable } from "../core/table.ts";
import type { Instant, LockAnswer, LockCommand, LockEvent, LockLimits } from "../core/types.ts";
import type { AnswerListener, EngineListener, EngineStatus, LockEngine } from "../engine.ts";
import { EngineTimeline } from "./engine-timeline.ts";
import { encodeEvents } from "./history.ts";

const EVENT_STREAM = "events";
/** Commands kept while the engine cannot make anything durable. */
const DEFERRED_MAX = 10_000;
/** How often a full disk is tried again, and how often kept commands are looked at. */
const RETRY_MS = 1_000;

export interface LocalEngineOptions {
  namespace: Namespace;
  clock: Clock;
  timers: Timers;
  logger: Logger;
  limits: LockLimits;
  /** id of this boot of the machine */
  bootId: string;
  /** events kept in the store's stream; 0: none */
  historyMax: number;
  /** the node can no longer keep its promises */
  fail(error: Error): void;
}

interface Deferred {
  command: LockCommand;
  untilMs: number | null;
  done: AnswerListener;
  applied: AnswerListener;
}

const ignore: AnswerListener = () => undefined;

function refuse({ done, applied }: Deferred, message: string): void {
  const answer: LockAnswer = { kind: "refused", code: "unavailable", message };
  applied(answer);
  done(answer);
}

type State = "stopped" | "ready" | "full" | "stopping" | "failed";

export class LocalEngine implements LockEngine {
  readonly #options: LocalEngineOptions;
  #table: LockTable;
  #timeline: EngineTimeline;
  #listener: EngineListener | null = null;
  #state: State = "stopped";
  /** deliveries that wait for the next batch, in order */
  #outbox: (() => void)[] = [];
  #committing = false;
  #flushScheduled = false;
  #tickScheduled = false;
  #deadline: { atMs: number; timer: Timer } | null = null;
  #deferred: Deferred[] = [];
  #retry: Timer | null = null;
  #idle: (() => void)[] = [];
  #oldestEventId = 1;

  constructor(options: LocalEngineOptions) {
    this.#options = options;
    this.#table = new LockTable(options.limits);
    this.#timeline = EngineTimeline.fresh(options.bootId, options.clock);
  }

  async start(listener: EngineListener): Promise<void> {
    assert(this.#state === "stopped", "an engine is started once");
    this.#listener = listener;
    const restart = this.#recover();
    this.#state = "ready";
    this.#apply(restart);
    await this.#drained();
  }

  async stop(): Promise<void> {
    if (this.#state === "ready") {
      await this.#drained();
      this.#state = "stopping";
    }
    this.#state = "stopped";
    this.#deadline?.timer.cancel();
    this.#retry?.cancel();
  }

  submit(command: LockCommand, deadlineMs: number | null, done: AnswerListener, applied: AnswerListener = ignore): void {
    if (this.#state === "ready") {
      this.#apply(command, done, applied);
      return;
    }
    const untilMs = deadlineMs === null ? null : this.#options.clock.monotonicMs() + deadlineMs;
    const deferred = { command, untilMs, done, applied };
    if (this.#state === "full" && this.#deferred.length < DEFERRED_MAX) this.#deferred.push(deferred);
    else refuse(deferred, this.status().reason ?? "the server is stopping");
  }

  read<T>(query: (table: LockTable, at: Instant) => T, done: (result: T, at: Instant) => void): void {
    const at = this.#instant();
    const result = query(this.#table, at);
    if (!this.#committing && !this.#flushScheduled && this.#outbox.length === 0) {
      done(result, at);
      return;
    }
    this.#outbox.push(() => done(result, at));
    this.#scheduleFlush();
  }

  /** Runs a query on the present state, durable or not: for metrics and the log only. */
  peek<T>(query: (table: LockTable, at: Instant) => T): T {
    return query(this.#table, this.#instant());
  }

  status(): EngineStatus {
    const reasons: Record<State, string | null> = {
      ready: null,
      stopped: "the lock service is not started",
      stopping: "the server is stopping",
      full: "the disk is full: nothing can be acknowledged until there is room again",
      failed: "storage failed",
    };
    return { ready: this.#state === "ready", reason: reasons[this.#state], readyInMs: null };
  }

  #instant(): Instant {
    return { nowMs: this.#timeline.nowMs(), wallMs: this.#options.clock.wallMs() };
  }

  /** Table and timeline from the last durable state; returns the first command to apply on it. */
  #recover(): LockCommand {
    let stored: Uint8Array | null = null;
    const records: [string, Uint8Array][] = [];
    for (const [key, value] of this.#options.namespace.records()) {
      if (key === EngineTimeline.RECORD_KEY) stored = value;
      else records.push([key, value]);
    }
    if (stored === null && records.length > 0) {
      throw new LockdError("corrupt", "read lock state: there are tickets, but no record of the time", {
        hint: "restore the data directory from a backup, or remove it to start anew",
      });
    }
    this.#table = LockTable.restore(records, this.#options.limits);
    let rebooted = false;
    if (stored === null) this.#timeline = EngineTimeline.fresh(this.#options.bootId, this.#options.clock);
    else ({ timeline: this.#timeline, rebooted } = EngineTimeline.resume(stored, this.#options.bootId, this.#options.clock));
    for (const chunk of this.#options.namespace.stream(EVENT_STREAM)) {
      this.#oldestEventId = chunk.firstId;
      break;
    }
    return { kind: "restart", rebooted };
  }

  #apply(command: LockCommand, done: AnswerListener = ignore, applied: AnswerListener = ignore): void {
    const result = this.#table.step(command, this.#instant());
    const listener = this.#listener;
    assert(listener !== null, "a started engine has a listener");
    if (command.kind !== "tick") this.#outbox.push(() => done(result.answer));
    for (const effect of result.effects) this.#outbox.push(() => listener.effect(effect));
    if (result.more) this.#scheduleTick();
    else this.#armDeadline();
    this.#scheduleFlush();
    applied(result.answer);
  }

  /** Work that is already due goes on after other commands had a turn. */
  #scheduleTick(): void {
    if (this.#tickScheduled) return;
    this.#tickScheduled = true;
    setImmediate(() => {
      this.#tickScheduled = false;
      this.#tick();
    });
  }

  #tick(): void {
    if (this.#state === "ready") this.#apply({ kind: "tick" });
  }

  #armDeadline(): void {
    const atMs = this.#table.nextDeadlineMs();
    if (atMs === (this.#deadline?.atMs ?? null)) return;
    this.#deadline?.timer.cancel();
    this.#deadline = null;
    if (atMs === null) return;
    // one millisecond late rather than early: the timeline counts whole milliseconds
    const delayMs = Math.max(0, atMs - this.#timeline.nowMs()) + 1;
    const timer = this.#options.timers.after(delayMs, () => {
      this.#deadline = null;
      this.#tick();
    });
    this.#deadline = { atMs, timer };
  }

  #scheduleFlush(): void {
    if (this.#flushScheduled || this.#committing) return;
    this.#flushScheduled = true;
    // setImmediate: frames of all sockets that are readable in this turn share the batch
    setImmediate(() => {
      this.#flushScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (this.#committing || this.#state === "full" || this.#state === "failed") return;
    const changes = this.#table.drainChanges();
    const events = this.#table.drainEvents();
    const deliveries = this.#outbox;
    this.#outbox = [];
    if (changes.length === 0 && events.length === 0) {
      this.#deliver(deliveries, events);
      return;
    }
    changes.push(this.#timeline.record());
    this.#committing = true;
    this.#options.namespace.commit(this.#batch(changes, events)).then(
      () => {
        this.#committing = false;
        this.#deliver(deliveries, events);
        if (this.#outbox.length > 0) this.#flush();
        else this.#signalIdle();
      },
      (thrown: unknown) => {
        this.#committing = false;
        this.#commitFailed(asLockdError(thrown));
      },
    );
  }

  #batch(changes: StoreBatch["changes"], events: readonly LockEvent[]): StoreBatch {
    const first = events[0];
    const last = events.at(-1);
    if (first === undefined || last === undefined || this.#options.historyMax === 0) return { changes };
    const append = { stream: EVENT_STREAM, firstId: first.id, lastId: last.id, data: encodeEvents(events) };
    // trimmed in steps, so that not every batch deletes rows
    const keepFromId = last.id - this.#options.historyMax;
    if (keepFromId - this.#oldestEventId < this.#options.historyMax / 4) return { changes, appends: [append] };
    this.#oldestEventId = keepFromId;
    return { changes, appends: [append], trims: [{ stream: EVENT_STREAM, throughId: keepFromId - 1 }] };
  }

  #deliver(deliveries: readonly (() => void)[], events: readonly LockEvent[]): void {
    for (const deliver of deliveries) deliver();
    if (events.length > 0) this.#listener?.events(events);
    if (this.#outbox.length === 0 && !this.#committing) this.#signalIdle();
  }

  /**
   * The batch is not durable, so nothing in it was revealed: the table goes back to the last durable
   * state. A full disk is waited out; everything else ends this node's promises.
   */
  #commitFailed(error: LockdError): void {
    this.#outbox = [];
    if (error.code !== "overflow") {
      this.#state = "failed";
      this.#signalIdle();
      this.#options.fail(
        new LockdError("failed", `write lock state: ${error.message}`, {
          hint: "check the disk and the kernel log; what was acknowledged is safe, the server goes on from it when started again",
          cause: error,
        }),
      );
      return;
    }
    this.#options.logger.error("disk-full", { error: error.message });
    this.#state = "full";
    this.#deadline?.timer.cancel();
    this.#deadline = null;
    this.#listener?.reset("the disk is full");
    this.#signalIdle();
    this.#armRetry();
  }

  #armRetry(): void {
    this.#retry = this.#options.timers.after(RETRY_MS, () => {
      this.#retry = null;
      this.#refuseLate();
      void this.#probe();
    });
  }

  #refuseLate(): void {
    const nowMs = this.#options.clock.monotonicMs();
    const kept: Deferred[] = [];
    for (const deferred of this.#deferred) {
      if (deferred.untilMs === null || deferred.untilMs > nowMs) kept.push(deferred);
      else refuse(deferred, "the disk of the lock server is full");
    }
    this.#deferred = kept;
  }

  /** Recovers from disk, and is ready again when a batch can be made durable. */
  async #probe(): Promise<void> {
    try {
      await this.#options.namespace.commit({ changes: [this.#timeline.record()] });
    } catch (thrown) {
      const error = asLockdError(thrown);
      if (error.code === "overflow") this.#armRetry();
      else this.#commitFailed(error);
      return;
    }
    if (this.#state !== "full") return;
    const restart = this.#recover();
    this.#options.logger.info("disk-room", {});
    this.#state = "ready";
    this.#apply(restart);
    const deferred = this.#deferred;
    this.#deferred = [];
    for (const { command, done, applied } of deferred) this.#apply(command, done, applied);
  }

  /** Resolves when no delivery waits and no batch is under way. */
  #drained(): Promise<void> {
    if (this.#outbox.length === 0 && !this.#committing && !this.#flushScheduled) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #signalIdle(): void {
    const waiting = this.#idle;
    this.#idle = [];
    for (const resolve of waiting) resolve();
  }
}

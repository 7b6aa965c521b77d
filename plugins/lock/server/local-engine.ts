/**
 * The engine of a single node: applies commands to the lock table in memory, hands what they changed
 * to the store in batches, one at a time, and reveals answers only after their batch is synced
 * (write-ahead, group commit). Owns recovery; knows no session's connection and no frame.
 */
import type { Clock, Timer, Timers } from "../../../src/clock/clock.ts";
import { asLockdError, assert, LockdError } from "../../../src/errors.ts";
import type { Logger } from "../../../src/observe/types.ts";
import type { Namespace, RecordChange } from "../../../src/store/types.ts";
import { LockTable } from "../core/table.ts";
import type { Instant, LockAnswer, LockCommand, LockEffect, LockEvent, LockLimits, StepResult } from "../core/types.ts";
import type { AnswerListener, EngineListener, EngineStatus, LockEngine } from "../engine.ts";
import { Alarm } from "./alarm.ts";
import { type DeferredCommand, DeferredCommands } from "./deferred-commands.ts";
import { EngineTimeline } from "./engine-timeline.ts";
import { EventLog } from "./event-log.ts";
import { recover } from "./recovery.ts";

/** How often a full disk is tried again. */
const RETRY_MS = 1_000;
/** Outcomes and queries that wait for the disk before senders are not read from … */
const WAITING_HIGH = 4_096;
/** … and before requests are refused: many senders, each a little over. */
const WAITING_MAX = 131_072;
/** Outcomes for which an idle disk is started before the whole burst was read. */
const EARLY_BATCH = 32;
/** Queries that are evaluated for one batch: a result may be a whole page and is kept until it is durable. */
const READS_PER_BATCH_MAX = 16;

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

/** What a command led to. */
interface Outcome {
  /** null: nobody waits for it */
  answer: LockAnswer | null;
  done: AnswerListener;
  effects: readonly LockEffect[];
  at: Instant;
}

/** Evaluates a query; the result is delivered by the function that it returns. */
type Read = () => () => void;

/** What becomes durable together, and what may be told then. */
interface Batch {
  changes: RecordChange[];
  events: readonly LockEvent[];
  outcomes: readonly Outcome[];
  reads: readonly Read[];
  results: readonly (() => void)[];
}

const ignore: AnswerListener = () => undefined;

/**
 * full: the disk has no room, the table is as of the last durable batch. failed: the table may be ahead
 * of the disk for ever, nothing of it is told any more.
 */
type State = "new" | "ready" | "full" | "stopping" | "stopped" | "failed";

const REASONS: Readonly<Record<State, string | null>> = {
  new: "the lock service is starting",
  ready: null,
  full: "the disk of the lock server is full: nothing can be acknowledged until there is room again",
  stopping: "the server is stopping",
  stopped: "the server is stopping",
  failed: "the storage of the lock server failed",
};

export class LocalEngine implements LockEngine {
  readonly #options: LocalEngineOptions;
  readonly #alarm: Alarm;
  readonly #deferred: DeferredCommands;
  readonly #eventLog: EventLog;
  #table: LockTable;
  #timeline: EngineTimeline;
  #listener: EngineListener | null = null;
  #state: State = "new";
  /** to be revealed with the next batch, in order */
  #outcomes: Outcome[] = [];
  /** to be evaluated when a batch is closed, in order */
  #reads: Read[] = [];
  /** a step was made since the last batch was closed */
  #dirty = false;
  /** the timeline's record must be written although nothing else changed */
  #recordDue = false;
  #committing = false;
  #flushScheduled = false;
  #tickScheduled = false;
  #retry: Timer | null = null;
  #idle: (() => void)[] = [];
  #room: PromiseWithResolvers<void> | null = null;

  constructor(options: LocalEngineOptions) {
    this.#options = options;
    this.#table = new LockTable(options.limits);
    this.#timeline = EngineTimeline.fresh(options.bootId, options.clock);
    this.#eventLog = new EventLog(options.historyMax);
    this.#alarm = new Alarm({
      timers: options.timers,
      nowMs: () => this.#timeline.nowMs(),
      ring: () => this.#tick(),
    });
    this.#deferred = new DeferredCommands({
      timers: options.timers,
      monotonicMs: () => options.clock.monotonicMs(),
      refuse: (command) => this.#refuse(command),
    });
  }

  async start(listener: EngineListener): Promise<void> {
    assert(this.#state === "new", "an engine is started once");
    this.#listener = listener;
    const restart = this.#recover();
    this.#state = "ready";
    this.#apply(restart);
    await this.#drained();
  }

  async stop(): Promise<void> {
    if (this.#state === "ready") this.#state = "stopping";
    this.#alarm.cancel();
    this.#retry?.cancel();
    this.#deferred.refuseAll();
    await this.#drained();
    if (this.#state !== "failed") this.#state = "stopped";
  }

  submit(command: LockCommand, deadlineMs: number | null, done: AnswerListener, applied: AnswerListener = ignore): void {
    if (this.#state === "ready") {
      this.#apply(command, done, applied);
    } else if (command.kind === "disconnect") {
      // after recovery nobody is connected anyway
      const at = this.#instant();
      applied({ kind: "done" }, at);
      done({ kind: "done" }, at);
    } else if (this.#state === "full") {
      this.#deferred.add({ command, done, applied }, deadlineMs);
    } else this.#refuse({ done, applied });
  }

  read<T>(query: (table: LockTable, at: Instant) => T, done: (result: T, at: Instant) => void): void {
    if (this.#state === "failed") return;
    const evaluate: Read = () => {
      const at = this.#instant();
      const result = query(this.#table, at);
      return () => done(result, at);
    };
    if (!this.#committing && !this.#pending) {
      evaluate()();
      return;
    }
    this.#reads.push(evaluate);
    this.#scheduleFlush();
  }

  room(): Promise<void> | undefined {
    const waiting = this.#outcomes.length + this.#reads.length;
    if (waiting < WAITING_HIGH) return undefined;
    if (waiting >= WAITING_MAX) {
      throw new LockdError("overflow", `take in request: ${waiting} others wait for the disk of the lock server`);
    }
    this.#room ??= Promise.withResolvers<void>();
    return this.#room.promise;
  }

  /** Runs a query on the present state, durable or not: for metrics and the log only. */
  peek<T>(query: (table: LockTable, at: Instant) => T): T {
    return query(this.#table, this.#instant());
  }

  status(): EngineStatus {
    return { ready: this.#state === "ready", reason: REASONS[this.#state], readyInMs: null };
  }

  #instant(): Instant {
    return { nowMs: this.#timeline.nowMs(), wallMs: this.#options.clock.wallMs() };
  }

  #refuse({ done, applied }: Pick<DeferredCommand, "done" | "applied">): void {
    const answer: LockAnswer = { kind: "refused", code: "unavailable", message: REASONS[this.#state] ?? "the lock server is not ready" };
    const at = this.#instant();
    applied(answer, at);
    done(answer, at);
  }

  /** Goes on from the last durable state; returns the first command to apply on it. */
  #recover(): LockCommand {
    const { table, timeline, rebooted } = recover(this.#options.namespace, this.#options);
    this.#table = table;
    this.#timeline = timeline;
    // the next start must not take this boot for another one again
    this.#recordDue = rebooted;
    return { kind: "restart", rebooted };
  }

  // ---- steps

  #apply(command: LockCommand, done: AnswerListener = ignore, applied: AnswerListener = ignore): void {
    const at = this.#instant();
    let result: StepResult;
    try {
      result = this.#table.step(command, at);
    } catch (thrown) {
      // half a step was made: nothing of this table must reach the disk or a client
      this.#failWith(`apply ${command.kind}`, asLockdError(thrown), "this is a defect of lockd: please report it with the log");
      return;
    }
    const { answer, effects, more } = result;
    this.#dirty = true;
    if (done !== ignore || effects.length > 0) {
      this.#outcomes.push({ answer: done === ignore ? null : answer, done, effects, at });
    }
    if (more) this.#scheduleTick();
    else this.#alarm.set(this.#table.nextDeadlineMs());
    this.#scheduleFlush();
    applied(answer, at);
    // the disk begins with these while the rest of a burst is still being read
    if (this.#outcomes.length >= EARLY_BATCH && !this.#committing) this.#flush();
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

  // ---- batches

  get #pending(): boolean {
    return this.#dirty || this.#reads.length > 0;
  }

  #scheduleFlush(): void {
    if (this.#flushScheduled || this.#committing) return;
    this.#flushScheduled = true;
    // a microtask: all that one chunk of a connection brought shares the batch, and an idle disk begins at once
    queueMicrotask(() => {
      this.#flushScheduled = false;
      if (!this.#committing) this.#flush();
    });
  }

  /** Hands what was gathered to the idle disk. */
  #flush(): void {
    const batch = this.#close();
    if (batch.changes.length > 0) this.#commit(batch);
    else this.#reveal(batch);
    this.#goOn();
  }

  /** Ends the batch that is being gathered. */
  #close(): Batch {
    const changes = this.#dirty ? this.#table.drainChanges() : [];
    const events = this.#dirty ? this.#table.drainEvents() : [];
    if (this.#dirty && (changes.length > 0 || events.length > 0 || this.#recordDue)) {
      changes.push(this.#timeline.record());
      this.#recordDue = false;
    }
    const outcomes = this.#outcomes;
    const reads = this.#reads.splice(0, READS_PER_BATCH_MAX);
    const results: (() => void)[] = [];
    for (const read of reads) this.#guard("query", () => results.push(read()));
    this.#outcomes = [];
    this.#dirty = false;
    this.#room?.resolve();
    this.#room = null;
    return { changes, events, outcomes, reads, results };
  }

  #commit(batch: Batch): void {
    this.#committing = true;
    const { part, landed } = this.#eventLog.append(batch.events);
    this.#options.namespace.commit({ changes: batch.changes, ...part }).then(
      () => {
        landed();
        this.#landed(batch);
      },
      (thrown: unknown) => this.#commitFailed(batch, asLockdError(thrown)),
    );
  }

  #landed(batch: Batch): void {
    this.#committing = false;
    const next = this.#pending && this.#state !== "failed" ? this.#close() : null;
    const writes = next !== null && next.changes.length > 0;
    // the disk works on the next batch while this one is told
    if (next !== null && writes) this.#commit(next);
    this.#reveal(batch);
    if (next !== null && !writes) this.#reveal(next);
    this.#goOn();
  }

  #reveal({ events, outcomes, results }: Batch): void {
    const listener = this.#listener;
    assert(listener !== null, "a started engine has a listener");
    if (events.length > 0) this.#guard("events", () => listener.events(events));
    for (const { answer, done, effects, at } of outcomes) {
      try {
        if (answer !== null) done(answer, at);
      } catch (thrown) {
        this.#undelivered("answer", thrown);
      }
      for (const effect of effects) {
        try {
          listener.effect(effect, at);
        } catch (thrown) {
          this.#undelivered(effect.kind, thrown);
        }
      }
    }
    for (const deliver of results) this.#guard("query", deliver);
  }

  /** One answer that cannot be delivered must not cost anybody else's. */
  #guard(what: string, run: () => void): void {
    try {
      run();
    } catch (thrown) {
      this.#undelivered(what, thrown);
    }
  }

  #undelivered(what: string, thrown: unknown): void {
    const { message, stack } = asLockdError(thrown);
    this.#options.logger.error("delivery-failed", { what, error: message, stack: stack ?? "" });
  }

  #goOn(): void {
    if (this.#committing || this.#flushScheduled) return;
    if (this.#pending && this.#state !== "failed") this.#scheduleFlush();
    else for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** Resolves when nothing waits to be revealed and no batch is under way. */
  #drained(): Promise<void> {
    if (!this.#pending && !this.#committing && !this.#flushScheduled) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  // ---- failures

  /**
   * The batch is not durable, and nothing that came after it was revealed either. A full disk is waited
   * out from the last durable state; everything else ends this node's promises.
   */
  #commitFailed(batch: Batch, error: LockdError): void {
    this.#committing = false;
    if (this.#state === "failed") return this.#goOn();
    if (error.code !== "overflow") {
      this.#writeFailed(error);
      return;
    }
    const undone = [...batch.outcomes, ...this.#outcomes];
    this.#outcomes = [];
    this.#dirty = false;
    this.#reads.unshift(...batch.reads);
    this.#alarm.cancel();
    this.#options.logger.error("disk-full", { error: error.message });
    let restart: LockCommand;
    try {
      restart = this.#recover();
    } catch (thrown) {
      this.#failWith("read lock state", asLockdError(thrown), "check the disk and the kernel log");
      return;
    }
    if (this.#state === "ready") {
      this.#state = "full";
      this.#armRetry(restart);
    }
    this.#guard("reset", () => this.#listener?.reset(REASONS.full ?? ""));
    for (const { answer, done } of undone) if (answer !== null) this.#guard("refusal", () => this.#refuse({ done, applied: ignore }));
    this.#goOn();
  }

  #armRetry(restart: LockCommand): void {
    this.#retry = this.#options.timers.after(RETRY_MS, () => {
      this.#retry = null;
      void this.#probe(restart);
    });
  }

  /** Is ready again when a write succeeds: of what is stored already, so that it changes nothing. */
  async #probe(restart: LockCommand): Promise<void> {
    try {
      await this.#options.namespace.commit({ changes: [this.#timeline.storedRecord()] });
    } catch (thrown) {
      if (this.#state !== "full") return;
      const error = asLockdError(thrown);
      if (error.code === "overflow") this.#armRetry(restart);
      else this.#writeFailed(error);
      return;
    }
    if (this.#state !== "full") return;
    this.#options.logger.info("disk-room", {});
    this.#state = "ready";
    this.#apply(restart);
    for (const { command, done, applied } of this.#deferred.take()) this.submit(command, null, done, applied);
  }

  #writeFailed(error: LockdError): void {
    const hint = "check the disk and the kernel log; what was acknowledged is safe, the server goes on from it when started again";
    this.#failWith("write lock state", error, hint);
  }

  #failWith(what: string, error: LockdError, hint: string): void {
    this.#state = "failed";
    this.#outcomes = [];
    this.#reads = [];
    this.#dirty = false;
    this.#alarm.cancel();
    this.#retry?.cancel();
    this.#room?.resolve();
    this.#room = null;
    this.#deferred.refuseAll();
    this.#options.fail(new LockdError("failed", `${what}: ${error.message}`, { hint, cause: error }));
    this.#goOn();
  }
}

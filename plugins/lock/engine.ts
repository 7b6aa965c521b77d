/**
 * The interface between the lock service (sessions, connections, answers) and what decides about
 * locks and keeps them: the local engine of a single node now, others beside it. An engine delivers
 * an answer or effect only when it may be revealed, that is when what it tells of is durable.
 */
import type { LockTable } from "./core/table.ts";
import type { Instant, LockAnswer, LockCommand, LockEffect, LockEvent } from "./core/types.ts";

/** `at`: when the engine came to the answer, for times that are told relative to it. */
export type AnswerListener = (answer: LockAnswer, at: Instant) => void;

export interface EngineListener {
  /** effects in the order in which they happened; `at` as for answers */
  effect(effect: LockEffect, at: Instant): void;
  /** events in order of their ids, before the answers and effects of the commands that caused them */
  events(events: readonly LockEvent[]): void;
  /**
   * Every session's connection binding is void: clients have to open their sessions again. Commands
   * that were not revealed were undone; each is answered `unavailable` after this.
   */
  reset(reason: string): void;
}

export interface EngineStatus {
  ready: boolean;
  /** a sentence, when not ready */
  reason: string | null;
  /** milliseconds until it expects to be ready, where that is known */
  readyInMs: number | null;
}

export interface LockEngine {
  start(listener: EngineListener): Promise<void>;
  /** Refuses what comes from now on, makes all that was accepted durable, tells it, and stops. */
  stop(): Promise<void>;
  /**
   * Applies a command in the order of the calls and calls `done` with its answer; answers and effects
   * are delivered in the order of the commands. While the engine is not ready the command is kept; one
   * whose `deadlineMs` (milliseconds from now, null: none) passes meanwhile is answered `unavailable`.
   * `applied` hears the same answer at once, durable or not: for what stays inside this process. When
   * durability fails later, `reset` follows it. `done` is never called when the node has failed.
   */
  submit(command: LockCommand, deadlineMs: number | null, done: AnswerListener, applied?: AnswerListener): void;
  /**
   * Runs a query on a state that holds every command submitted before, and delivers its result once
   * that state is durable.
   */
  read<T>(query: (table: LockTable, at: Instant) => T, done: (result: T, at: Instant) => void): void;
  /**
   * Called by the handler of each request: undefined while there is room for more, else a promise that
   * settles when there is, so that whoever sends is not read from meanwhile. Throws LockdError
   * `overflow`, and the request must not be submitted, when even that did not help.
   */
  room(): Promise<void> | undefined;
  status(): EngineStatus;
}

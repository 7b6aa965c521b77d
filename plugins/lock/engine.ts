/**
 * The interface between the lock service (sessions, connections, answers) and what decides about
 * locks and keeps them: the local engine of a single node now, others beside it. An engine delivers
 * an answer or effect only when it may be revealed, that is when what it tells of is durable.
 */
import type { LockTable } from "./core/table.ts";
import type { Instant, LockAnswer, LockCommand, LockEffect, LockEvent } from "./core/types.ts";

export type AnswerListener = (answer: LockAnswer) => void;

export interface EngineListener {
  /** effects in the order in which they happened */
  effect(effect: LockEffect): void;
  /** events in order of their ids */
  events(events: readonly LockEvent[]): void;
  /** every session's connection binding is void: clients have to open their sessions again */
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
  /** Makes all that was accepted durable and stops; later commands are not answered. */
  stop(): Promise<void>;
  /**
   * Applies a command in the order of the calls and calls `done` with its answer. While the engine is
   * not ready the command is kept; one whose `deadlineMs` (milliseconds from now, null: none) passes
   * meanwhile is answered `unavailable`. `applied` hears the same answer at once, durable or not: for
   * what stays inside this process.
   */
  submit(command: LockCommand, deadlineMs: number | null, done: AnswerListener, applied?: AnswerListener): void;
  /** Runs a query on the present state and delivers its result once that state is durable. */
  read<T>(query: (table: LockTable, at: Instant) => T, done: (result: T, at: Instant) => void): void;
  status(): EngineStatus;
}

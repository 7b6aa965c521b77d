/**
 * Commands that wait because nothing can be made durable at present, each with its own deadline.
 * Bounded. Knows no table and no storage.
 */
import type { Timer, Timers } from "../../../src/clock/clock.ts";
import type { LockCommand } from "../core/types.ts";
import type { AnswerListener } from "../engine.ts";

const COMMANDS_MAX = 10_000;

export interface DeferredCommand {
  command: LockCommand;
  done: AnswerListener;
  applied: AnswerListener;
}

interface Kept extends DeferredCommand {
  keptMs: number;
  timer: Timer | null;
}

export class DeferredCommands {
  readonly #timers: Timers;
  readonly #monotonicMs: () => number;
  readonly #refuse: (command: DeferredCommand) => void;
  readonly #kept = new Set<Kept>();

  /** `refuse` answers a command that is not kept any longer. */
  constructor(options: { timers: Timers; monotonicMs: () => number; refuse: (command: DeferredCommand) => void }) {
    this.#timers = options.timers;
    this.#monotonicMs = options.monotonicMs;
    this.#refuse = options.refuse;
  }

  get size(): number {
    return this.#kept.size;
  }

  /** Keeps a command for `deadlineMs` at most (null: as long as need be). What wants no wait is refused at once. */
  add(command: DeferredCommand, deadlineMs: number | null): void {
    if (deadlineMs === 0 || this.#kept.size >= COMMANDS_MAX) {
      this.#refuse(command);
      return;
    }
    const kept: Kept = { ...command, keptMs: this.#monotonicMs(), timer: null };
    this.#kept.add(kept);
    if (deadlineMs === null) return;
    kept.timer = this.#timers.after(deadlineMs, () => {
      this.#kept.delete(kept);
      this.#refuse(command);
    });
  }

  /** All that is kept, in the order in which it came; a LOCK has that much less left of its wait. */
  take(): DeferredCommand[] {
    const nowMs = this.#monotonicMs();
    const taken = Array.from(this.#kept, ({ command, done, applied, keptMs, timer }) => {
      timer?.cancel();
      return { command: withWaitLeft(command, nowMs - keptMs), done, applied };
    });
    this.#kept.clear();
    return taken;
  }

  /** Refuses all that is kept. */
  refuseAll(): void {
    for (const command of this.take()) this.#refuse(command);
  }
}

function withWaitLeft(command: LockCommand, keptMs: number): LockCommand {
  if (command.kind !== "lock" || command.spec.waitMs === null) return command;
  const waitMs = Math.max(0, command.spec.waitMs - Math.ceil(keptMs));
  return { ...command, spec: { ...command.spec, waitMs } };
}

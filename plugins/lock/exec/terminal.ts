/**
 * The terminal between the wrapper and a command in a group of its own: who has it, and what happens
 * when the command is stopped. Behaves towards a job-control shell as the command alone would. Knows
 * nothing of locks.
 */
import { closeDescriptor, openIfPossible } from "../../../src/system/files.ts";
import { libc } from "../../../src/system/libc.ts";
import {
  SIGNALS,
  ignoreSignal,
  ownGroup,
  processStat,
  signalGroup,
  signalOwnGroup,
  takeChildStop,
} from "../../../src/system/process.ts";
import { isTerminal } from "../../../src/terminal.ts";

const O_RDWR = 2;

/** Makes the terminal's process group the one that reads it and gets Ctrl-C. */
export class JobTerminal {
  readonly #descriptor: number;
  /** group of the command; null while none runs */
  #group: number | null = null;
  /** whether the command's group had the terminal when it was last stopped */
  #given = false;

  private constructor(descriptor: number) {
    this.#descriptor = descriptor;
    // moving the terminal from the background would otherwise stop this process
    ignoreSignal(SIGNALS.SIGTTOU);
  }

  /** The terminal that controls this process; null when there is none. */
  static open(): JobTerminal | null {
    const descriptor = openIfPossible("/dev/tty", O_RDWR);
    return descriptor === null ? null : new JobTerminal(descriptor);
  }

  /**
   * The command of this group starts. It gets the terminal at once when both its input and its output
   * are terminals; otherwise it may be part of a pipeline whose other end reads the terminal, and gets
   * it when it asks (the kernel stops whoever reads a terminal that another group has).
   */
  start(group: number): void {
    this.#group = group;
    if (isTerminal(0) && isTerminal(1) && this.#isForeground()) this.#give(group);
  }

  /** The command has ended: take the terminal back. Whether its group had it at the end. */
  finish(): boolean {
    const had = this.#group !== null && libc.tcgetpgrp(this.#descriptor) === this.#group;
    if (had) libc.tcsetpgrp(this.#descriptor, ownGroup());
    this.#group = null;
    closeDescriptor(this.#descriptor);
    return had;
  }

  /**
   * To be called when a child changed its state. A command that was stopped because it wants the
   * terminal gets it if it is ours to give; otherwise our own group stops too, so that the shell
   * notices, and both go on together.
   */
  onChildState(pid: number): void {
    const group = this.#group;
    const signal = group === null ? null : takeChildStop(pid);
    if (group === null || signal === null) return;
    const wantsTerminal = signal === SIGNALS.SIGTTIN || signal === SIGNALS.SIGTTOU;
    if (wantsTerminal && this.#isForeground()) {
      this.#give(group);
      signalGroup(group, SIGNALS.SIGCONT);
      return;
    }
    this.#given = libc.tcgetpgrp(this.#descriptor) === group;
    if (ownGroupIsOrphaned()) {
      // nobody could ever continue us: the kernel ignores such a stop for a command alone
      if (signal === SIGNALS.SIGTSTP) signalGroup(group, SIGNALS.SIGCONT);
      return;
    }
    if (this.#given) libc.tcsetpgrp(this.#descriptor, ownGroup());
    // returns when somebody continued us: `fg`, `bg` or a plain SIGCONT
    signalOwnGroup(SIGNALS.SIGSTOP);
    this.resume();
  }

  /** This process was continued: the command goes on, with the terminal if it had it and it is ours. */
  resume(): void {
    if (this.#group === null) return;
    if (this.#given && this.#isForeground()) this.#give(this.#group);
    signalGroup(this.#group, SIGNALS.SIGCONT);
  }

  #isForeground(): boolean {
    return libc.tcgetpgrp(this.#descriptor) === ownGroup();
  }

  #give(group: number): void {
    libc.tcsetpgrp(this.#descriptor, group);
  }
}

/** Whether no job-control shell stands behind our group (POSIX: orphaned process group). */
function ownGroupIsOrphaned(): boolean {
  const group = ownGroup();
  const leader = processStat(group);
  if (leader === null) return false;
  const parent = processStat(leader.parent);
  return parent === null || parent.session !== leader.session;
}

/**
 * What this process was given by whoever started it and must hand on unchanged to a command: ignored
 * signals and the soft limit of open files. The runtime changes some of it before any code of ours
 * runs; this file knows which and how to find the truth, and nothing of locks.
 */
import { SIGNALS, ignoredSignals, openFilesLimit, openFilesSoftLimitOf, parentPid } from "../../../src/system/process.ts";
import { isTerminal } from "../../../src/terminal.ts";

export interface Inheritance {
  /** numbers of the signals that were ignored when this process started */
  ignored: ReadonlySet<number>;
  /** soft limit of open files as it was given */
  openFilesSoft: number;
}

/**
 * Reads the inheritance. To be called before anything installs signal handlers.
 *
 * - SIGPIPE and SIGXFSZ are ignored by the runtime whatever was inherited: they count as not ignored.
 * - On a terminal the runtime handles SIGINT and SIGTERM. SIGINT counts as ignored when the parent ignores
 *   it, or when SIGQUIT is ignored: shells ignore both for background jobs, `trap '' INT` stays in them.
 * - The runtime raises the soft limit of open files to the hard one: the parent's soft limit is taken,
 *   which differs only where the limit was changed between fork and exec of lockd itself.
 */
export function readInheritance(): Inheritance {
  const ignored = new Set(ignoredSignals("self"));
  ignored.delete(SIGNALS.SIGPIPE);
  ignored.delete(SIGNALS.SIGXFSZ);
  const parent = parentPid();
  if (isTerminal(0) || isTerminal(1) || isTerminal(2)) {
    if (ignored.has(SIGNALS.SIGQUIT) || parentIgnores(parent, SIGNALS.SIGINT)) ignored.add(SIGNALS.SIGINT);
  }
  const limit = openFilesLimit();
  const parentSoft = openFilesSoftLimitOf(parent);
  const openFilesSoft = parentSoft === null ? limit.soft : Math.min(parentSoft, limit.hard);
  return { ignored, openFilesSoft };
}

function parentIgnores(parent: number, signal: number): boolean {
  try {
    return ignoredSignals(parent).has(signal);
  } catch {
    // a parent of another user, or gone: nothing is known of it
    return false;
  }
}

/**
 * Whether the caller closed stdout. The runtime opens /dev/null in its place before any code of ours
 * runs, and what is written there is lost without an error. Knows how that is told from a /dev/null
 * that the caller opened, and nothing else.
 */
import { fstatSync, readFileSync } from "node:fs";

const O_CLOEXEC = 0o2000000;

/** What survives the start of a program cannot be close-on-exec: a device that is was opened since. */
export function stdoutWasClosed(): boolean {
  try {
    if (!fstatSync(1).isCharacterDevice()) return false;
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync("/proc/self/fdinfo/1", "latin1"))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & O_CLOEXEC) !== 0;
  } catch {
    // without /proc nothing is known of it
    return false;
  }
}

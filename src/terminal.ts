/** Whether a descriptor is a terminal, cheaply. Knows nothing of what is written there. */
import { fstatSync } from "node:fs";

/**
 * Asking process.stdout costs 8 ms of start-up and loading node:tty 3 ms (`lockd --version` without
 * either: 3 ms), so what is no character device at all, a pipe or a file, is answered without them.
 */
export function isTerminal(descriptor: number): boolean {
  try {
    if (!fstatSync(descriptor).isCharacterDevice()) return false;
  } catch {
    // closed
    return false;
  }
  return process.getBuiltinModule("node:tty").isatty(descriptor);
}

/** The descriptor that gets a newline when the server is ready (`--ready-fd N`). Knows no server. */
import { closeSync, fstatSync, writeSync } from "node:fs";
import { LockdError } from "../errors.ts";

/**
 * Checks that the descriptor is one that was handed to this process. Throws LockdError `config` when
 * it is closed, or something else of the process itself.
 */
export function checkReadyFd(fd: number): void {
  let usable = false;
  try {
    const stat = fstatSync(fd);
    // what the runtime has opened for itself by now (epoll, events) is none of these
    usable = stat.isFIFO() || stat.isSocket() || stat.isFile() || stat.isCharacterDevice();
  } catch {
    // not open
  }
  if (!usable) {
    throw new LockdError("config", `check --ready-fd: descriptor ${fd} is not open for writing`, {
      hint: "pass one that the starting process opened, such as --ready-fd 3 3>ready.txt in a shell",
    });
  }
}

/** Writes the newline and closes the descriptor. Returns why nobody was told, or null. */
export function tellReadyFd(fd: number): string | null {
  try {
    writeSync(fd, "\n");
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    // standard streams go on to serve as such
    if (fd > 2) closeSync(fd);
  }
}

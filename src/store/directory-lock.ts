/**
 * Exclusive use of a data directory by one process, by flock(2): the kernel lets go when the process
 * ends, however it ends. Knows nothing of what the directory holds.
 */
import { read } from "bun:ffi";
import { closeSync, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { openLibc } from "../clock/libc.ts";
import { LockdError } from "../errors.ts";
import { fileProblem } from "../file-errors.ts";

const LOCK_EX = 2;
const LOCK_NB = 4;
const EWOULDBLOCK = 11;
const EINTR = 4;

export interface DirectoryLock {
  release(): void;
}

/**
 * Takes the lock of `directory`, null when another process (or another opener in this one) has it.
 * The descriptor is close-on-exec, so no child keeps the directory locked after its parent.
 */
export function lockDirectory(directory: string): DirectoryLock | null {
  const path = join(directory, "lock");
  let descriptor: number;
  try {
    // "a+" creates without truncating: the pid in it belongs to the holder until the lock is ours.
    descriptor = openSync(path, "a+", 0o600);
  } catch (error) {
    throw new LockdError("config", `lock data directory ${directory}: ${fileProblem(error)}`, {
      hint: "the directory must be writable by the user that lockd runs as",
      cause: error,
    });
  }
  const errno = flock(descriptor, LOCK_EX | LOCK_NB);
  if (errno === 0) {
    writePid(descriptor, `${process.pid}\n`);
    return {
      release: () => {
        writePid(descriptor, "");
        closeSync(descriptor);
      },
    };
  }
  closeSync(descriptor);
  if (errno === EWOULDBLOCK) return null;
  throw new LockdError("config", `lock data directory ${directory}: flock failed with errno ${errno}`, {
    hint: "the file system must support flock; put the data directory on a local disk",
  });
}

/** The same, but a directory in use is an error that names the holder. */
export function lockDirectoryOrThrow(directory: string): DirectoryLock {
  const lock = lockDirectory(directory);
  if (lock !== null) return lock;
  throw new LockdError("config", `open data directory: ${directory} is in use by ${holderOf(directory)}`, {
    hint: "stop that server first, or give this one another --data directory",
  });
}

/** For people only, so a full disk must not keep the server from starting. */
function writePid(descriptor: number, text: string): void {
  try {
    ftruncateSync(descriptor, 0);
    writeSync(descriptor, text);
  } catch {
    // holderOf says "another process" then
  }
}

function holderOf(directory: string): string {
  try {
    const pid = readFileSync(join(directory, "lock"), "utf8").trim();
    if (/^\d+$/.test(pid)) return `pid ${pid}`;
  } catch {
    // The holder may be just starting; that it holds the lock is all we know for sure.
  }
  return "another process";
}

function flock(descriptor: number, operation: number): number {
  const libc = openLibc({
    flock: { args: ["i32", "i32"], returns: "i32" },
    __errno_location: { args: [], returns: "ptr" },
  } as const);
  try {
    for (;;) {
      if (libc.symbols.flock(descriptor, operation) === 0) return 0;
      const location = libc.symbols.__errno_location();
      const errno = location === null ? 0 : read.i32(location, 0);
      if (errno !== EINTR) return errno;
    }
  } finally {
    libc.close();
  }
}

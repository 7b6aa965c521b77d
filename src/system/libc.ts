/**
 * The C library through `bun:ffi`: the functions that Bun has no call for, errno, and C strings.
 * Linux on x64 and arm64, glibc and musl. Says nothing about what the functions are used for.
 */
import { ptr, read, type Pointer } from "bun:ffi";
import { openLibc } from "../clock/libc.ts";
import { LockdError, assert } from "../errors.ts";

const SYMBOLS = {
  __errno_location: { args: [], returns: "ptr" },
  _exit: { args: ["i32"], returns: "void" },
  clock_gettime: { args: ["i32", "ptr"], returns: "i32" },
  close: { args: ["i32"], returns: "i32" },
  execvp: { args: ["ptr", "ptr"], returns: "i32" },
  fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
  getpgid: { args: ["i32"], returns: "i32" },
  getppid: { args: [], returns: "i32" },
  getrlimit: { args: ["i32", "ptr"], returns: "i32" },
  kill: { args: ["i32", "i32"], returns: "i32" },
  open: { args: ["ptr", "i32", "i32"], returns: "i32" },
  pipe2: { args: ["ptr", "i32"], returns: "i32" },
  poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
  prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" },
  read: { args: ["i32", "ptr", "u64"], returns: "i64" },
  setenv: { args: ["ptr", "ptr", "i32"], returns: "i32" },
  setpgid: { args: ["i32", "i32"], returns: "i32" },
  setrlimit: { args: ["i32", "ptr"], returns: "i32" },
  signal: { args: ["i32", "u64"], returns: "u64" },
  tcgetpgrp: { args: ["i32"], returns: "i32" },
  tcsetpgrp: { args: ["i32", "i32"], returns: "i32" },
  timerfd_create: { args: ["i32", "i32"], returns: "i32" },
  timerfd_settime: { args: ["i32", "i32", "ptr", "ptr"], returns: "i32" },
  waitid: { args: ["i32", "i32", "ptr", "i32", "ptr"], returns: "i32" },
  write: { args: ["i32", "ptr", "u64"], returns: "i64" },
} as const;

function openLibrary() {
  if (process.platform !== "linux") {
    throw new LockdError("failed", `run a program under a lock: not supported on ${process.platform}`, {
      hint: "`lockd lock --hold` and the client library work on every platform",
    });
  }
  return openLibc(SYMBOLS).symbols;
}

/** The functions themselves. Those that fail return -1 and leave the reason in `errno()`. */
export const libc = openLibrary();

const errnoPointer: Pointer = (() => {
  const pointer = libc.__errno_location();
  assert(typeof pointer === "number", "errno has an address");
  return pointer;
})();

/** The reason of the last failed call; meaningful only directly after it, in the same turn. */
export const errno = (): number => read.i32(errnoPointer, 0);

/** errno values that callers decide by; the same on x64 and arm64. */
export const ERRNO = { EPERM: 1, ENOENT: 2, ESRCH: 3, EINTR: 4, EAGAIN: 11, EACCES: 13, ENOTTY: 25 } as const;

/** `No such file or directory` for 2, and so on. */
export function errnoText(code: number): string {
  // loaded only when something fails: start-up time counts
  return process.getBuiltinModule("node:util").getSystemErrorMessage(-code) ?? `error ${code}`;
}

/** Runs a call again while a signal interrupts it; throws LockdError `failed` naming it when it fails. */
export function check(name: string, call: () => number): number {
  for (;;) {
    const result = call();
    if (result >= 0) return result;
    const code = errno();
    if (code !== ERRNO.EINTR) throw new LockdError("failed", `${name}: ${errnoText(code)}`);
  }
}

/** NUL-terminated UTF-8; a NUL inside is refused because C would cut the text there. */
export function cString(text: string): Buffer {
  if (text.includes("\0")) throw new LockdError("invalid", "pass text to C: it contains a NUL character");
  return Buffer.from(`${text}\0`, "utf8");
}

/**
 * Makes everything ready to become another program, found through PATH as the shell does. The returned
 * function does it at once, and returns only when it failed: with errno.
 */
export function prepareExec(argv: readonly string[]): () => number {
  const strings = argv.map(cString);
  const [file] = strings;
  assert(file !== undefined, "a program has a name");
  const vector = new BigUint64Array(strings.length + 1);
  strings.forEach((bytes, index) => {
    vector[index] = BigInt(ptr(bytes));
  });
  return () => {
    libc.execvp(file, vector);
    const code = errno();
    // used after the call, so that the texts live while C reads them: it has only their addresses
    assert(strings.length + 1 === vector.length, "the vector ends in NULL");
    return code;
  };
}

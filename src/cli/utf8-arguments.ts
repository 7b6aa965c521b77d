/**
 * Arguments are bytes: one that is not UTF-8 is refused, never altered. The runtime has already
 * turned bad bytes into U+FFFD when a program sees its arguments, so the bytes are read again.
 */
import { readFileSync } from "node:fs";
import { LockdError } from "../errors.ts";

const REPLACEMENT = "\ufffd";

/** Throws LockdError `usage` naming the first argument whose bytes are not UTF-8. */
export function refuseBadArguments(args: readonly string[], read: () => Uint8Array = ownCommandLine): void {
  // the usual case costs no system call
  const suspect = args.findIndex((argument) => argument.includes(REPLACEMENT));
  if (suspect === -1) return;
  const position = firstBadArgument(read(), args.length);
  if (position === null) return;
  throw new LockdError("usage", `read command line: argument ${position + 1} is not UTF-8`, {
    hint: "lockd passes arguments on unaltered or not at all; give file names with other bytes by a script or on standard input",
  });
}

/** Index of the first of the last `count` arguments of a NUL-separated command line that is not UTF-8. */
export function firstBadArgument(commandLine: Uint8Array, count: number): number | null {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const all: Uint8Array[] = [];
  for (let start = 0; start < commandLine.length; ) {
    const nul = commandLine.indexOf(0, start);
    const end = nul === -1 ? commandLine.length : nul;
    all.push(commandLine.subarray(start, end));
    start = end + 1;
  }
  const own = all.slice(-count);
  const bad = own.findIndex((argument) => {
    try {
      decoder.decode(argument);
      return false;
    } catch {
      return true;
    }
  });
  return bad === -1 ? null : bad;
}

function ownCommandLine(): Uint8Array {
  try {
    return readFileSync("/proc/self/cmdline");
  } catch (error) {
    // without /proc a character that was typed cannot be told from a byte that was lost
    throw new LockdError("usage", "read command line: an argument holds U+FFFD or is not UTF-8", { cause: error });
  }
}

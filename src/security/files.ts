/**
 * Secrets and certificates as files: reading them with errors that name option and file, never the
 * contents. Knows no server and no client.
 */
import { readFileSync, statSync } from "node:fs";
import { LockdError } from "../errors.ts";
import { fileProblem } from "../file-errors.ts";

/** Shorter secrets can be guessed by whoever has seen one challenge. */
const SECRET_BYTES_MIN = 16;
const SECRET_BYTES_MAX = 4096;
const FILE_BYTES_MAX = 1024 * 1024;
const TOKEN = /^[\x21-\x7e]{16,512}$/;

/** The bytes of a shared secret, without the end of the line. Throws LockdError `config`. */
export function readSecret(option: string, path: string): Uint8Array {
  const bytes = readSmallFile(option, path);
  let end = bytes.length;
  while (end > 0 && (bytes[end - 1] === 0x0a || bytes[end - 1] === 0x0d)) end -= 1;
  if (end < SECRET_BYTES_MIN || end > SECRET_BYTES_MAX) {
    throw new LockdError("config", `read ${option} ${path}: a secret has ${SECRET_BYTES_MIN} to ${SECRET_BYTES_MAX} bytes, this one ${end}`, {
      hint: "`head -c 32 /dev/urandom | base64` makes a good one",
    });
  }
  return new Uint8Array(bytes.subarray(0, end));
}

/** A token, without the end of the line. Throws LockdError `config`. */
export function readToken(option: string, path: string): string {
  const token = readSmallFile(option, path).toString("latin1").trim();
  if (!TOKEN.test(token)) {
    throw new LockdError("config", `read ${option} ${path}: a token is 16 to 512 visible ASCII characters without spaces`, {
      hint: "`head -c 32 /dev/urandom | base64` makes a good one",
    });
  }
  return token;
}

/** Throws LockdError `config`. */
export function readPem(option: string, path: string): string {
  const text = readSmallFile(option, path).toString("latin1");
  if (!/^-----BEGIN [A-Z ]+-----\r?$/m.test(text)) throw new LockdError("config", `read ${option} ${path}: it is not a PEM file`);
  return text;
}

/** Whether somebody else than owner and group may read it; false when that cannot be told. */
export function readableByAll(path: string): boolean {
  try {
    return (statSync(path).mode & 0o004) !== 0;
  } catch {
    return false;
  }
}

function readSmallFile(option: string, path: string): Buffer {
  try {
    if (statSync(path).size > FILE_BYTES_MAX) throw new LockdError("config", `read ${option} ${path}: larger than ${FILE_BYTES_MAX} bytes`);
    return readFileSync(path);
  } catch (error) {
    if (error instanceof LockdError) throw error;
    throw new LockdError("config", `read ${option} ${path}: ${fileProblem(error)}`, { cause: error });
  }
}

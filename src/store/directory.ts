/**
 * The data directory as files: making it, its lock, and the state of the write-ahead log in it before
 * SQLite may look. Knows nothing of tables.
 */
import { closeSync, existsSync, fsyncSync, ftruncateSync, mkdirSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { LockdError } from "../errors.ts";
import { REPAIR_HINT } from "./sqlite-errors.ts";
import { scanWal, type WalFinding } from "./wal-scan.ts";

export const STORE_FILE = "lockd.sqlite";

/** The header of a database, and where in it the write and read versions of the format stand ("Database File Format" §1.3.3). */
const HEADER_BYTES = 100;
const MAGIC = "SQLite format 3\0";
const FORMAT_VERSIONS_AT = 18;

/** Creates the directory (0700) if it is missing. Throws LockdError `config`. */
export function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new LockdError("config", `create data directory ${directory}: ${reasonOf(error)}`, {
      hint: "create it for the user that lockd runs as, or choose another with --data",
      cause: error,
    });
  }
}

/**
 * Creates the database file, empty and for its owner only (0600), if it is missing. Answers whether it did.
 * Throws LockdError `config`.
 */
export function makeFile(path: string): boolean {
  if (existsSync(path)) return false;
  try {
    closeSync(openSync(path, "ax", 0o600));
    return true;
  } catch (error) {
    throw new LockdError("config", `create store ${path}: ${reasonOf(error)}`, {
      hint: "the data directory must be writable and have room; choose another with --data",
      cause: error,
    });
  }
}

/**
 * Throws LockdError `corrupt` when the file's header asks for a newer SQLite: SQLite itself would only refuse
 * to write, and later. Must not be called while this process has the database open: closing a descriptor of
 * it drops SQLite's locks.
 */
export function checkHeader(path: string): void {
  const header = new Uint8Array(HEADER_BYTES);
  const descriptor = openSync(path, "r");
  try {
    if (readSync(descriptor, header, 0, HEADER_BYTES, 0) < HEADER_BYTES) return;
  } finally {
    closeSync(descriptor);
  }
  // What is no database at all, SQLite tells.
  if (!Buffer.from(header).toString("latin1").startsWith(MAGIC)) return;
  const versions = header.subarray(FORMAT_VERSIONS_AT, FORMAT_VERSIONS_AT + 2);
  if (versions.every((version) => version === 1 || version === 2)) return;
  throw new LockdError("corrupt", `open store ${path}: its header names file format ${versions.join("/")}, which SQLite does not know`, {
    hint: REPAIR_HINT,
  });
}

/** Makes the names in the directory of `path` durable. */
export function syncDirectoryOf(path: string): void {
  const descriptor = openSync(dirname(path), "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Scans the write-ahead log beside the database `path`. Throws LockdError `corrupt` for altered data. */
export function scanWalFile(path: string): WalFinding {
  const walPath = `${path}-wal`;
  if (!existsSync(walPath)) return { kind: "whole", endBytes: 0, frames: 0 };
  const finding = scanWal(readFileSync(walPath));
  if (finding.kind === "altered") {
    throw new LockdError(
      "corrupt",
      `open store ${path}: its write-ahead log was altered in frame ${finding.frame} (byte ${finding.offsetBytes} of ${walPath}), ` +
        `${finding.commitsBehind} complete transactions lie behind`,
      { hint: REPAIR_HINT },
    );
  }
  if (finding.frames > 0 && (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) {
    throw new LockdError("corrupt", `open store ${path}: the file is missing or empty, but its write-ahead log holds data`, {
      hint: REPAIR_HINT,
    });
  }
  return finding;
}

/**
 * Cuts what a crash left of an unfinished transaction. Left in place, its frames could lie behind those of
 * a second unfinished transaction and then read as altered data.
 */
export function cutWalFile(path: string, endBytes: number): void {
  const descriptor = openSync(join(`${path}-wal`), "r+");
  try {
    ftruncateSync(descriptor, endBytes);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

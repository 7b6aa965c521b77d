/**
 * The data directory as files: making it, its lock, and the state of the write-ahead log in it before
 * SQLite may look. Knows nothing of tables.
 */
import { closeSync, existsSync, fsyncSync, ftruncateSync, mkdirSync, openSync, readdirSync, readFileSync, readSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { LockdError } from "../errors.ts";
import { directoryProblem, fileProblem } from "../file-errors.ts";
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
    throw new LockdError("config", `create data directory ${directory}: ${directoryProblem(error)}`, {
      hint: "create it for the user that lockd runs as, or choose another with --data",
      cause: error,
    });
  }
}

/** Where a database is made that gets its name `path` when it is complete. */
export const partialOf = (path: string): string => `${path}.partial`;

/** Removes what a crash left of a database in the making. */
export function removePartial(path: string): void {
  for (const suffix of ["", "-journal", "-wal", "-shm"]) rmSync(partialOf(path) + suffix, { force: true });
}

/**
 * Throws LockdError `config` when a store would be made in a directory that holds somebody else's files. Hidden
 * ones and `lost+found` do not count: file systems and the machinery that mounts them put those there.
 */
export function requireOwnDirectory(path: string): void {
  if (existsSync(path)) return;
  const directory = dirname(path);
  let names: string[];
  try {
    names = readdirSync(directory);
  } catch (error) {
    throw new LockdError("config", `read data directory ${directory}: ${directoryProblem(error)}`, {
      hint: "it must belong to the user that lockd runs as; choose another with --data",
      cause: error,
    });
  }
  const own = (name: string) => name === "lock" || name.startsWith(basename(path)) || name === "lost+found" || name.startsWith(".");
  const foreign = names.filter((name) => !own(name)).sort();
  if (foreign.length === 0) return;
  const more = foreign.length > 3 ? " …" : "";
  throw new LockdError("config", `create store in ${directory}: the directory is not empty (${foreign.slice(0, 3).join(", ")}${more})`, {
    hint: "name an empty or a new directory with --data",
  });
}

/**
 * Makes the database `path` unless it is there: `fill` gets the name of an empty file, for its owner only (0600),
 * which becomes `path` when it is complete and durable. So a file of that name was complete once, whatever crashed.
 * Throws LockdError `config`, and `corrupt` when files beside it tell that there was one, or it is empty.
 */
export function makeDatabase(path: string, fill: (partial: string) => void): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found !== undefined && found.size > 0) return;
  const left = ["-wal", "-shm", "-journal"].map((suffix) => path + suffix).filter((name) => existsSync(name));
  if (found !== undefined || left.length > 0) {
    const what = found === undefined ? `it is missing, but ${left.join(", ")} is there` : "the file is empty";
    throw new LockdError("corrupt", `open store ${path}: ${what}, so what it held is lost`, { hint: REPAIR_HINT });
  }
  const partial = partialOf(path);
  try {
    removePartial(path);
    closeSync(openSync(partial, "ax", 0o600));
    fill(partial);
    syncFile(partial);
    renameSync(partial, path);
  } catch (error) {
    if (error instanceof LockdError) throw error;
    throw new LockdError("config", `create store ${path}: ${fileProblem(error)}`, {
      hint: "the data directory must be writable and have room; choose another with --data",
      cause: error,
    });
  }
  syncDirectoryOf(path);
}

/** Makes what is in a file durable. */
export function syncFile(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
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

/**
 * What SQLite's result codes mean to the store. The only place that looks at them.
 */
import { SQLiteError } from "bun:sqlite";
import { asLockdError, LockdError } from "../errors.ts";

/**
 * Nothing of the transaction was written where it counts, and it may succeed when there is room.
 * SHMSIZE: the shared memory file of the log could not be made larger, before anything was written.
 */
const FULL_CODES: ReadonlySet<string> = new Set(["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"]);

export const isFull = (error: unknown): boolean => error instanceof SQLiteError && FULL_CODES.has(error.code ?? "");

/** The error of a write as callers of the store see it: `overflow` for a full disk, else `failed`. */
export function writeErrorOf(doing: string, error: unknown): LockdError {
  if (error instanceof LockdError) return error;
  if (isFull(error)) {
    return new LockdError("overflow", `${doing}: the disk is full`, {
      hint: "free space on the file system of the data directory",
      cause: error,
    });
  }
  return new LockdError("failed", `${doing}: ${describe(error)}`, {
    hint: "check the disk and the kernel log, then restart; nothing more is made durable until then",
    cause: error,
  });
}

/** The error of opening or reading the database `path` as callers of the store see it. */
export function openErrorOf(path: string, error: unknown): LockdError {
  if (error instanceof LockdError) return error;
  const code = error instanceof SQLiteError ? (error.code ?? "") : "";
  // SQLITE_ERROR comes of our own constant statements only if the schema in the file is not ours any more.
  if (code.startsWith("SQLITE_CORRUPT") || code === "SQLITE_NOTADB" || code === "SQLITE_ERROR") {
    const found = code === "SQLITE_NOTADB" ? "it is not a database, or its first page is damaged" : describe(error);
    return new LockdError("corrupt", `open store ${path}: ${found}`, { hint: REPAIR_HINT, cause: error });
  }
  if (/^SQLITE_(CANTOPEN|READONLY|PERM|FULL|IOERR_SHM|AUTH)/.test(code)) {
    const found = isFull(error) ? "the disk is full" : describe(error);
    return new LockdError("config", `open store ${path}: ${found}`, {
      hint: "the data directory must be writable and have room; choose another with --data",
      cause: error,
    });
  }
  return error instanceof SQLiteError ? writeErrorOf(`open store ${path}`, error) : asLockdError(error);
}

export const REPAIR_HINT =
  "restore a backup into an empty directory with `lockd store restore`, or move the data directory away to start anew";

const describe = (error: unknown): string => {
  if (error instanceof SQLiteError) return `${error.message} (${error.code ?? error.errno})`;
  return error instanceof Error ? error.message : String(error);
};

/**
 * Looks at everything in a data directory without changing it. Owns the order of the checks; what each
 * of them means is in wal-scan.ts, tables.ts and SQLite.
 */
import type { Database } from "bun:sqlite";
import { existsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { LockdError } from "../errors.ts";
import { lockDirectory, type DirectoryLock } from "./directory-lock.ts";
import { scanWalFile, STORE_FILE } from "./directory.ts";
import { checkFormat, connectReadOnly, readDirectoryId } from "./schema.ts";
import { openErrorOf } from "./sqlite-errors.ts";
import { checkFoldedStreams, corrupt, readFoldedRecords, readJournalOperations } from "./tables.ts";

export interface StoreReport {
  path: string;
  directoryId: string;
  formatVersion: number;
  /** whether a server was using the directory meanwhile; its write-ahead log is then not looked at by itself */
  inUse: boolean;
  /** whether the log ends in an unfinished transaction, which the next start will cut */
  tailTorn: boolean;
  /** changes in the journal that are not in the tables yet */
  journalChanges: number;
  /** rows of the tables */
  records: number;
  streamRows: number;
  bytes: number;
}

/**
 * Checks the store in `directory` from end to end. Throws LockdError `corrupt` that names what is
 * altered, `notfound` when there is no store, `config` when it cannot be read.
 */
export function checkStore(directory: string): StoreReport {
  const path = join(resolve(directory), STORE_FILE);
  requireStore(path);
  const lock = lockToRead(directory);
  try {
    const tailTorn = lock !== null && scanWalFile(path).kind === "torn";
    return checkDatabase(path, { inUse: lock === null, tailTorn });
  } finally {
    lock?.release();
  }
}

/** Throws LockdError `notfound` when there is no database at `path`. */
export function requireStore(path: string): void {
  if (existsSync(path)) return;
  throw new LockdError("notfound", `open store ${path}: there is none`, { hint: "name the data directory of a server with --data" });
}

/** The lock of a directory, null while a server has it. Throws LockdError `config` when it cannot be asked for. */
export function lockToRead(directory: string): DirectoryLock | null {
  return lockDirectory(resolve(directory));
}

/** Checks the database `path` alone, whatever lies beside it. */
export function checkDatabase(path: string, state: { inUse: boolean; tailTorn: boolean }): StoreReport {
  let database: Database | null = null;
  try {
    database = connectReadOnly(path);
    database.run("BEGIN");
    const formatVersion = checkFormat(database, path);
    if (formatVersion === 0) throw corrupt(path, "it is empty");
    quickCheck(database, path);
    let journalChanges = 0;
    for (const _ of readJournalOperations(database, path)) journalChanges += 1;
    let records = 0;
    let streamRows = 0;
    for (const namespace of namespacesOf(database)) {
      for (const _ of readFoldedRecords(database, path, namespace)) records += 1;
      streamRows += checkFoldedStreams(database, path, namespace);
    }
    const directoryId = readDirectoryId(database, path);
    return { path, directoryId, formatVersion, ...state, journalChanges, records, streamRows, bytes: statSync(path).size };
  } catch (error) {
    throw openErrorOf(path, error);
  } finally {
    database?.close();
  }
}

/** SQLite's own check of the structure of the file. */
function quickCheck(database: Database, path: string): void {
  const findings = database.query<{ quick_check: string }, []>("PRAGMA quick_check(5)").all();
  const faults = findings.map((row) => row.quick_check).filter((text) => text !== "ok");
  if (faults.length > 0) throw corrupt(path, faults.join("; "));
}

/** Namespaces that have rows, and those that should have. */
function namespacesOf(database: Database): string[] {
  const rows = database
    .query<{ namespace: string }, []>(
      `SELECT namespace FROM record UNION SELECT namespace FROM stream
        UNION SELECT substr(key, 15) FROM meta WHERE key LIKE 'digest record %' OR key LIKE 'digest stream %'`,
    )
    .all();
  return rows.map((row) => row.namespace);
}

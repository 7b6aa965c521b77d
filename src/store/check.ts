/**
 * Looks at everything in a data directory without changing it. Owns the order of the checks; what each
 * of them means is in wal-scan.ts, tables.ts and SQLite.
 */
import type { Database } from "bun:sqlite";
import { accessSync, constants, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { LockdError } from "../errors.ts";
import { fileProblem, isMissing } from "../file-errors.ts";
import { lockDirectory, type DirectoryLock } from "./directory-lock.ts";
import { checkHeader, scanWalFile, STORE_FILE } from "./directory.ts";
import { checkFormat, connectReadOnly, readDirectoryId } from "./schema.ts";
import { openErrorOf } from "./sqlite-errors.ts";
import { corrupt, readFoldedRecords, readFoldedStream, readJournalOperations } from "./tables.ts";
import { namesInTotals } from "./totals.ts";

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
  /** what is in the tables */
  records: number;
  streamPieces: number;
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
    if (lock !== null) checkHeader(path);
    const tailTorn = lock !== null && scanWalFile(path).kind === "torn";
    return checkDatabase(path, { inUse: lock === null, tailTorn });
  } finally {
    lock?.release();
  }
}

/** Throws LockdError `notfound` when there is no database at `path`, `config` when that cannot be looked at. */
export function requireStore(path: string): void {
  try {
    accessSync(path, constants.R_OK);
    return;
  } catch (error) {
    if (!isMissing(error)) {
      throw new LockdError("config", `open store ${path}: ${fileProblem(error)}`, {
        hint: "run this as the user that the server runs as",
        cause: error,
      });
    }
  }
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
    const names = namesOf(database);
    let records = 0;
    for (const namespace of names.namespaces) {
      for (const _ of readFoldedRecords(database, path, namespace)) records += 1;
    }
    let streamPieces = 0;
    for (const { namespace, stream } of names.streams) {
      for (const _ of readFoldedStream(database, path, { namespace, stream, fromId: 0 })) streamPieces += 1;
    }
    const directoryId = readDirectoryId(database, path);
    return { path, directoryId, formatVersion, ...state, journalChanges, records, streamPieces, bytes: statSync(path).size };
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

/** Namespaces and streams that have rows, and those that should have. */
function namesOf(database: Database): ReturnType<typeof namesInTotals> {
  const { namespaces, streams } = namesInTotals(database);
  const recorded = database.query<{ namespace: string }, []>("SELECT DISTINCT namespace FROM record").all();
  const streamed = database.query<{ namespace: string; stream: string }, []>("SELECT DISTINCT namespace, name AS stream FROM stream").all();
  const unknown = streamed.filter((one) => !streams.some((other) => other.namespace === one.namespace && other.stream === one.stream));
  return { namespaces: [...new Set([...namespaces, ...recorded.map((row) => row.namespace)])], streams: [...streams, ...unknown] };
}

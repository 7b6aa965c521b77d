/**
 * Copies of a store: one consistent file out of a data directory, and a data directory out of such a
 * file. Knows nothing of what the records mean.
 */
import type { Database } from "bun:sqlite";
import { randomBytes } from "node:crypto";
import { closeSync, existsSync, linkSync, openSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { LockdError } from "../errors.ts";
import { fileProblem } from "../file-errors.ts";
import { checkDatabase, lockToRead, requireStore, type StoreReport } from "./check.ts";
import { makeDirectory, partialOf, removePartial, scanWalFile, STORE_FILE, syncDirectoryOf, syncFile } from "./directory.ts";
import { lockDirectoryOrThrow } from "./directory-lock.ts";
import { checkFormat, connect, connectReadOnly, writeMeta } from "./schema.ts";
import { openErrorOf } from "./sqlite-errors.ts";

/**
 * Writes the state of the store in `directory` as of now into `file`, which must not exist; a server may
 * be running. The copy is checked before it gets its name. Throws LockdError `corrupt`, `notfound`,
 * `precondition` (the file exists) or `config` (it cannot be written).
 */
export function backupStore(directory: string, file: string): StoreReport {
  const path = join(resolve(directory), STORE_FILE);
  const target = resolve(file);
  requireStore(path);
  if (existsSync(target)) throw fileExists(target);
  const lock = lockToRead(directory);
  const partial = `${target}.${randomBytes(6).toString("hex")}.partial`;
  try {
    if (lock !== null) scanWalFile(path);
    createPrivately(partial);
    copyDatabase(path, partial);
    const report = checkDatabase(partial, { inUse: lock === null, tailTorn: false });
    // A link, unlike a rename, does not replace a file that came into being meanwhile.
    nameFile(partial, target);
    return { ...report, path: target };
  } finally {
    rmSync(partial, { force: true });
    lock?.release();
  }
}

/**
 * Makes `directory`, which must be empty or missing, the data directory of the state in `file`. It gets a
 * new directory id: what it holds is older than what was promised since, and others must be able to tell.
 * Throws LockdError `corrupt` (the file), `notfound`, `precondition` (the directory is not empty) or `config`.
 */
export function restoreStore(file: string, directory: string): StoreReport {
  const source = resolve(file);
  const target = resolve(directory);
  const path = join(target, STORE_FILE);
  if (!existsSync(source)) throw new LockdError("notfound", `restore store: there is no file ${source}`);
  scanWalFile(source);
  checkDatabase(source, { inUse: false, tailTorn: false });
  makeDirectory(target);
  const lock = lockDirectoryOrThrow(target);
  try {
    requireEmpty(target);
    return { ...restoreInto(path, source), path };
  } finally {
    lock.release();
  }
}

/** The database gets its name last, so that a half restored directory is never taken for a store. */
function restoreInto(path: string, source: string): StoreReport {
  const partial = partialOf(path);
  try {
    removePartial(path);
    createPrivately(partial);
    copyDatabase(source, partial);
    mintIdentity(partial);
    const report = checkDatabase(partial, { inUse: false, tailTorn: false });
    syncFile(partial);
    renameSync(partial, path);
    syncDirectoryOf(path);
    return report;
  } catch (error) {
    throw openErrorOf(path, error);
  } finally {
    removePartial(path);
  }
}

function requireEmpty(directory: string): void {
  const found = readdirSync(directory).filter((name) => name !== "lock" && !name.startsWith(partialOf(STORE_FILE)));
  if (found.length === 0) return;
  throw new LockdError("precondition", `restore store: ${directory} is not empty (${found.slice(0, 3).join(", ")})`, {
    hint: "move the old directory away, or restore into a new one",
  });
}

/** A copy by SQLite: one read transaction, no free pages, no journal file beside it. */
function copyDatabase(path: string, target: string): void {
  let database: Database | null = null;
  try {
    database = connectReadOnly(path);
    checkFormat(database, path);
    database.query("VACUUM INTO ?").run(target);
  } catch (error) {
    throw openErrorOf(path, error);
  } finally {
    database?.close();
  }
  syncFile(target);
}

function mintIdentity(path: string): void {
  const database = connect(path);
  try {
    writeMeta(database, "directoryId", randomBytes(16).toString("hex"));
  } finally {
    database.close();
  }
}

/** An empty file that only its owner may read, before anything is in it. Throws LockdError `config`. */
function createPrivately(path: string): void {
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    throw new LockdError("config", `create ${path}: ${fileProblem(error)}`, {
      hint: "the directory must exist and be writable",
      cause: error,
    });
  }
}

function nameFile(partial: string, target: string): void {
  try {
    linkSync(partial, target);
  } catch (error) {
    if (existsSync(target)) throw fileExists(target);
    throw new LockdError("config", `create ${target}: ${fileProblem(error)}`, { cause: error });
  }
  syncDirectoryOf(target);
}

const fileExists = (path: string): LockdError =>
  new LockdError("precondition", `back up store: ${path} exists`, { hint: "name a file that does not exist yet" });

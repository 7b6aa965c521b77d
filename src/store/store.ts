/**
 * Opens a data directory and gives out its namespaces. Owns the order of start and stop; writing is
 * in the worker, reading in tables.ts, the format in schema.ts.
 */
import type { Database } from "bun:sqlite";
import { randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import { asLockdError, assert } from "../errors.ts";
import type { Logger } from "../observe/types.ts";
import { checkHeader, cutWalFile, makeDatabase, makeDirectory, requireOwnDirectory, scanWalFile, STORE_FILE } from "./directory.ts";
import { lockDirectoryOrThrow, type DirectoryLock } from "./directory-lock.ts";
import { connectReadOnly, fillDatabase, openDatabase } from "./schema.ts";
import { openErrorOf } from "./sqlite-errors.ts";
import { startWorker } from "./start-worker.ts";
import { readRecords, readStream, readStreamEnd } from "./tables.ts";
import type { Namespace, Store, StoreBatch, StoreStats, StreamAppend } from "./types.ts";
import { WriterClient } from "./writer-client.ts";

export interface StoreOptions {
  directory: string;
  /** name of the database in it; default `lockd.sqlite` */
  file?: string;
  logger?: Logger;
  /** a monotonic reading in milliseconds, for statistics; default that of the process */
  nowMs?: () => number;
  /** called when a group of batches is not durable after `slowAfterMs` (default 30 s); it is still waited for */
  onSlow?: (elapsedMs: number) => void;
  slowAfterMs?: number;
}

export interface OpenedStore extends Store {
  /** whether a crash had left an unfinished transaction at the end of the log, which was cut at this start */
  readonly tailCut: boolean;
  /** how long the commit under way has been waiting for the disk, in milliseconds; for health */
  waitingMs(): number;
}

/**
 * Opens the store in `directory`, which is created (0700) with a new directory id if it is missing, and keeps
 * it locked until `close` or the end of the process. Throws LockdError `config` (in use, not writable) or
 * `corrupt` (altered, foreign, of a newer format).
 *
 * A batch that was rejected is not durable, while its caller may already have applied it in memory. After
 * `overflow` a caller must send the same changes again before others, or forget what it applied; after
 * `failed` it must stop promising anything.
 */
export async function openStore(options: StoreOptions): Promise<OpenedStore> {
  const directory = resolve(options.directory);
  const path = join(directory, options.file ?? STORE_FILE);
  makeDirectory(directory);
  requireOwnDirectory(path);
  const lock = lockDirectoryOrThrow(directory);
  // The worker starts while the database is being looked at here; it is given the file only after that.
  const worker = startWorker("src/store/writer.worker.ts");
  let database: Database | null = null;
  try {
    const tailCut = prepareFiles(path, options.logger);
    const opened = openDatabase(path);
    database = opened.database;
    const nowMs = options.nowMs ?? (() => performance.now());
    const writer = new WriterClient({
      worker,
      nowMs,
      readStreamEnd: (namespace, stream) => reading(path, (reader) => readStreamEnd(reader, path, { namespace, stream })),
      slowAfterMs: options.slowAfterMs ?? 30_000,
      onSlow: (elapsedMs) => {
        options.logger?.warn("store slow", { path, elapsedMs: Math.round(elapsedMs) });
        options.onSlow?.(elapsedMs);
      },
    });
    await writer.open(path);
    return new SqliteStore({ path, directoryId: opened.directoryId, tailCut, writer, database, lock });
  } catch (error) {
    worker.terminate();
    database?.close();
    lock.release();
    throw asLockdError(error);
  }
}

/** Everything that must be right before SQLite opens the file. Answers whether the log's tail was cut. */
function prepareFiles(path: string, logger: Logger | undefined): boolean {
  const finding = scanWalFile(path);
  makeDatabase(path, (partial) => fillDatabase(partial, randomBytes(16).toString("hex")));
  checkHeader(path);
  if (finding.kind !== "torn") return false;
  cutWalFile(path, finding.endBytes);
  logger?.warn("store tail cut", { path, frames: finding.frames, endBytes: finding.endBytes });
  return true;
}

interface SqliteStoreParts {
  path: string;
  directoryId: string;
  tailCut: boolean;
  writer: WriterClient;
  database: Database;
  lock: DirectoryLock;
}

class SqliteStore implements OpenedStore {
  readonly path: string;
  readonly directoryId: string;
  readonly tailCut: boolean;
  readonly #parts: SqliteStoreParts;
  #closing: Promise<void> | null = null;

  constructor(parts: SqliteStoreParts) {
    this.path = parts.path;
    this.directoryId = parts.directoryId;
    this.tailCut = parts.tailCut;
    this.#parts = parts;
  }

  get failed(): Promise<Error> {
    return this.#parts.writer.failed;
  }

  namespace(name: string): Namespace {
    assert(/^[a-z0-9-]{1,64}$/.test(name), "names of namespaces are lower-case letters, digits and dashes");
    return new SqliteNamespace(name, this.path, this.#parts.writer);
  }

  stats(): StoreStats {
    return { ...this.#parts.writer.stats };
  }

  waitingMs(): number {
    return this.#parts.writer.waitingMs;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const { writer, database, lock } = this.#parts;
    await writer.close();
    // Closing the last connection writes the log back, which after a failed sync must not be tried:
    // then the connection stays open until the process ends.
    if (writer.failure === null) database.close();
    lock.release();
  }
}

class SqliteNamespace implements Namespace {
  readonly #name: string;
  readonly #path: string;
  readonly #writer: WriterClient;

  constructor(name: string, path: string, writer: WriterClient) {
    this.#name = name;
    this.#path = path;
    this.#writer = writer;
  }

  commit(batch: StoreBatch): Promise<void> {
    return this.#writer.commit(this.#name, batch);
  }

  records(): Iterable<[key: string, value: Uint8Array]> {
    return snapshot(this.#path, (database) => readRecords(database, this.#path, this.#name));
  }

  stream(name: string, fromId = 0): Iterable<StreamAppend> {
    return snapshot(this.#path, (database) => readStream(database, this.#path, { namespace: this.#name, stream: name, fromId }));
  }
}

/** What `read` yields, from a connection of its own and in one read transaction, so as of one moment. */
function* snapshot<T>(path: string, read: (database: Database) => Iterable<T>): Generator<T> {
  const database = connectReadOnly(path);
  try {
    database.run("BEGIN");
    yield* read(database);
  } catch (error) {
    throw openErrorOf(path, error);
  } finally {
    database.close();
  }
}

/** The same for a single answer. */
function reading<T>(path: string, read: (database: Database) => T): T {
  const [answer] = snapshot(path, (database) => [{ value: read(database) }]);
  assert(answer !== undefined, "reading gives an answer");
  return answer.value;
}

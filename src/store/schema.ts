/**
 * The format of the database file: its identity, its version, its tables and the steps from one
 * version to the next. Knows nothing of batches or of the writer.
 */
import { Database } from "bun:sqlite";
import { assert, LockdError } from "../errors.ts";
import { checksumOf } from "./checksum.ts";
import { openErrorOf, REPAIR_HINT } from "./sqlite-errors.ts";

/** "lokd" in ASCII, in the header of the file: tells our databases from those of other programs. */
const APPLICATION_ID = 0x6c6f6b64;

/** Another process (a backup) may hold the file for a moment. */
const BUSY_TIMEOUT_MS = 5_000;

/** Steps from each format version to the next; the first makes version 1. Never edited, only added to. */
const MIGRATIONS: readonly ((database: Database) => void)[] = [
  (database) => {
    database.run("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID");
    database.run("CREATE TABLE journal (seq INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL)");
    database.run(
      `CREATE TABLE record (namespace TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, checksum INTEGER NOT NULL,
        PRIMARY KEY (namespace, key)) WITHOUT ROWID`,
    );
    database.run(
      `CREATE TABLE stream (namespace TEXT NOT NULL, name TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        data BLOB NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (namespace, name, first)) WITHOUT ROWID`,
    );
    writeMeta(database, "folded", "0");
    writeMeta(database, "newest", "0");
  },
];

export const FORMAT_VERSION = MIGRATIONS.length;

/** Opens `path` for reading and writing with the settings that durability rests on. */
export function connect(path: string): Database {
  const database = new Database(path, { readwrite: true, create: false, strict: true });
  database.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  database.run("PRAGMA synchronous = FULL");
  database.run("PRAGMA wal_autocheckpoint = 0");
  // With cell_size_check SQLite looks for damaged cells when it reads a page, at no cost we could measure.
  database.run("PRAGMA cell_size_check = ON");
  return database;
}

/** Opens `path` for reading only; the file and its format must exist. */
export function connectReadOnly(path: string): Database {
  const database = new Database(path, { readonly: true, strict: true });
  database.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  database.run("PRAGMA cell_size_check = ON");
  return database;
}

/** Makes a store with this identity out of the empty file `path`. Throws LockdError `config` when it cannot be written. */
export function fillDatabase(path: string, directoryId: string): void {
  let database: Database | null = null;
  try {
    database = connect(path);
    migrate(database, 0, directoryId);
  } catch (error) {
    throw openErrorOf(path, error);
  } finally {
    database?.close();
  }
}

/**
 * Opens the database and brings an older format up to date, in one transaction. Throws LockdError
 * `corrupt` for what is empty, not ours, damaged or newer, `config` for what cannot be opened or written.
 */
export function openDatabase(path: string): { database: Database; directoryId: string } {
  let database: Database | null = null;
  try {
    database = connect(path);
    const version = checkFormat(database, path);
    if (version === 0) throw new LockdError("corrupt", `open store ${path}: there is nothing in it`, { hint: REPAIR_HINT });
    useWal(database, path);
    if (version < FORMAT_VERSION) migrate(database, version);
    return { database, directoryId: readDirectoryId(database, path) };
  } catch (error) {
    database?.close();
    throw openErrorOf(path, error);
  }
}

/** The format version of the database, 0 for an empty file. Throws LockdError `corrupt` if it is not ours or newer. */
export function checkFormat(database: Database, path: string): number {
  const applicationId = pragmaNumber(database, "application_id");
  const version = pragmaNumber(database, "user_version");
  const empty = database.query<{ count: number }, []>("SELECT count(*) AS count FROM sqlite_schema").get()?.count === 0;
  if (applicationId === 0 && version === 0 && empty) return 0;
  if (applicationId !== APPLICATION_ID) {
    throw new LockdError("corrupt", `open store ${path}: the file belongs to another program (application id ${applicationId})`, {
      hint: "choose another --data directory; lockd does not touch this file",
    });
  }
  if (version > FORMAT_VERSION) {
    throw new LockdError(
      "corrupt",
      `open store ${path}: its format version ${version} is newer than ${FORMAT_VERSION}, the newest that this lockd knows`,
      { hint: "run the newer lockd that wrote it, or restore a backup that this version wrote" },
    );
  }
  if (version < 1) {
    throw new LockdError("corrupt", `open store ${path}: its format version is ${version}`, { hint: REPAIR_HINT });
  }
  return version;
}

/** Kept in the file from then on; a restored one comes without it. */
function useWal(database: Database, path: string): void {
  const row = database.query<{ journal_mode: string }, []>("PRAGMA journal_mode = WAL").get();
  if (row?.journal_mode === "wal") return;
  throw new LockdError("config", `open store ${path}: the file system does not allow a write-ahead log`, {
    hint: "put the data directory on a local disk",
  });
}

function migrate(database: Database, version: number, directoryId?: string): void {
  database.transaction(() => {
    for (const step of MIGRATIONS.slice(version)) step(database);
    if (directoryId !== undefined) writeMeta(database, "directoryId", directoryId);
    database.run(`PRAGMA application_id = ${APPLICATION_ID}`);
    database.run(`PRAGMA user_version = ${FORMAT_VERSION}`);
  })();
}

/** The identity of the store. Throws LockdError `corrupt` when it has none. */
export function readDirectoryId(database: Database, path: string): string {
  const id = readMeta(database, path, "directoryId");
  if (id === null || !/^[0-9a-f]{32}$/.test(id)) {
    throw new LockdError("corrupt", `open store ${path}: it has no valid directory id`, { hint: REPAIR_HINT });
  }
  return id;
}

/** A value of the table of single values, null when there is none. Throws LockdError `corrupt` for an altered one. */
export function readMeta(database: Database, path: string, key: string): string | null {
  const row = database
    .query<{ value: string; checksum: number }, [string]>("SELECT value, checksum FROM meta WHERE key = ?")
    .get(key);
  if (row === null) return null;
  if (typeof row.value !== "string" || metaChecksum(key, row.value) !== row.checksum) {
    throw new LockdError("corrupt", `read store ${path}: value ${key} was altered`, { hint: REPAIR_HINT });
  }
  return row.value;
}

export function writeMeta(database: Database, key: string, value: string): void {
  database
    .query("INSERT INTO meta (key, value, checksum) VALUES (?1, ?2, ?3) ON CONFLICT (key) DO UPDATE SET value = ?2, checksum = ?3")
    .run(key, value, metaChecksum(key, value));
}

const metaChecksum = (key: string, value: string): number => checksumOf(`m\0${key}`, Buffer.from(value));

function pragmaNumber(database: Database, name: "application_id" | "user_version"): number {
  const row = database.query<Record<string, number>, []>(`PRAGMA ${name}`).get();
  const value = row?.[name];
  assert(typeof value === "number", `pragma ${name} answers a number`);
  return value;
}

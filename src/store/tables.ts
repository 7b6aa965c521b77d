/**
 * Reads what is durable, and checks it on the way: journal rows, records and streams as one picture.
 * Reading only; every function wants to run inside one read transaction of its connection.
 */
import type { Database } from "bun:sqlite";
import { LockdError } from "../errors.ts";
import { checksumOf, Digest, journalChecksum, recordPlace, streamPlace } from "./checksum.ts";
import { unpack, unpackPieces, type Operation, type Piece } from "./codec.ts";
import { readMeta } from "./schema.ts";
import { REPAIR_HINT } from "./sqlite-errors.ts";
import type { StreamAppend } from "./types.ts";

export const corrupt = (path: string, detail: string, cause?: unknown): LockdError =>
  new LockdError("corrupt", `read store ${path}: ${detail}`, { hint: REPAIR_HINT, cause });

/** Number of the last journal row whose changes are in the tables; the journal goes on with the next. */
export function readFolded(database: Database, path: string): number {
  const text = readMeta(database, path, "folded");
  if (text === null || !/^\d{1,15}$/.test(text)) throw corrupt(path, "value folded is missing or altered");
  return Number(text);
}

export interface JournalRow {
  seq: number;
  data: Uint8Array;
}

/** The journal's rows in order. Throws LockdError `corrupt` naming a row that is missing or was altered. */
export function* readJournal(database: Database, path: string): Generator<JournalRow> {
  let expected = readFolded(database, path) + 1;
  const query = database.query<{ seq: number; data: Uint8Array; checksum: number }, []>(
    "SELECT seq, data, checksum FROM journal ORDER BY seq",
  );
  for (const row of query.iterate()) {
    if (row.seq !== expected) throw corrupt(path, `journal row ${expected} is missing, found ${row.seq}`);
    if (!(row.data instanceof Uint8Array) || journalChecksum(row.seq, row.data) !== row.checksum) {
      throw corrupt(path, `journal row ${row.seq} was altered`);
    }
    yield { seq: row.seq, data: row.data };
    expected += 1;
  }
}

/** The operations of the journal in order; an unreadable row is `corrupt` and named. */
export function* readJournalOperations(database: Database, path: string): Generator<Operation> {
  for (const row of readJournal(database, path)) {
    try {
      yield* unpack(row.data);
    } catch (error) {
      throw corrupt(path, `journal row ${row.seq} cannot be read`, error);
    }
  }
}

export const digestKey = (table: "record" | "stream", namespace: string): string => `digest ${table} ${namespace}`;

/** The digest that the table's rows of a namespace must have. */
export function readDigest(database: Database, path: string, key: string): Digest {
  const text = readMeta(database, path, key);
  if (text === null) return new Digest();
  const digest = Digest.parse(text);
  if (digest === null) throw corrupt(path, `value ${key} cannot be read`);
  return digest;
}

/** All records of a namespace, in any order: the table's rows, overlaid by the journal. */
export function* readRecords(database: Database, path: string, namespace: string): Generator<[string, Uint8Array]> {
  const newer = new Map<string, Uint8Array | null>();
  for (const operation of readJournalOperations(database, path)) {
    if (operation.namespace !== namespace) continue;
    if (operation.kind === "set") newer.set(operation.key, operation.value);
    else if (operation.kind === "delete") newer.set(operation.key, null);
  }
  for (const [key, value] of readFoldedRecords(database, path, namespace)) {
    if (!newer.has(key)) yield [key, value];
  }
  for (const [key, value] of newer) {
    if (value !== null) yield [key, value];
  }
}

/** The records of a namespace that are in the table, each checked, and at the end all of them together. */
export function* readFoldedRecords(database: Database, path: string, namespace: string): Generator<[string, Uint8Array]> {
  const digest = new Digest();
  const query = database.query<{ key: string; value: Uint8Array; checksum: number }, [string]>(
    "SELECT key, value, checksum FROM record WHERE namespace = ?",
  );
  for (const { key, value, checksum } of query.iterate(namespace)) {
    if (!(value instanceof Uint8Array) || checksumOf(recordPlace(namespace, key), value) !== checksum) {
      throw corrupt(path, `record ${JSON.stringify(key)} of ${namespace} was altered`);
    }
    digest.add(checksum);
    yield [key, value];
  }
  requireDigest(database, path, digestKey("record", namespace), digest);
}

/** The pieces of a stream that may hold ids from `fromId` on, in order and without a gap. */
export function* readStream(
  database: Database,
  path: string,
  { namespace, stream, fromId }: { namespace: string; stream: string; fromId: number },
): Generator<StreamAppend> {
  const newer: Piece[] = [];
  let throughId = -1;
  for (const operation of readJournalOperations(database, path)) {
    if (operation.namespace !== namespace) continue;
    if (operation.kind === "append" && operation.stream === stream) newer.push(operation);
    else if (operation.kind === "trim" && operation.stream === stream) throughId = Math.max(throughId, operation.throughId);
  }
  let expected: number | null = null;
  for (const piece of chain(readFoldedStream(database, path, { namespace, stream, fromId }), newer)) {
    if (piece.lastId <= throughId || piece.lastId < fromId) continue;
    // A journal row of which only a part is folded yet holds what the table holds too.
    if (expected !== null && piece.lastId < expected) continue;
    if (expected !== null && piece.firstId !== expected) {
      throw corrupt(path, `stream ${stream} of ${namespace} goes on with ${piece.firstId} where ${expected} should be`);
    }
    expected = piece.lastId + 1;
    yield { stream, firstId: piece.firstId, lastId: piece.lastId, data: piece.data };
  }
}

/** The last id of a stream, null when it holds none. */
export function readStreamEnd(
  database: Database,
  path: string,
  { namespace, stream }: { namespace: string; stream: string },
): number | null {
  const row = database
    .query<{ last: number }, [string, string]>(
      "SELECT last FROM stream WHERE namespace = ?1 AND name = ?2 ORDER BY first DESC LIMIT 1",
    )
    .get(namespace, stream);
  let end = row?.last ?? null;
  for (const operation of readJournalOperations(database, path)) {
    const ours = operation.kind === "append" && operation.namespace === namespace && operation.stream === stream;
    if (ours) end = Math.max(end ?? 0, operation.lastId);
  }
  return end;
}

function* readFoldedStream(
  database: Database,
  path: string,
  { namespace, stream, fromId }: { namespace: string; stream: string; fromId: number },
): Generator<Piece> {
  const query = database.query<StreamRow, [string, string, number]>(
    `SELECT name, first, last, data, checksum FROM stream
      WHERE namespace = ?1 AND name = ?2
        AND first >= coalesce((SELECT max(first) FROM stream WHERE namespace = ?1 AND name = ?2 AND first <= ?3), 0)
      ORDER BY first`,
  );
  for (const row of query.iterate(namespace, stream, fromId)) yield* piecesOf(row, path, namespace);
}

interface StreamRow {
  name: string;
  first: number;
  last: number;
  data: Uint8Array;
  checksum: number;
}

/** The pieces in a row of the stream table. Throws LockdError `corrupt` when the row was altered. */
function piecesOf(row: StreamRow, path: string, namespace: string): Piece[] {
  const altered = `stream ${row.name} of ${namespace} was altered at ${row.first}`;
  if (!(row.data instanceof Uint8Array) || checksumOf(streamPlace(namespace, row.name, row.first), row.data) !== row.checksum) {
    throw corrupt(path, altered);
  }
  const pieces = [...unpackPieces(row.data)];
  if (pieces[0]?.firstId !== row.first || pieces.at(-1)?.lastId !== row.last) throw corrupt(path, altered);
  return pieces;
}

/** Checks every row of the stream table of a namespace, and all of them together. */
export function checkFoldedStreams(database: Database, path: string, namespace: string): number {
  const digest = new Digest();
  const query = database.query<StreamRow, [string]>(
    "SELECT name, first, last, data, checksum FROM stream WHERE namespace = ? ORDER BY name, first",
  );
  for (const row of query.iterate(namespace)) {
    piecesOf(row, path, namespace);
    digest.add(row.checksum);
  }
  requireDigest(database, path, digestKey("stream", namespace), digest);
  return digest.count;
}

function requireDigest(database: Database, path: string, key: string, found: Digest): void {
  const expected = readDigest(database, path, key);
  if (!expected.equals(found)) {
    throw corrupt(path, `${key} does not match: ${expected.count} rows should be there, ${found.count} are, or some were exchanged`);
  }
}

function* chain<T>(first: Iterable<T>, second: Iterable<T>): Generator<T> {
  yield* first;
  yield* second;
}

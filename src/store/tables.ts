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
import { readDigest, readRange } from "./totals.ts";
import type { StreamAppend } from "./types.ts";

export const corrupt = (path: string, detail: string, cause?: unknown): LockdError =>
  new LockdError("corrupt", `read store ${path}: ${detail}`, { hint: REPAIR_HINT, cause });

/** Number of the last journal row whose changes are in the tables; the journal goes on with the next. */
export const readFolded = (database: Database, path: string): number => readSeq(database, path, "folded");

function readSeq(database: Database, path: string, key: "folded" | "newest"): number {
  const text = readMeta(database, path, key);
  if (text === null || !/^\d{1,15}$/.test(text)) throw corrupt(path, `value ${key} is missing or altered`);
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
  const newest = readSeq(database, path, "newest");
  if (expected <= newest) throw corrupt(path, `journal row ${expected} is missing, and all up to ${newest}`);
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
  const expected = readDigest(database, path, namespace);
  if (expected.equals(digest)) return;
  throw corrupt(path, `${namespace} should have ${expected.count} records, ${digest.count} are there, or some were exchanged`);
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

/** The last id of a stream, null when it never had one. */
export function readStreamEnd(
  database: Database,
  path: string,
  { namespace, stream }: { namespace: string; stream: string },
): number | null {
  let end = readRange(database, path, namespace, stream)?.lastId ?? null;
  for (const operation of readJournalOperations(database, path)) {
    const ours = operation.kind === "append" && operation.namespace === namespace && operation.stream === stream;
    if (ours) end = Math.max(end ?? 0, operation.lastId);
  }
  return end;
}

/** The pieces of the table's rows from the one on that holds `fromId`; all rows that should be there are. */
export function* readFoldedStream(
  database: Database,
  path: string,
  { namespace, stream, fromId }: { namespace: string; stream: string; fromId: number },
): Generator<Piece> {
  const range = readRange(database, path, namespace, stream) ?? { firstId: 0, lastId: -1 };
  const query = database.query<StreamRow, [string, string, number]>(
    `SELECT first, last, data, checksum FROM stream
      WHERE namespace = ?1 AND name = ?2
        AND first >= coalesce((SELECT max(first) FROM stream WHERE namespace = ?1 AND name = ?2 AND first <= ?3), 0)
      ORDER BY first`,
  );
  // The first row may begin before the id that is asked for; each further one goes on where the last ended.
  let expected = Math.max(fromId, range.firstId);
  let followsRow = false;
  for (const row of query.iterate(namespace, stream, fromId)) {
    if (followsRow ? row.first !== expected : row.first > expected) throw broken(row.first);
    if (row.last > range.lastId) throw broken(row.first);
    yield* piecesOf(row, path, namespace, stream);
    expected = row.last + 1;
    followsRow = true;
  }
  if (expected <= range.lastId) throw broken(null);

  function broken(found: number | null): LockdError {
    const goesOn = found === null ? "ends" : `goes on with ${found}`;
    return corrupt(path, `stream ${stream} of ${namespace} should go on with ${expected}, up to ${range.lastId}, but ${goesOn}`);
  }
}

interface StreamRow {
  first: number;
  last: number;
  data: Uint8Array;
  checksum: number;
}

/** The pieces in a row of the stream table. Throws LockdError `corrupt` when the row was altered. */
function piecesOf(row: StreamRow, path: string, namespace: string, stream: string): Piece[] {
  const altered = `stream ${stream} of ${namespace} was altered at ${row.first}`;
  if (!(row.data instanceof Uint8Array) || checksumOf(streamPlace(namespace, stream, row.first), row.data) !== row.checksum) {
    throw corrupt(path, altered);
  }
  const pieces = [...unpackPieces(row.data)];
  if (pieces[0]?.firstId !== row.first || pieces.at(-1)?.lastId !== row.last) throw corrupt(path, altered);
  return pieces;
}

function* chain<T>(first: Iterable<T>, second: Iterable<T>): Generator<T> {
  yield* first;
  yield* second;
}

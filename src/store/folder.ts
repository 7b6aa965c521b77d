/**
 * Moves pending changes from the journal into the tables, a bounded slice at a time. Owns the rows of
 * the tables; the journal's own rows are written elsewhere.
 */
import type { Database } from "bun:sqlite";
import { assert } from "../errors.ts";
import { checksumOf, recordPlace, streamPlace } from "./checksum.ts";
import { packPieces, type Piece } from "./codec.ts";
import type { Pending, PendingChange } from "./pending.ts";
import { writeMeta } from "./schema.ts";
import { Totals } from "./totals.ts";

/** Bounds of one slice: what a waiting commit may be delayed by. */
export interface SliceBounds {
  changesMax: number;
  ms: number;
}

export const SLICE: SliceBounds = { changesMax: 500, ms: 2 };
export const SLICE_PRESSED: SliceBounds = { changesMax: 2_500, ms: 10 };

/** Pieces of a stream share a table row up to this size: one row an event would cost a page write each. */
const ROW_BYTES_MAX = 32_768;

export class Folder {
  readonly #database: Database;
  readonly #pending: Pending;
  readonly #totals: Totals;
  readonly #statements;

  constructor(database: Database, path: string, pending: Pending) {
    this.#database = database;
    this.#pending = pending;
    this.#totals = new Totals(database, path);
    this.#statements = prepare(database);
  }

  /**
   * Folds the oldest pending changes in one transaction, and deletes the journal rows that nothing needs
   * any more. `seqNewest` is the number of the newest journal row. Throws SQLite's error when the
   * transaction did not become durable; then nothing has changed, here or on disk.
   */
  fold(seqNewest: number, bounds: SliceBounds): void {
    const slice: PendingChange[] = [];
    const database = this.#database;
    database.run("BEGIN IMMEDIATE");
    try {
      this.#apply(slice, bounds);
      this.#totals.write();
      const folded = this.#foldedAfter(slice, seqNewest);
      this.#statements.deleteJournal.run(folded);
      writeMeta(database, "folded", String(folded));
      database.run("COMMIT");
    } catch (error) {
      this.#totals.discard();
      if (database.inTransaction) database.run("ROLLBACK");
      throw error;
    }
    this.#pending.remove(slice);
    this.#totals.accept();
  }

  #apply(slice: PendingChange[], bounds: SliceBounds): void {
    const deadlineMs = performance.now() + bounds.ms;
    const row = new StreamRow((namespace, stream, pieces) => this.#insertPieces(namespace, stream, pieces));
    for (const change of this.#pending.changes()) {
      if (slice.length >= bounds.changesMax || (slice.length % 16 === 15 && performance.now() > deadlineMs)) break;
      slice.push(change);
      const { operation } = change;
      if (operation.kind === "append") {
        row.add(operation.namespace, operation.stream, operation);
      } else if (operation.kind === "trim") {
        row.flush();
        this.#trim(operation.namespace, operation.stream, operation.throughId);
      } else {
        this.#setRecord(operation.namespace, operation.key, operation.kind === "set" ? operation.value : null);
      }
    }
    row.flush();
  }

  /** Rows of the journal up to the answer are not needed once `slice` is in the tables. */
  #foldedAfter(slice: readonly PendingChange[], seqNewest: number): number {
    let index = 0;
    for (const change of this.#pending.changes()) {
      if (index < slice.length) {
        assert(change === slice[index], "a slice is the head of what is pending");
        index += 1;
        continue;
      }
      return change.seq - 1;
    }
    return seqNewest;
  }

  #setRecord(namespace: string, key: string, value: Uint8Array | null): void {
    const before = this.#statements.selectRecord.get(namespace, key);
    if (value === null && before === null) return;
    const digest = this.#totals.digest(namespace);
    if (before !== null) digest.remove(before.checksum);
    if (value === null) {
      this.#statements.deleteRecord.run(namespace, key);
      return;
    }
    const checksum = checksumOf(recordPlace(namespace, key), value);
    digest.add(checksum);
    this.#statements.setRecord.run(namespace, key, value, checksum);
  }

  #insertPieces(namespace: string, stream: string, unfolded: readonly Piece[]): void {
    // After a restart, a journal row of which a part had been folded is pending again as a whole.
    const range = this.#totals.range(namespace, stream);
    const pieces = unfolded.filter((piece) => piece.lastId > (range?.lastId ?? -1));
    const firstId = pieces[0]?.firstId;
    const lastId = pieces.at(-1)?.lastId;
    if (firstId === undefined || lastId === undefined) return;
    const data = packPieces(pieces);
    const checksum = checksumOf(streamPlace(namespace, stream, firstId), data);
    this.#statements.insertStream.run(namespace, stream, firstId, lastId, data, checksum);
    // Where all was trimmed away, the stream may go on anywhere.
    const empty = range === null || range.firstId > range.lastId;
    this.#totals.setRange(namespace, stream, { firstId: empty ? firstId : range.firstId, lastId });
  }

  #trim(namespace: string, stream: string, throughId: number): void {
    const range = this.#totals.range(namespace, stream);
    if (range === null || this.#statements.trimStream.run(namespace, stream, throughId).changes === 0) return;
    const firstId = this.#statements.startOfStream.get(namespace, stream)?.first ?? range.lastId + 1;
    this.#totals.setRange(namespace, stream, { firstId, lastId: range.lastId });
  }
}

/** Collects neighbouring pieces of one stream until a table row of them is large enough. */
class StreamRow {
  readonly #insert: (namespace: string, stream: string, pieces: readonly Piece[]) => void;
  #namespace = "";
  #stream = "";
  #pieces: Piece[] = [];
  #bytes = 0;

  constructor(insert: (namespace: string, stream: string, pieces: readonly Piece[]) => void) {
    this.#insert = insert;
  }

  add(namespace: string, stream: string, piece: Piece): void {
    const sameStream = namespace === this.#namespace && stream === this.#stream;
    if (!sameStream || this.#bytes + piece.data.length > ROW_BYTES_MAX) this.flush();
    this.#namespace = namespace;
    this.#stream = stream;
    this.#pieces.push(piece);
    this.#bytes += piece.data.length;
  }

  flush(): void {
    if (this.#pieces.length === 0) return;
    this.#insert(this.#namespace, this.#stream, this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
  }
}

function prepare(database: Database) {
  return {
    selectRecord: database.query<{ checksum: number }, [string, string]>(
      "SELECT checksum FROM record WHERE namespace = ?1 AND key = ?2",
    ),
    setRecord: database.query<never, [string, string, Uint8Array, number]>(
      `INSERT INTO record (namespace, key, value, checksum) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (namespace, key) DO UPDATE SET value = ?3, checksum = ?4`,
    ),
    deleteRecord: database.query<never, [string, string]>("DELETE FROM record WHERE namespace = ?1 AND key = ?2"),
    insertStream: database.query<never, [string, string, number, number, Uint8Array, number]>(
      "INSERT INTO stream (namespace, name, first, last, data, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    ),
    startOfStream: database.query<{ first: number }, [string, string]>(
      "SELECT first FROM stream WHERE namespace = ?1 AND name = ?2 ORDER BY first LIMIT 1",
    ),
    trimStream: database.query<never, [string, string, number]>(
      "DELETE FROM stream WHERE namespace = ?1 AND name = ?2 AND last <= ?3",
    ),
    deleteJournal: database.query<never, [number]>("DELETE FROM journal WHERE seq <= ?1"),
  };
}

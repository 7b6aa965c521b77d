/**
 * Moves pending changes from the journal into the tables, a bounded slice at a time. Owns the digests
 * and the rows of the tables; the journal's own rows are written elsewhere.
 */
import type { Database } from "bun:sqlite";
import { assert } from "../errors.ts";
import { checksumOf, Digest, recordPlace, streamPlace } from "./checksum.ts";
import { packPieces, type Piece } from "./codec.ts";
import type { Pending, PendingChange } from "./pending.ts";
import { writeMeta } from "./schema.ts";
import { digestKey, readDigest } from "./tables.ts";

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
  readonly #path: string;
  readonly #pending: Pending;
  /** as of the last committed slice */
  readonly #digests = new Map<string, Digest>();
  readonly #statements;

  constructor(database: Database, path: string, pending: Pending) {
    this.#database = database;
    this.#path = path;
    this.#pending = pending;
    this.#statements = prepare(database);
  }

  /**
   * Folds the oldest pending changes in one transaction, and deletes the journal rows that nothing needs
   * any more. `seqNewest` is the number of the newest journal row. Throws SQLite's error when the
   * transaction did not become durable; then nothing has changed, here or on disk.
   */
  fold(seqNewest: number, bounds: SliceBounds): void {
    const slice: PendingChange[] = [];
    const digests = new Map<string, Digest>();
    const database = this.#database;
    database.run("BEGIN IMMEDIATE");
    try {
      this.#apply(slice, digests, bounds);
      for (const [key, digest] of digests) writeMeta(database, key, digest.toString());
      const folded = this.#foldedAfter(slice, seqNewest);
      this.#statements.deleteJournal.run(folded);
      writeMeta(database, "folded", String(folded));
      database.run("COMMIT");
    } catch (error) {
      if (database.inTransaction) database.run("ROLLBACK");
      throw error;
    }
    this.#pending.remove(slice);
    for (const [key, digest] of digests) this.#digests.set(key, digest);
  }

  #apply(slice: PendingChange[], digests: Map<string, Digest>, bounds: SliceBounds): void {
    const deadlineMs = performance.now() + bounds.ms;
    const row = new StreamRow((namespace, stream, pieces) => this.#insertPieces(namespace, stream, pieces, digests));
    for (const change of this.#pending.changes()) {
      if (slice.length >= bounds.changesMax || (slice.length % 16 === 15 && performance.now() > deadlineMs)) break;
      slice.push(change);
      const { operation } = change;
      if (operation.kind === "append") {
        row.add(operation.namespace, operation.stream, operation);
      } else if (operation.kind === "trim") {
        row.flush();
        this.#trim(operation.namespace, operation.stream, operation.throughId, digests);
      } else {
        this.#setRecord(operation.namespace, operation.key, operation.kind === "set" ? operation.value : null, digests);
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

  #setRecord(namespace: string, key: string, value: Uint8Array | null, digests: Map<string, Digest>): void {
    const before = this.#statements.selectRecord.get(namespace, key);
    if (value === null && before === null) return;
    const digest = this.#digest("record", namespace, digests);
    if (before !== null) digest.remove(before.checksum);
    if (value === null) {
      this.#statements.deleteRecord.run(namespace, key);
      return;
    }
    const checksum = checksumOf(recordPlace(namespace, key), value);
    digest.add(checksum);
    this.#statements.setRecord.run(namespace, key, value, checksum);
  }

  #insertPieces(namespace: string, stream: string, unfolded: readonly Piece[], digests: Map<string, Digest>): void {
    // After a restart, a journal row of which a part had been folded is pending again as a whole.
    const end = this.#statements.endOfStream.get(namespace, stream)?.last ?? -1;
    const pieces = unfolded.filter((piece) => piece.lastId > end);
    const first = pieces[0]?.firstId;
    const last = pieces.at(-1)?.lastId;
    if (first === undefined || last === undefined) return;
    const data = packPieces(pieces);
    const checksum = checksumOf(streamPlace(namespace, stream, first), data);
    this.#digest("stream", namespace, digests).add(checksum);
    this.#statements.insertStream.run(namespace, stream, first, last, data, checksum);
  }

  #trim(namespace: string, stream: string, throughId: number, digests: Map<string, Digest>): void {
    for (const { checksum } of this.#statements.trimStream.all(namespace, stream, throughId)) {
      this.#digest("stream", namespace, digests).remove(checksum);
    }
  }

  /** The digest as this slice changes it. */
  #digest(table: "record" | "stream", namespace: string, digests: Map<string, Digest>): Digest {
    const key = digestKey(table, namespace);
    const changed = digests.get(key);
    if (changed !== undefined) return changed;
    const before = this.#digests.get(key) ?? readDigest(this.#database, this.#path, key);
    const copy = new Digest(before.count, before.sum);
    digests.set(key, copy);
    return copy;
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
    endOfStream: database.query<{ last: number }, [string, string]>(
      "SELECT last FROM stream WHERE namespace = ?1 AND name = ?2 ORDER BY first DESC LIMIT 1",
    ),
    trimStream: database.query<{ checksum: number }, [string, string, number]>(
      "DELETE FROM stream WHERE namespace = ?1 AND name = ?2 AND last <= ?3 RETURNING checksum",
    ),
    deleteJournal: database.query<never, [number]>("DELETE FROM journal WHERE seq <= ?1"),
  };
}

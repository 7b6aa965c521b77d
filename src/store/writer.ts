/**
 * The writing side of the store, synchronous: groups of batches become journal rows, journal rows
 * become table rows, the log is checkpointed. Runs in the worker; knows no messages and no timers.
 */
import type { Database } from "bun:sqlite";
import { closeSync, fdatasyncSync, fstatSync, openSync, statfsSync, statSync, writeSync } from "node:fs";
import { assert } from "../errors.ts";
import { journalChecksum } from "./checksum.ts";
import { Folder, SLICE, SLICE_PRESSED } from "./folder.ts";
import { Pending } from "./pending.ts";
import { connect, writeMeta } from "./schema.ts";
import { isFull, openErrorOf, writeErrorOf } from "./sqlite-errors.ts";
import { corrupt, readFolded, readJournal } from "./tables.ts";

/**
 * Size that the write-ahead log is given at start and kept at. A sync of a file that grows writes the file
 * system's journal too: a single commit took 0.17 ms while the log grew and 0.10 ms once it was overwritten
 * in place (p50, ext4; to repeat, leave out the extension and time the first thousand commits).
 */
const WAL_BYTES = 4 * 1024 * 1024;

/**
 * Frames in the log at which it is checkpointed, so that it begins anew before it must grow. With 256
 * writers p99 of a commit was 2.3 ms at 400 frames, 3.1 ms at 800 and 6.8 ms at 1,600 (`bun
 * bench/store-commit.ts`, first row with 256 writers).
 */
const CHECKPOINT_FRAMES = 400;

/** Free space below which the log is not given its size in advance. */
const FREE_BYTES_MIN = 16 * WAL_BYTES;

/** One step of giving the log its size: what a commit may wait for. */
const EXTEND_BYTES = 512 * 1024;

/** `busy`: commits follow each other. `idle`: nobody waits, so what is merely useful is done too. `all`: whatever there is. */
export type Effort = "busy" | "idle" | "all";

/** Journal bytes from which on folding goes on, and at which it stops. A smaller journal makes a start faster. */
const FOLD_BOUNDS: Readonly<Record<Effort, { startBytes: number; stopBytes: number }>> = {
  busy: { startBytes: 2 * 1024 * 1024, stopBytes: 1024 * 1024 },
  idle: { startBytes: 256 * 1024, stopBytes: 0 },
  all: { startBytes: 1, stopBytes: 0 },
};

/** Journal bytes above which folding takes larger slices: commits must not outrun it for ever. */
const FOLD_PRESSED_BYTES = 8 * 1024 * 1024;

/** After a full disk, folding and checkpoints pause this long. */
const FULL_PAUSE_MS = 1_000;

export class Writer {
  readonly #path: string;
  readonly #database: Database;
  readonly #pending = new Pending();
  readonly #folder: Folder;
  readonly #insert;
  readonly #checkpoint;
  readonly #walState;
  #seq: number;
  /** sizes of the journal's rows, oldest first; their numbers end at #seq */
  #journalBytes = 0;
  readonly #rowBytes = new Map<number, number>();
  #seqFolded: number;
  #folding = false;
  #frames = 0;
  #framesAtCheckpoint = 0;
  #walExtended = false;
  #walBytes = 0;
  #pausedUntilMs = 0;

  /** Opens the database and reads the journal. Throws LockdError `corrupt` or `config`. */
  constructor(path: string) {
    this.#path = path;
    let database: Database | null = null;
    try {
      database = connect(path);
      database.run(`PRAGMA journal_size_limit = ${WAL_BYTES}`);
      this.#seqFolded = readFolded(database, path);
      this.#seq = this.#seqFolded;
      for (const row of readJournal(database, path)) this.#absorb(row.seq, row.data);
      this.#insert = database.query<never, [number, Uint8Array, number]>(
        "INSERT INTO journal (seq, data, checksum) VALUES (?1, ?2, ?3)",
      );
      this.#checkpoint = database.query<{ busy: number; log: number; checkpointed: number }, []>(
        "PRAGMA wal_checkpoint(PASSIVE)",
      );
      this.#walState = database.query<{ busy: number; log: number; checkpointed: number }, []>(
        "PRAGMA wal_checkpoint(NOOP)",
      );
      this.#folder = new Folder(database, path, this.#pending);
      this.#database = database;
    } catch (error) {
      database?.close();
      throw openErrorOf(path, error);
    }
  }

  /** Size of the log's file when it was last looked at. */
  get walBytes(): number {
    return this.#walBytes;
  }

  /**
   * Makes a packed group durable: one row, one transaction, one sync. Throws LockdError `overflow`
   * when the disk is full; the group is then surely not durable and the writer stays usable. Any
   * other error is final: the caller must not use the writer again.
   */
  commit(group: Uint8Array): void {
    const seq = this.#seq + 1;
    try {
      this.#insert.run(seq, group, journalChecksum(seq, group));
    } catch (error) {
      this.#rollBack();
      throw writeErrorOf(`write to store ${this.#path}`, error);
    }
    this.#seq = seq;
  }

  /** Takes note of the group that `commit` just made durable; apart, so that its answer need not wait. */
  committed(group: Uint8Array): void {
    this.#absorb(this.#seq, group);
    this.#countFrames();
  }

  /**
   * One bounded piece of the work that keeps journal and log small: a few milliseconds at most. Answers
   * whether more of it is due.
   * Throws LockdError `failed` for an error that ends the store; a full disk only pauses the work.
   */
  maintain(effort: Effort): boolean {
    if (performance.now() < this.#pausedUntilMs) return false;
    try {
      return this.#maintain(effort);
    } catch (error) {
      this.#rollBack();
      if (!isFull(error)) throw writeErrorOf(`maintain store ${this.#path}`, error);
      this.#pausedUntilMs = performance.now() + FULL_PAUSE_MS;
      return false;
    }
  }

  /** Writes the log back into the database and closes. A small rest of the journal stays for the next start. */
  close(): void {
    try {
      while (this.#journalBytes > FOLD_BOUNDS.busy.stopBytes) this.#foldSlice();
      this.#noteNewest();
      this.#database.run("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch (error) {
      this.#rollBack();
      // All of it is durable in journal and log; the next start reads it there.
      if (!isFull(error)) throw writeErrorOf(`close store ${this.#path}`, error);
    } finally {
      this.#database.close();
    }
  }

  #absorb(seq: number, group: Uint8Array): void {
    try {
      this.#pending.absorb(seq, group);
    } catch (error) {
      throw corrupt(this.#path, `journal row ${seq} cannot be read`, error);
    }
    this.#seq = seq;
    this.#rowBytes.set(seq, group.length);
    this.#journalBytes += group.length;
  }

  #maintain(effort: Effort): boolean {
    if (!this.#walExtended) {
      this.#extendWal();
      return true;
    }
    if (this.#frames - this.#framesAtCheckpoint >= CHECKPOINT_FRAMES) {
      this.#checkpointLog();
      return this.#foldDue(effort);
    }
    if (!this.#foldDue(effort)) return false;
    this.#foldSlice();
    return this.#foldDue(effort) || this.#frames - this.#framesAtCheckpoint >= CHECKPOINT_FRAMES;
  }

  #foldDue(effort: Effort): boolean {
    const { startBytes, stopBytes } = FOLD_BOUNDS[effort];
    if (this.#journalBytes >= startBytes) this.#folding = true;
    if (this.#journalBytes <= stopBytes) this.#folding = false;
    return this.#folding;
  }

  #foldSlice(): void {
    this.#folder.fold(this.#seq, this.#journalBytes > FOLD_PRESSED_BYTES ? SLICE_PRESSED : SLICE);
    const seqFolded = (this.#pending.seqOldest ?? this.#seq + 1) - 1;
    for (let seq = this.#seqFolded + 1; seq <= seqFolded; seq++) {
      this.#journalBytes -= this.#rowBytes.get(seq) ?? 0;
      this.#rowBytes.delete(seq);
    }
    assert(seqFolded >= this.#seqFolded, "folding goes forward");
    this.#seqFolded = seqFolded;
    this.#countFrames();
  }

  #countFrames(): void {
    this.#frames = this.#walState.get()?.log ?? 0;
    this.#walBytes = statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
    // Fewer than at the last checkpoint: the log began anew.
    if (this.#frames < this.#framesAtCheckpoint) this.#framesAtCheckpoint = 0;
  }

  /**
   * Before journal rows leave the log, whose frames have checksums, for pages that have none: from then on a
   * reader knows up to where they must be there.
   */
  #noteNewest(): void {
    writeMeta(this.#database, "newest", String(this.#seq));
  }

  #checkpointLog(): void {
    this.#noteNewest();
    const state = this.#checkpoint.get();
    assert(state !== null, "a checkpoint answers a row");
    // A reader (a backup) may keep the log from beginning anew: then it is tried again that many frames later.
    this.#framesAtCheckpoint = state.log;
    this.#frames = state.log;
  }

  /**
   * Gives the log its size in advance, with zeros behind its end, where SQLite does not look. Left out
   * when the disk is short of room: the log then grows as it must.
   */
  #extendWal(): void {
    const { bavail, bsize } = statfsSync(this.#path);
    if (bavail * bsize < FREE_BYTES_MIN) {
      this.#walExtended = true;
      return;
    }
    const descriptor = openSync(`${this.#path}-wal`, "r+");
    try {
      const sizeBytes = fstatSync(descriptor).size;
      const moreBytes = Math.min(EXTEND_BYTES, WAL_BYTES - sizeBytes);
      this.#walExtended = moreBytes <= 0;
      if (moreBytes <= 0) return;
      writeSync(descriptor, new Uint8Array(moreBytes), 0, moreBytes, sizeBytes);
      fdatasyncSync(descriptor);
    } catch (error) {
      // A quota may be used up although the file system has room.
      if (!isOutOfSpace(error)) throw error;
      this.#walExtended = true;
    } finally {
      closeSync(descriptor);
    }
  }

  #rollBack(): void {
    if (this.#database.inTransaction) this.#database.run("ROLLBACK");
  }
}

const isOutOfSpace = (error: unknown): boolean =>
  error instanceof Error && "code" in error && (error.code === "ENOSPC" || error.code === "EDQUOT");

/**
 * What plugins may ask of durable storage: named records and append-only streams, written in atomic
 * batches. Knows nothing of SQLite; store.ts implements it with a writer in a Worker.
 */

/** One record that a batch sets, or deletes when `value` is null. Keys are unique in a namespace. */
export interface RecordChange {
  key: string;
  value: Uint8Array | null;
}

/** Entries `firstId..lastId` of a stream, encoded together. Ids rise without a gap in one stream. */
export interface StreamAppend {
  stream: string;
  firstId: number;
  lastId: number;
  data: Uint8Array;
}

/** All of a batch becomes durable, or nothing of it. Later changes of one key win. */
export interface StoreBatch {
  changes: readonly RecordChange[];
  appends?: readonly StreamAppend[];
  /** drops stream entries with ids up to this one; whole chunks only, so a little more may stay */
  trims?: readonly { stream: string; throughId: number }[];
}

/** A plugin's own part of the store. */
export interface Namespace {
  /** All records as of the last durable batch; meant for start-up, before the first commit. */
  records(): Iterable<[key: string, value: Uint8Array]>;
  /** The chunks of a stream in order, those that may hold ids from `fromId` on. */
  stream(name: string, fromId?: number): Iterable<StreamAppend>;
  /**
   * Resolves when the batch is synced to disk. Batches become durable in the order of the calls;
   * those that arrive while one sync is under way share the next (group commit).
   * Rejects with LockdError `overflow`, retryable, when the disk is full or the queue too long: the
   * batch and all that waited behind it are surely not durable. Rejects with `failed` after any other
   * failure: then nobody knows whether the batch is durable, the whole store is closed and every later
   * call rejects (a failed fsync is never retried). Keys and names are well-formed text; a stream goes
   * on with the id after its last; what breaks that is a defect and rejects with AssertionError.
   */
  commit(batch: StoreBatch): Promise<void>;
}

export interface StoreStats {
  commits: number;
  batches: number;
  bytes: number;
  /** of the last commit, milliseconds from hand-over to the worker until durable */
  lastCommitMs: number;
  walBytes: number;
}

export interface Store {
  readonly path: string;
  /** random id minted with the data directory, 32 hex digits */
  readonly directoryId: string;
  namespace(name: string): Namespace;
  stats(): StoreStats;
  /** Resolves once, with the reason, when the store can no longer make anything durable. */
  readonly failed: Promise<Error>;
  /** Waits for the batches under way, checkpoints, closes; later commits reject. */
  close(): Promise<void>;
}

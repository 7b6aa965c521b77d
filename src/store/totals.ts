/**
 * What the tables as a whole must hold: a digest of the records of each namespace, and the first and last id
 * of each stream. A checksum in a row cannot notice that the row vanished; these do.
 */
import type { Database } from "bun:sqlite";
import { LockdError } from "../errors.ts";
import { Digest } from "./checksum.ts";
import { readMeta, writeMeta } from "./schema.ts";
import { REPAIR_HINT } from "./sqlite-errors.ts";

/** Ids of a stream that are in the table. When all are trimmed, `firstId` is the one after `lastId`. */
export interface StreamRange {
  firstId: number;
  lastId: number;
}

const DIGEST_PREFIX = "records ";
const RANGE_PREFIX = "stream ";

const digestKey = (namespace: string): string => `${DIGEST_PREFIX}${namespace}`;
const rangeKey = (namespace: string, stream: string): string => `${RANGE_PREFIX}${namespace} ${stream}`;

/** The digest that the records of a namespace must have. */
export function readDigest(database: Database, path: string, namespace: string): Digest {
  const text = readMeta(database, path, digestKey(namespace));
  if (text === null) return new Digest();
  const digest = Digest.parse(text);
  if (digest === null) throw unreadable(path, digestKey(namespace));
  return digest;
}

/** The ids of a stream that must be in the table, null when there were never any. */
export function readRange(database: Database, path: string, namespace: string, stream: string): StreamRange | null {
  const key = rangeKey(namespace, stream);
  const text = readMeta(database, path, key);
  if (text === null) return null;
  const match = /^(\d{1,16}) (\d{1,16})$/.exec(text);
  if (match === null) throw unreadable(path, key);
  return { firstId: Number(match[1]), lastId: Number(match[2]) };
}

/** Namespaces and streams that the totals speak of. */
export function namesInTotals(database: Database): { namespaces: string[]; streams: { namespace: string; stream: string }[] } {
  const keys = database.query<{ key: string }, []>("SELECT key FROM meta").all().map((row) => row.key);
  const after = (prefix: string): string[] => keys.filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length));
  return {
    namespaces: after(DIGEST_PREFIX),
    streams: after(RANGE_PREFIX).map((name) => {
      const [namespace = "", ...stream] = name.split(" ");
      return { namespace, stream: stream.join(" ") };
    }),
  };
}

const unreadable = (path: string, key: string): LockdError =>
  new LockdError("corrupt", `read store ${path}: value ${key} cannot be read`, { hint: REPAIR_HINT });

/** The totals as one transaction changes them, over those that earlier ones left. */
export class Totals {
  readonly #database: Database;
  readonly #path: string;
  readonly #digests = new Map<string, Digest>();
  readonly #ranges = new Map<string, StreamRange | null>();
  readonly #digestsChanged = new Map<string, Digest>();
  readonly #rangesChanged = new Map<string, StreamRange>();

  constructor(database: Database, path: string) {
    this.#database = database;
    this.#path = path;
  }

  /** The digest of a namespace, to be changed in place. */
  digest(namespace: string): Digest {
    const changed = this.#digestsChanged.get(namespace);
    if (changed !== undefined) return changed;
    const before = this.#digests.get(namespace) ?? readDigest(this.#database, this.#path, namespace);
    const copy = new Digest(before.count, before.sum);
    this.#digestsChanged.set(namespace, copy);
    return copy;
  }

  range(namespace: string, stream: string): StreamRange | null {
    const key = rangeKey(namespace, stream);
    const changed = this.#rangesChanged.get(key);
    if (changed !== undefined) return changed;
    let range = this.#ranges.get(key);
    if (range === undefined) {
      range = readRange(this.#database, this.#path, namespace, stream);
      this.#ranges.set(key, range);
    }
    return range;
  }

  setRange(namespace: string, stream: string, range: StreamRange): void {
    this.#rangesChanged.set(rangeKey(namespace, stream), range);
  }

  /** Writes what changed, as part of the transaction that changed it. */
  write(): void {
    for (const [namespace, digest] of this.#digestsChanged) writeMeta(this.#database, digestKey(namespace), digest.toString());
    for (const [key, { firstId, lastId }] of this.#rangesChanged) writeMeta(this.#database, key, `${firstId} ${lastId}`);
  }

  /** The transaction is durable. */
  accept(): void {
    for (const [namespace, digest] of this.#digestsChanged) this.#digests.set(namespace, digest);
    for (const [key, range] of this.#rangesChanged) this.#ranges.set(key, range);
    this.discard();
  }

  /** The transaction was rolled back. */
  discard(): void {
    this.#digestsChanged.clear();
    this.#rangesChanged.clear();
  }
}

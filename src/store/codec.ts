/**
 * The packed form of batches: what travels to the writer and what a journal row holds. Pure; knows
 * neither SQLite nor Workers. A change of this encoding is a new format version of the store.
 *
 * A group is a run of operations: kind (one byte), then its fields. Numbers are LEB128, texts and
 * bytes are length and content. NAMESPACE sets the namespace of the operations that follow it.
 */
import { assert, LockdError } from "../errors.ts";
import type { StoreBatch } from "./types.ts";

const NAMESPACE = 1;
const SET = 2;
const DELETE = 3;
const APPEND = 4;
const TRIM = 5;

/** One unpacked operation. Byte fields are views into the packed group. */
export type Operation =
  | { kind: "set"; namespace: string; key: string; value: Uint8Array }
  | { kind: "delete"; namespace: string; key: string }
  | { kind: "append"; namespace: string; stream: string; firstId: number; lastId: number; data: Uint8Array }
  | { kind: "trim"; namespace: string; stream: string; throughId: number };

/** A growing byte buffer with the primitive encodings. */
export class ByteWriter {
  #bytes: Uint8Array<ArrayBuffer>;
  #length = 0;
  readonly #encoder = new TextEncoder();

  constructor(capacityBytes = 4096) {
    this.#bytes = new Uint8Array(capacityBytes);
  }

  get length(): number {
    return this.#length;
  }

  /** Forgets what was written after the first `lengthBytes`. */
  truncate(lengthBytes: number): void {
    assert(lengthBytes <= this.#length, "a writer is truncated to less than it holds");
    this.#length = lengthBytes;
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value;
  }

  number(value: number): void {
    assert(Number.isSafeInteger(value) && value >= 0, "packed numbers are whole and not negative");
    this.#reserve(8);
    let rest = value;
    while (rest >= 128) {
      this.#bytes[this.#length++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#length++] = rest;
  }

  bytes(value: Uint8Array): void {
    this.number(value.length);
    this.#reserve(value.length);
    this.#bytes.set(value, this.#length);
    this.#length += value.length;
  }

  text(value: string): void {
    // Short texts of ASCII are the rule (keys), and a loop beats the encoder for them.
    if (value.length < 64) {
      this.#reserve(65);
      const start = this.#length + 1;
      let index = 0;
      for (; index < value.length; index++) {
        const unit = value.charCodeAt(index);
        if (unit >= 128) break;
        this.#bytes[start + index] = unit;
      }
      if (index === value.length) {
        this.#bytes[this.#length] = index;
        this.#length = start + index;
        return;
      }
    }
    this.bytes(this.#encoder.encode(value));
  }

  /** A copy of what was written, of exactly that size; the writer is empty afterwards. */
  take(): Uint8Array<ArrayBuffer> {
    const copy = this.#bytes.slice(0, this.#length);
    this.#length = 0;
    return copy;
  }

  #reserve(moreBytes: number): void {
    const neededBytes = this.#length + moreBytes;
    if (neededBytes <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(neededBytes, this.#bytes.length * 2));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
  }
}

/** Reads the primitive encodings back. Throws LockdError `corrupt` at anything that is not one. */
export class ByteReader {
  readonly #bytes: Uint8Array;
  #offset = 0;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get done(): boolean {
    return this.#offset === this.#bytes.length;
  }

  byte(): number {
    const value = this.#bytes[this.#offset];
    if (value === undefined) throw malformed("it ends early");
    this.#offset += 1;
    return value;
  }

  number(): number {
    let value = 0;
    let scale = 1;
    for (let count = 0; count < 8; count++) {
      const byte = this.byte();
      value += (byte & 127) * scale;
      if (byte < 128) {
        if (!Number.isSafeInteger(value)) break;
        return value;
      }
      scale *= 128;
    }
    throw malformed("a number is too large");
  }

  bytes(): Uint8Array {
    const length = this.number();
    if (length > this.#bytes.length - this.#offset) throw malformed("it ends early");
    const value = this.#bytes.subarray(this.#offset, this.#offset + length);
    this.#offset += length;
    return value;
  }

  text(): string {
    try {
      return this.#decoder.decode(this.bytes());
    } catch (error) {
      if (error instanceof LockdError) throw error;
      throw malformed("a text is not UTF-8");
    }
  }
}

const malformed = (detail: string): LockdError => new LockdError("corrupt", `read packed changes: ${detail}`);

/** Collects batches into one group. */
export class GroupPacker {
  readonly #writer = new ByteWriter(65_536);
  #namespace: string | null = null;

  get bytes(): number {
    return this.#writer.length;
  }

  /**
   * Adds a batch, in the order of its changes, appends and trims. A batch that is not well formed
   * asserts and leaves the group as it was.
   */
  add(namespace: string, batch: StoreBatch): void {
    const startBytes = this.#writer.length;
    const namespaceBefore = this.#namespace;
    try {
      this.#pack(namespace, batch);
    } catch (error) {
      this.#writer.truncate(startBytes);
      this.#namespace = namespaceBefore;
      throw error;
    }
  }

  /** The packed group; the packer begins the next one. */
  take(): Uint8Array<ArrayBuffer> {
    this.#namespace = null;
    return this.#writer.take();
  }

  #pack(namespace: string, batch: StoreBatch): void {
    const writer = this.#writer;
    if (this.#namespace !== namespace) {
      writer.byte(NAMESPACE);
      writer.text(namespace);
      this.#namespace = namespace;
    }
    for (const change of batch.changes) {
      assert(change.key.isWellFormed(), "record keys are well-formed text");
      writer.byte(change.value === null ? DELETE : SET);
      writer.text(change.key);
      if (change.value !== null) writer.bytes(change.value);
    }
    for (const append of batch.appends ?? []) {
      assert(append.stream.isWellFormed(), "names of streams are well-formed text");
      assert(append.firstId <= append.lastId, "the ids of an append rise");
      writer.byte(APPEND);
      writer.text(append.stream);
      writer.number(append.firstId);
      writer.number(append.lastId - append.firstId);
      writer.bytes(append.data);
    }
    for (const trim of batch.trims ?? []) {
      assert(trim.stream.isWellFormed(), "names of streams are well-formed text");
      // "All but the last thousand" of a short stream drops nothing.
      if (trim.throughId < 0) continue;
      writer.byte(TRIM);
      writer.text(trim.stream);
      writer.number(trim.throughId);
    }
  }
}

/** The operations of a packed group in order. Throws LockdError `corrupt` where it cannot be read. */
export function* unpack(group: Uint8Array): Generator<Operation> {
  const reader = new ByteReader(group);
  let namespace: string | null = null;
  while (!reader.done) {
    const kind = reader.byte();
    if (kind === NAMESPACE) {
      namespace = reader.text();
      continue;
    }
    if (namespace === null) throw malformed("an operation stands before its namespace");
    switch (kind) {
      case SET:
        yield { kind: "set", namespace, key: reader.text(), value: reader.bytes() };
        break;
      case DELETE:
        yield { kind: "delete", namespace, key: reader.text() };
        break;
      case APPEND: {
        const stream = reader.text();
        const firstId = reader.number();
        const lastId = firstId + reader.number();
        yield { kind: "append", namespace, stream, firstId, lastId, data: reader.bytes() };
        break;
      }
      case TRIM:
        yield { kind: "trim", namespace, stream: reader.text(), throughId: reader.number() };
        break;
      default:
        throw malformed(`operation ${kind} is unknown`);
    }
  }
}

/** One appended piece of a stream, as it was handed in. */
export interface Piece {
  firstId: number;
  lastId: number;
  data: Uint8Array;
}

/** Several pieces of a stream as the one value of a table row. */
export function packPieces(pieces: readonly Piece[]): Uint8Array {
  const writer = new ByteWriter(pieces.reduce((sum, piece) => sum + piece.data.length + 24, 0));
  for (const piece of pieces) {
    writer.number(piece.firstId);
    writer.number(piece.lastId - piece.firstId);
    writer.bytes(piece.data);
  }
  return writer.take();
}

export function* unpackPieces(packed: Uint8Array): Generator<Piece> {
  const reader = new ByteReader(packed);
  while (!reader.done) {
    const firstId = reader.number();
    const lastId = firstId + reader.number();
    yield { firstId, lastId, data: reader.bytes() };
  }
}

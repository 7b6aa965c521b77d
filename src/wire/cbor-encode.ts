/**
 * Plain values to CBOR (RFC 8949) with the shortest form of every length and integer, into a buffer
 * that grows. Knows no frame and no message.
 */
import { assert, LockdError } from "../errors.ts";

/** Below this a loop over the characters beats the call into native code. */
const ASCII_LOOP_MAX = 32;
const DEPTH_MAX = 32;

/**
 * A growing buffer of encoded items. Numbers that are safe integers are written as integers, others
 * as 64-bit floats; object fields that are undefined are left out. What the wire cannot carry (NaN,
 * infinities, integers beyond 2^53 - 1, bigint, functions, class instances) is a defect of the caller
 * and asserts; text with half a surrogate pair is LockdError `invalid`, because it comes from users.
 */
export class CborWriter {
  #buffer: Buffer;
  #length = 0;

  constructor(capacity: number) {
    this.#buffer = Buffer.allocUnsafeSlow(capacity);
  }

  /** bytes written so far */
  get length(): number {
    return this.#length;
  }

  /** Forgets what was written after `length`. */
  truncate(length: number): void {
    assert(length <= this.#length, "truncate shortens");
    this.#length = length;
  }

  /** What was written. The caller owns it; this writer must not be used again. */
  finish(): Uint8Array {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Leaves room for a 32-bit number to be set later; returns its place. */
  reserveUint32(): number {
    this.#room(4);
    const place = this.#length;
    this.#length += 4;
    return place;
  }

  setUint32(place: number, value: number): void {
    this.#buffer.writeUInt32BE(value, place);
  }

  /** Header of an array whose `count` items are written next. */
  arrayHeader(count: number): void {
    this.#header(4, count);
  }

  value(value: unknown, depth = 0): void {
    switch (typeof value) {
      case "string":
        return this.text(value);
      case "number":
        return this.number(value);
      case "boolean":
        return this.#single(value ? 0xf5 : 0xf4);
      case "object":
        if (value === null) return this.#single(0xf6);
        assert(depth < DEPTH_MAX, `encoded values nest at most ${DEPTH_MAX} deep`);
        if (value instanceof Uint8Array) return this.#bytes(value);
        if (Array.isArray(value)) return this.#array(value, depth + 1);
        return this.#map(value, depth + 1);
      default:
        return assert(false, `a ${typeof value} cannot be encoded`);
    }
  }

  number(value: number): void {
    if (Number.isSafeInteger(value)) {
      if (value >= 0) this.#header(0, value);
      else this.#header(1, -1 - value);
      return;
    }
    assert(Number.isFinite(value) && !Number.isInteger(value), `the number ${value} cannot be encoded`);
    this.#room(9);
    this.#buffer[this.#length] = 0xfb;
    this.#buffer.writeDoubleBE(value, this.#length + 1);
    this.#length += 9;
  }

  text(text: string): void {
    if (text.length <= ASCII_LOOP_MAX && this.#asciiText(text)) return;
    if (!text.isWellFormed()) throw new LockdError("invalid", "encode text: half a surrogate pair");
    const bytes = Buffer.byteLength(text, "utf8");
    this.#header(3, bytes);
    this.#room(bytes);
    this.#length += this.#buffer.write(text, this.#length, bytes, "utf8");
  }

  /** Writes short text in one go as long as it is ASCII; else leaves nothing behind. */
  #asciiText(text: string): boolean {
    const start = this.#length;
    this.#header(3, text.length);
    this.#room(text.length);
    const buffer = this.#buffer;
    let at = this.#length;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code > 0x7f) {
        this.#length = start;
        return false;
      }
      buffer[at++] = code;
    }
    this.#length = at;
    return true;
  }

  #bytes(bytes: Uint8Array): void {
    this.#header(2, bytes.length);
    this.#room(bytes.length);
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  #array(array: readonly unknown[], depth: number): void {
    this.#header(4, array.length);
    for (const item of array) this.value(item, depth);
  }

  #map(map: object, depth: number): void {
    const prototype: unknown = Object.getPrototypeOf(map);
    assert(prototype === Object.prototype || prototype === null, "only plain objects can be encoded");
    const fields = map as Readonly<Record<string, unknown>>;
    const keys = Object.keys(fields);
    let count = 0;
    for (const key of keys) if (fields[key] !== undefined) count++;
    this.#header(5, count);
    for (const key of keys) {
      const value = fields[key];
      if (value === undefined) continue;
      this.text(key);
      this.value(value, depth);
    }
  }

  #header(major: number, argument: number): void {
    this.#room(9);
    const buffer = this.#buffer;
    const at = this.#length;
    const initial = major << 5;
    if (argument < 24) {
      buffer[at] = initial | argument;
      this.#length = at + 1;
    } else if (argument < 0x100) {
      buffer[at] = initial | 24;
      buffer[at + 1] = argument;
      this.#length = at + 2;
    } else if (argument < 0x10000) {
      buffer[at] = initial | 25;
      buffer.writeUInt16BE(argument, at + 1);
      this.#length = at + 3;
    } else if (argument < 2 ** 32) {
      buffer[at] = initial | 26;
      buffer.writeUInt32BE(argument, at + 1);
      this.#length = at + 5;
    } else {
      buffer[at] = initial | 27;
      buffer.writeUInt32BE(Math.floor(argument / 2 ** 32), at + 1);
      buffer.writeUInt32BE(argument % 2 ** 32, at + 5);
      this.#length = at + 9;
    }
  }

  #single(byte: number): void {
    this.#room(1);
    this.#buffer[this.#length++] = byte;
  }

  #room(count: number): void {
    const needed = this.#length + count;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#buffer.length * 2));
    larger.set(this.#buffer.subarray(0, this.#length));
    this.#buffer = larger;
  }
}

/**
 * Strict CBOR (RFC 8949) to plain values, in one pass over bytes that nobody vouches for. Accepts the
 * subset that the wire protocol uses and nothing else. Knows no frame and no message.
 */
import { LockdError } from "../errors.ts";

export interface CborLimits {
  /** containers within containers */
  depthMax: number;
  /** values in one item, map keys not counted; bounds the memory that a small frame can ask for */
  itemsMax: number;
}

export const CBOR_LIMITS: CborLimits = { depthMax: 32, itemsMax: 1 << 20 };

const KEY_CACHE_SLOTS = 1024;
const KEY_BYTES_MAX_CACHED = 24;
const MAJOR_NAMES = ["integer", "integer", "byte string", "text", "array", "map", "tag", "simple value"];

/** Fatal: invalid UTF-8 throws. ignoreBOM: a leading U+FEFF belongs to the text. */
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

const malformed = (detail: string): LockdError => new LockdError("protocol", `decode message: ${detail}`);

/**
 * Decodes one item at a time. Maps become objects without a prototype, so that no key (`__proto__`,
 * `constructor`, …) means anything; byte strings are copies and outlive the source.
 * Refused, each as LockdError `protocol`: tags, indefinite lengths, integers beyond ±(2^53 - 1), keys
 * that are not text, a key twice in one map, invalid UTF-8, simple values but false, true and null,
 * too deep, too many items, truncated input, trailing bytes.
 */
export class CborDecoder {
  readonly #limits: CborLimits;
  /** keys seen before, by a hash of their bytes; a hit saves building the string */
  readonly #keys: (string | undefined)[] = new Array<string | undefined>(KEY_CACHE_SLOTS).fill(undefined);
  #source: Buffer = Buffer.alloc(0);
  #position = 0;
  #end = 0;
  #items = 0;

  constructor(limits: CborLimits = CBOR_LIMITS) {
    this.#limits = limits;
  }

  /** The item that fills `source` from `start` to `end` exactly. */
  decode(source: Buffer, start: number, end: number): unknown {
    this.#source = source;
    this.#position = start;
    this.#end = end;
    this.#items = 0;
    const value = this.#value(0);
    if (this.#position !== end) throw malformed("trailing bytes");
    return value;
  }

  #value(depth: number): unknown {
    if (this.#position >= this.#end) throw malformed("truncated");
    if (++this.#items > this.#limits.itemsMax) throw malformed(`more than ${this.#limits.itemsMax} items`);
    const initial = this.#byte(this.#position++);
    const major = initial >> 5;
    if (major === 7) return this.#simple(initial & 31);
    const argument = this.#argument(initial & 31, major);
    switch (major) {
      case 0:
        return argument;
      case 1:
        if (argument >= Number.MAX_SAFE_INTEGER) throw malformed("integer below -(2^53 - 1)");
        return -1 - argument;
      case 2:
        return this.#bytes(argument);
      case 3:
        return this.#text(argument);
      case 4:
        return this.#array(argument, depth + 1);
      case 5:
        return this.#map(argument, depth + 1);
      default:
        throw malformed("tags are not accepted");
    }
  }

  /** Bounds are checked by the callers; the fallback satisfies the type only. */
  #byte(position: number): number {
    return this.#source[position] ?? 0;
  }

  #need(count: number): void {
    if (count > this.#end - this.#position) throw malformed("truncated");
  }

  /** The length or value that follows an initial byte. */
  #argument(info: number, major: number): number {
    if (info < 24) return info;
    const at = this.#position;
    switch (info) {
      case 24:
        this.#need(1);
        this.#position = at + 1;
        return this.#byte(at);
      case 25:
        this.#need(2);
        this.#position = at + 2;
        return this.#source.readUInt16BE(at);
      case 26:
        this.#need(4);
        this.#position = at + 4;
        return this.#source.readUInt32BE(at);
      case 27: {
        this.#need(8);
        this.#position = at + 8;
        const high = this.#source.readUInt32BE(at);
        if (high > 0x1fffff) throw malformed(`${MAJOR_NAMES[major] ?? "item"} beyond 2^53 - 1`);
        return high * 2 ** 32 + this.#source.readUInt32BE(at + 4);
      }
      case 31:
        throw malformed(`${MAJOR_NAMES[major] ?? "item"} of indefinite length`);
      default:
        throw malformed("reserved initial byte");
    }
  }

  #simple(info: number): unknown {
    const at = this.#position;
    switch (info) {
      case 20:
        return false;
      case 21:
        return true;
      case 22:
        return null;
      case 25:
        this.#need(2);
        this.#position = at + 2;
        return halfFloat(this.#source.readUInt16BE(at));
      case 26:
        this.#need(4);
        this.#position = at + 4;
        return this.#source.readFloatBE(at);
      case 27:
        this.#need(8);
        this.#position = at + 8;
        return this.#source.readDoubleBE(at);
      default:
        throw malformed("simple value that is not false, true or null");
    }
  }

  #bytes(length: number): Uint8Array {
    this.#need(length);
    const copy = new Uint8Array(length);
    copy.set(this.#source.subarray(this.#position, this.#position + length));
    this.#position += length;
    return copy;
  }

  #text(length: number): string {
    this.#need(length);
    const source = this.#source;
    const start = this.#position;
    const end = start + length;
    this.#position = end;
    for (let at = start; at < end; at++) {
      if (this.#byte(at) > 0x7f) return decodeUtf8(source.subarray(start, end));
    }
    return source.toString("latin1", start, end);
  }

  #array(count: number, depth: number): unknown[] {
    this.#enter(count, depth);
    const array: unknown[] = [];
    for (let i = 0; i < count; i++) array.push(this.#value(depth));
    return array;
  }

  #map(count: number, depth: number): Record<string, unknown> {
    this.#enter(count * 2, depth);
    const map: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
    for (let i = 0; i < count; i++) {
      const key = this.#key();
      if (key in map) throw malformed("a key twice in one map");
      map[key] = this.#value(depth);
    }
    return map;
  }

  /** `minimum`: bytes that the container's items take at least. */
  #enter(minimum: number, depth: number): void {
    if (depth > this.#limits.depthMax) throw malformed(`nested deeper than ${this.#limits.depthMax}`);
    this.#need(minimum);
  }

  #key(): string {
    this.#need(1);
    const initial = this.#byte(this.#position++);
    if (initial >> 5 !== 3) throw malformed("a map key that is not text");
    const length = this.#argument(initial & 31, 3);
    if (length > KEY_BYTES_MAX_CACHED || length === 0) return this.#text(length);
    this.#need(length);
    const start = this.#position;
    let hash = length;
    for (let at = start; at < start + length; at++) hash = (Math.imul(hash, 31) + this.#byte(at)) | 0;
    const slot = (hash ^ (hash >>> 10)) & (KEY_CACHE_SLOTS - 1);
    const cached = this.#keys[slot];
    if (cached !== undefined && this.#matches(cached, start, length)) {
      this.#position = start + length;
      return cached;
    }
    const key = this.#text(length);
    // Only ASCII keys are cached: there, one byte is one UTF-16 unit and the comparison is exact.
    if (key.length === length) this.#keys[slot] = key;
    return key;
  }

  #matches(key: string, start: number, length: number): boolean {
    if (key.length !== length) return false;
    for (let i = 0; i < length; i++) {
      if (key.charCodeAt(i) !== this.#byte(start + i)) return false;
    }
    return true;
  }
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch (error) {
    throw new LockdError("protocol", "decode message: text that is not valid UTF-8", { cause: error });
  }
}

/** IEEE 754 binary16, as in RFC 8949 appendix D. */
function halfFloat(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const mantissa = bits & 0x3ff;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  if (exponent === 31) return mantissa === 0 ? sign * Infinity : NaN;
  return sign * (mantissa + 1024) * 2 ** (exponent - 25);
}

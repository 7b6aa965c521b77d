/**
 * Frames: a 4-byte big-endian length, then one CBOR array `[type, id, body]`. Bytes to frames and
 * back; runs in Bun and in Node. Knows no socket, no message and no handshake.
 */
import { assert, LockdError } from "../errors.ts";
import { CBOR_LIMITS, CborDecoder, type CborLimits } from "./cbor-decode.ts";
import { CborWriter } from "./cbor-encode.ts";
import type { Body, Frame } from "./types.ts";

/** Default limit of one frame's payload, both ways. */
export const FRAME_BYTES_MAX = 16 * 1024 * 1024;

const HEADER_BYTES = 4;
const PENDING_BYTES_MIN = 4096;
const TYPE_LENGTH_MAX = 32;
const TYPE_PATTERN = /^[A-Z][A-Z0-9]*$/;

/** A short upper-case text, the only form of a type that goes over the wire. */
export const isFrameType = (type: string): boolean => type.length <= TYPE_LENGTH_MAX && TYPE_PATTERN.test(type);

export interface FrameDecoderOptions {
  /** largest payload that is accepted, bytes */
  frameBytesMax: number;
  limits?: CborLimits;
}

const isBody = (value: unknown): value is Body =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);

/** Turns a stream of bytes, cut anywhere, into frames. Holds at most one unfinished frame. */
export class FrameDecoder {
  readonly #cbor: CborDecoder;
  /** types that passed the check before; grows only to the limit */
  readonly #types = new Set<string>();
  /** the unfinished frame with its header, `#pendingLength` bytes of it are filled */
  #pending: Buffer | null = null;
  #pendingLength = 0;
  #frameBytesMax: number;
  #failed = false;

  constructor(options: FrameDecoderOptions) {
    this.#frameBytesMax = options.frameBytesMax;
    this.#cbor = new CborDecoder(options.limits ?? CBOR_LIMITS);
  }

  /** Takes effect with the next frame, also from within `onFrame`: before the handshake less is accepted. */
  set frameBytesMax(bytes: number) {
    this.#frameBytesMax = bytes;
  }

  /** memory taken by a frame that is not complete yet */
  get pendingBytes(): number {
    return this.#pending?.length ?? 0;
  }

  /**
   * Feeds bytes; `onFrame` is called for each frame that they complete, before this returns. The chunk
   * may be reused afterwards. Throws LockdError `protocol` on a frame that is too large or malformed;
   * after that, or after a throw of `onFrame`, the decoder accepts nothing more.
   */
  push(chunk: Uint8Array, onFrame: (frame: Frame) => void): void {
    assert(!this.#failed, "a decoder that failed is not fed again");
    this.#failed = true;
    let offset = this.#pending === null ? 0 : this.#complete(chunk, onFrame);
    const source = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    while (source.length - offset >= HEADER_BYTES) {
      const end = offset + HEADER_BYTES + this.#payloadLength(source, offset);
      if (end > source.length) break;
      onFrame(this.#frame(source, offset + HEADER_BYTES, end));
      offset = end;
    }
    if (offset < source.length) this.#keep(source.subarray(offset));
    this.#failed = false;
  }

  #payloadLength(source: Buffer, offset: number): number {
    const length = source.readUInt32BE(offset);
    if (length > this.#frameBytesMax) {
      throw new LockdError("protocol", `decode frame: ${length} bytes, at most ${this.#frameBytesMax} are accepted`);
    }
    return length;
  }

  /** Continues the unfinished frame; returns how much of the chunk it took. */
  #complete(chunk: Uint8Array, onFrame: (frame: Frame) => void): number {
    let offset = 0;
    if (this.#pendingLength < HEADER_BYTES) {
      offset = Math.min(HEADER_BYTES - this.#pendingLength, chunk.length);
      this.#keep(chunk.subarray(0, offset));
      if (this.#pendingLength < HEADER_BYTES) return offset;
    }
    assert(this.#pending !== null, "an unfinished frame has a buffer");
    const end = HEADER_BYTES + this.#payloadLength(this.#pending, 0);
    const take = Math.min(end - this.#pendingLength, chunk.length - offset);
    this.#keep(chunk.subarray(offset, offset + take), end);
    if (this.#pendingLength < end) return offset + take;
    const whole = this.#pending;
    this.#pending = null;
    this.#pendingLength = 0;
    onFrame(this.#frame(whole, HEADER_BYTES, end));
    return offset + take;
  }

  /** Appends to the unfinished frame. The buffer grows with what arrives, not with what was announced. */
  #keep(bytes: Uint8Array, end = Number.POSITIVE_INFINITY): void {
    const needed = this.#pendingLength + bytes.length;
    if (this.#pending === null || this.#pending.length < needed) {
      const capacity = Math.max(needed, Math.min(end, Math.max(PENDING_BYTES_MIN, needed * 2)));
      const larger = Buffer.allocUnsafeSlow(capacity);
      if (this.#pending !== null) larger.set(this.#pending.subarray(0, this.#pendingLength));
      this.#pending = larger;
    }
    this.#pending.set(bytes, this.#pendingLength);
    this.#pendingLength = needed;
  }

  #frame(source: Buffer, start: number, end: number): Frame {
    const item = this.#cbor.decode(source, start, end);
    if (!Array.isArray(item) || item.length !== 3) throw new LockdError("protocol", "decode frame: not [type, id, body]");
    const [type, id, body]: unknown[] = item;
    if (typeof type !== "string" || !this.#isType(type)) {
      throw new LockdError("protocol", "decode frame: the type is not a short upper-case text");
    }
    if (typeof id !== "number" || !Number.isSafeInteger(id) || id < 0) {
      throw new LockdError("protocol", "decode frame: the id is not an unsigned integer");
    }
    if (!isBody(body)) throw new LockdError("protocol", "decode frame: the body is not a map");
    return { type, id, body };
  }

  #isType(type: string): boolean {
    if (this.#types.has(type)) return true;
    if (!isFrameType(type)) return false;
    if (this.#types.size < 256) this.#types.add(type);
    return true;
  }
}

const CAPACITY_MIN = 256;
const CAPACITY_MAX_KEPT = 64 * 1024;

/** Gathers frames that leave together. Holds no memory while it is empty. */
export class FrameEncoder {
  readonly #frameBytesMax: number;
  #writer: CborWriter | null = null;
  /** size of the last batch, the guess for the next */
  #capacity = CAPACITY_MIN;

  constructor(options: { frameBytesMax: number } = { frameBytesMax: FRAME_BYTES_MAX }) {
    this.#frameBytesMax = options.frameBytesMax;
  }

  /** bytes that `take` would return */
  get bytes(): number {
    return this.#writer?.length ?? 0;
  }

  /**
   * Appends one frame, or nothing when it throws: LockdError `overflow` when it is larger than the
   * other side accepts, `invalid` when a text cannot be carried exactly.
   */
  append(type: string, id: number, body: Body): void {
    const writer = (this.#writer ??= new CborWriter(this.#capacity));
    const start = writer.reserveUint32();
    try {
      writer.arrayHeader(3);
      writer.text(type);
      writer.number(id);
      writer.value(body);
      const length = writer.length - start - HEADER_BYTES;
      if (length > this.#frameBytesMax) {
        throw new LockdError("overflow", `encode ${type}: ${length} bytes, at most ${this.#frameBytesMax} fit a frame`, {
          retryable: false,
        });
      }
      writer.setUint32(start, length);
    } catch (error) {
      writer.truncate(start);
      throw error;
    }
  }

  /** All that was appended since the last call, null when nothing was. The caller owns it. */
  take(): Uint8Array | null {
    const writer = this.#writer;
    if (writer === null || writer.length === 0) return null;
    this.#writer = null;
    this.#capacity = Math.min(Math.max(writer.length, CAPACITY_MIN), CAPACITY_MAX_KEPT);
    return writer.finish();
  }
}

/** One frame alone, header included. Errors as FrameEncoder.append. */
export function encodeFrame(type: string, id: number, body: Body): Uint8Array {
  const encoder = new FrameEncoder();
  encoder.append(type, id, body);
  const bytes = encoder.take();
  assert(bytes !== null, "an appended frame has bytes");
  return bytes;
}

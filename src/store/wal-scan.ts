/**
 * Tells a torn tail of a SQLite write-ahead log from altered data, which SQLite itself does not: it
 * silently takes the log to end at the first bad frame. Pure: bytes in, finding out.
 *
 * The layout is that of "Database File Format" §4 (sqlite.org/fileformat2.html): a header of 32 bytes,
 * then frames of 24 bytes and a page. Each checksum continues the one before it, so a frame can be
 * verified from the checksum that its predecessor stores, also behind a bad frame.
 */

const HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const MAGIC_LITTLE_ENDIAN = 0x377f0682;
const MAGIC_BIG_ENDIAN = 0x377f0683;
const PAGE_BYTES_DEFAULT = 4096;

export type WalFinding =
  /** all that was written can be read; `endBytes` is where the last transaction ends */
  | { kind: "whole"; endBytes: number; frames: number }
  /** behind `endBytes` lies the rest of a transaction that was never completed */
  | { kind: "torn"; endBytes: number; frames: number }
  /** frames that were synced were altered: the first bad one, and complete transactions behind it */
  | { kind: "altered"; frame: number; offsetBytes: number; commitsBehind: number };

type Checksum = readonly [number, number];

/**
 * Judges the bytes of a write-ahead log. Every transaction is synced before the next one begins, so
 * at most one can be torn by a crash: two or more complete ones behind a bad frame were altered later.
 */
export function scanWal(bytes: Uint8Array): WalFinding {
  if (bytes.length < HEADER_BYTES) return { kind: "whole", endBytes: 0, frames: 0 };
  const log = new Log(bytes);
  // The header is synced before the first frame is written: with a bad one no frame may be readable.
  if (!log.headerValid) {
    // The byte order that the header names may be what was altered.
    const commitsBehind = Math.max(commitsWithoutHeader(log), commitsWithoutHeader(log.inOtherByteOrder()));
    if (commitsBehind > 0) return { kind: "altered", frame: 0, offsetBytes: 0, commitsBehind };
    return { kind: "whole", endBytes: 0, frames: 0 };
  }

  let chain = log.headerChecksum;
  let endBytes = HEADER_BYTES;
  let framesCommitted = 0;
  let frame = 0;
  for (; frame < log.frames; frame++) {
    if (!log.sameCycle(frame)) break;
    chain = log.chain(frame, chain);
    if (!equal(chain, log.storedChecksum(frame)) || log.pageNumber(frame) === 0) break;
    if (log.isCommit(frame)) {
      framesCommitted = frame + 1;
      endBytes = log.offset(frame + 1);
    }
  }
  const commitsBehind = countCommits(log, frame, chain);
  if (commitsBehind >= 2) return { kind: "altered", frame, offsetBytes: log.offset(frame), commitsBehind };
  // One more than there are whole frames: the file may end within one.
  for (let stray = framesCommitted; stray <= log.frames; stray++) {
    if (log.sameCycle(stray)) return { kind: "torn", endBytes, frames: framesCommitted };
  }
  return { kind: "whole", endBytes, frames: framesCommitted };
}

/** Transactions that verify although the header does not, which therefore were there when it was valid. */
function commitsWithoutHeader(log: Log): number {
  if (log.frames === 0) return 0;
  log.adoptCycleOfFirstFrame();
  const first = log.storedChecksum(0);
  const seeds = [log.headerChecksum, log.headerChecksumComputed];
  const firstValid = seeds.some((seed) => equal(log.chain(0, seed), first));
  return (firstValid && log.isCommit(0) ? 1 : 0) + countCommits(log, 0, first);
}

/**
 * Commit frames behind the bad frame that verify from the checksum that their predecessor stores. For the
 * next frame, that which it should store counts too: it may be all that was altered.
 */
function countCommits(log: Log, bad: number, chainOfBad: Checksum): number {
  let count = 0;
  for (let frame = bad + 1; frame < log.frames; frame++) {
    if (!log.sameCycle(frame) || !log.isCommit(frame) || log.pageNumber(frame) === 0) continue;
    const seeds = frame === bad + 1 ? [log.storedChecksum(bad), chainOfBad] : [log.storedChecksum(frame - 1)];
    if (seeds.some((seed) => equal(log.chain(frame, seed), log.storedChecksum(frame)))) count += 1;
  }
  return count;
}

const equal = (one: Checksum, other: Checksum): boolean => one[0] === other[0] && one[1] === other[1];

/** The fields of a log, read where they lie. */
class Log {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #littleEndian: boolean;
  readonly #pageBytes: number;
  #salt: Checksum;
  readonly frames: number;
  readonly headerValid: boolean;
  readonly headerChecksum: Checksum;
  readonly headerChecksumComputed: Checksum;

  constructor(bytes: Uint8Array, littleEndian?: boolean) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const magic = this.#view.getUint32(0);
    const pageBytes = this.#view.getUint32(8);
    const pageBytesValid = pageBytes >= 512 && pageBytes <= 65_536 && (pageBytes & (pageBytes - 1)) === 0;
    this.#littleEndian = littleEndian ?? magic !== MAGIC_BIG_ENDIAN;
    this.#pageBytes = pageBytesValid ? pageBytes : PAGE_BYTES_DEFAULT;
    this.#salt = [this.#view.getUint32(16), this.#view.getUint32(20)];
    this.frames = Math.floor((bytes.length - HEADER_BYTES) / (FRAME_HEADER_BYTES + this.#pageBytes));
    this.headerChecksum = [this.#view.getUint32(24), this.#view.getUint32(28)];
    this.headerChecksumComputed = this.#sum(0, 24, [0, 0]);
    this.headerValid =
      (magic === MAGIC_LITTLE_ENDIAN || magic === MAGIC_BIG_ENDIAN) &&
      pageBytesValid &&
      equal(this.headerChecksum, this.headerChecksumComputed);
  }

  inOtherByteOrder(): Log {
    return new Log(this.#bytes, !this.#littleEndian);
  }

  offset(frame: number): number {
    return HEADER_BYTES + frame * (FRAME_HEADER_BYTES + this.#pageBytes);
  }

  pageNumber(frame: number): number {
    return this.#view.getUint32(this.offset(frame));
  }

  isCommit(frame: number): boolean {
    return this.#view.getUint32(this.offset(frame) + 4) !== 0;
  }

  /** Whether the frame was written since the log last began anew. */
  sameCycle(frame: number): boolean {
    const at = this.offset(frame);
    if (at + 16 > this.#bytes.length) return false;
    return this.#view.getUint32(at + 8) === this.#salt[0] && this.#view.getUint32(at + 12) === this.#salt[1];
  }

  adoptCycleOfFirstFrame(): void {
    if (this.frames === 0) return;
    const at = this.offset(0);
    this.#salt = [this.#view.getUint32(at + 8), this.#view.getUint32(at + 12)];
  }

  storedChecksum(frame: number): Checksum {
    const at = this.offset(frame);
    return [this.#view.getUint32(at + 16), this.#view.getUint32(at + 20)];
  }

  /** The checksum of the frame when that of its predecessor is `seed`. */
  chain(frame: number, seed: Checksum): Checksum {
    const at = this.offset(frame);
    return this.#sum(at + FRAME_HEADER_BYTES, this.#pageBytes, this.#sum(at, 8, seed));
  }

  #sum(at: number, lengthBytes: number, seed: Checksum): Checksum {
    const view = this.#view;
    const littleEndian = this.#littleEndian;
    let first = seed[0] | 0;
    let second = seed[1] | 0;
    for (let offset = at; offset < at + lengthBytes; offset += 8) {
      first = (first + view.getInt32(offset, littleEndian) + second) | 0;
      second = (second + view.getInt32(offset + 4, littleEndian) + first) | 0;
    }
    return [first >>> 0, second >>> 0];
  }
}

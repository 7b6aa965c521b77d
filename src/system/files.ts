/**
 * Pipes, descriptors and waiting on them, in typed calls over libc: for programs that must wait
 * without an event loop. Knows no protocol that runs over them.
 */
import { ERRNO, check, errno, libc } from "./libc.ts";

const O_NONBLOCK = 0o4000;
const O_CLOEXEC = 0o2000000;
const F_SETFD = 2;
const F_GETFL = 3;
const F_SETFL = 4;
const FD_CLOEXEC = 1;
const POLLIN = 1;
const POLLERR = 8;
const POLLHUP = 16;

export interface Pipe {
  readEnd: number;
  writeEnd: number;
}

/** A pipe whose ends no other program inherits unless they are passed on by name. */
export function openPipe(): Pipe {
  const ends = new Int32Array(2);
  check("pipe2", () => libc.pipe2(ends, O_CLOEXEC));
  return { readEnd: ends[0] ?? -1, writeEnd: ends[1] ?? -1 };
}

export function closeDescriptor(descriptor: number): void {
  libc.close(descriptor);
}

/** The descriptor is closed when this process becomes another program. Bad descriptors are passed over. */
export function closeOnExec(descriptor: number): void {
  libc.fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

export function setNonBlocking(descriptor: number): void {
  const flags = check("fcntl", () => libc.fcntl(descriptor, F_GETFL, 0));
  check("fcntl", () => libc.fcntl(descriptor, F_SETFL, flags | O_NONBLOCK));
}

/** Reads up to the buffer's size, waiting for the first byte; 0 at the end of the stream. */
export function readSome(descriptor: number, into: Uint8Array): number {
  return check("read", () => Number(libc.read(descriptor, into, into.byteLength)));
}

/** Fills the buffer; false when the stream ends first. */
export function readFully(descriptor: number, into: Uint8Array): boolean {
  let filled = 0;
  while (filled < into.byteLength) {
    const count = readSome(descriptor, into.subarray(filled));
    if (count === 0) return false;
    filled += count;
  }
  return true;
}

/** Writes everything, waiting as long as it takes. Throws LockdError `failed` when the other end is gone. */
export function writeFully(descriptor: number, bytes: Uint8Array): void {
  let written = 0;
  while (written < bytes.byteLength) {
    const rest = bytes.subarray(written);
    written += check("write", () => Number(libc.write(descriptor, rest, rest.byteLength)));
  }
}

/**
 * Writes to a non-blocking pipe all at once or not at all (messages up to 4,096 bytes are atomic).
 * False when the pipe is full or nobody reads it any more.
 */
export function writeWhole(descriptor: number, bytes: Uint8Array): boolean {
  const count = Number(libc.write(descriptor, bytes, bytes.byteLength));
  if (count === bytes.byteLength) return true;
  if (count >= 0) return false;
  const code = errno();
  if (code === ERRNO.EINTR) return writeWhole(descriptor, bytes);
  return false;
}

/** Waits until one of two descriptors can be read (or has ended); says which. No time limit. */
export function waitReadable(first: number, second: number): { first: boolean; second: boolean } {
  // struct pollfd: int fd, short events, short revents (the upper half of the second word)
  const polled = new Int32Array([first, POLLIN, second, POLLIN]);
  check("poll", () => libc.poll(polled, 2, -1));
  return { first: (polled[1] ?? 0) >>> 16 !== 0, second: (polled[3] ?? 0) >>> 16 !== 0 };
}

/** Whether nobody is left to read what is written to this pipe, socket or terminal; never of a file. */
export function isUnread(descriptor: number): boolean {
  const polled = new Int32Array([descriptor, 0]);
  check("poll", () => libc.poll(polled, 1, 0));
  return ((polled[1] ?? 0) >>> 16 & (POLLERR | POLLHUP)) !== 0;
}

/** Opens a file of this name; null when there is none that can be opened. */
export function openIfPossible(path: string, flags: number): number | null {
  const descriptor = libc.open(Buffer.from(`${path}\0`, "utf8"), flags | O_CLOEXEC, 0);
  return descriptor >= 0 ? descriptor : null;
}

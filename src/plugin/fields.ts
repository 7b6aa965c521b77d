/**
 * Fields of a message's body, read with their types by whoever handles it: what came over the wire may be
 * anything. Errors name the field and what is expected, never the value, which may be a secret.
 */
import { LockdError } from "../errors.ts";
import type { Body } from "../wire/types.ts";

/** Text of at most `bytesMax` bytes of UTF-8. Throws LockdError `invalid`; a field that is not there is `absent`, if that is given. */
export function readText<A extends string | null = never>(body: Body, name: string, options: { bytesMax: number; absent?: A }): string | A {
  const value = body[name] ?? undefined;
  if (value === undefined && options.absent !== undefined) return options.absent;
  if (typeof value === "string" && Buffer.byteLength(value) <= options.bytesMax) return value;
  throw refused(name, value, `a text of at most ${options.bytesMax} bytes`);
}

/** A whole number, both ends included. Throws LockdError `invalid`; a field that is not there is `absent`, if that is given. */
export function readInteger<A extends number | null = never>(
  body: Body,
  name: string,
  options: { min: number; max: number; absent?: A },
): number | A {
  const value = body[name] ?? undefined;
  if (value === undefined && options.absent !== undefined) return options.absent;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= options.min && value <= options.max) return value;
  throw refused(name, value, `a whole number from ${options.min} to ${options.max}`);
}

/** Throws LockdError `invalid`; a field that is not there is `absent`, if that is given. */
export function readBoolean<A extends boolean | null = never>(body: Body, name: string, options: { absent?: A } = {}): boolean | A {
  const value = body[name] ?? undefined;
  if (value === undefined && options.absent !== undefined) return options.absent;
  if (typeof value === "boolean") return value;
  throw refused(name, value, "true or false");
}

/** A byte string, in memory of its own. Throws LockdError `invalid`; a field that is not there is `absent`, if that is given. */
export function readBytes<A extends Uint8Array | null = never>(body: Body, name: string, options: { bytesMax: number; absent?: A }): Uint8Array | A {
  const value = body[name] ?? undefined;
  if (value === undefined && options.absent !== undefined) return options.absent;
  if (value instanceof Uint8Array && value.length <= options.bytesMax) return value.slice();
  throw refused(name, value, `at most ${options.bytesMax} bytes`);
}

const refused = (name: string, value: unknown, expected: string): LockdError =>
  new LockdError("invalid", `read message: ${name} ${value === undefined ? "is missing" : "is not accepted"}, expected ${expected}`);

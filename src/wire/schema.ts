/**
 * From valibot schemas to body parsers: what comes in from the wire gets its type here or is refused
 * with the path of the bad field. Knows no message.
 */
import * as v from "valibot";
import { LockdError } from "../errors.ts";
import type { BodyParser } from "./types.ts";

/**
 * A parser that checks bodies against `schema`. Use `v.object` (unknown fields are left out), never
 * `v.strictObject`: newer clients may send more. The error names path and expectation, never the
 * value, which may be a secret.
 */
export function bodyParser<T>(schema: v.GenericSchema<unknown, T>): BodyParser<T> {
  return (body) => {
    const result = v.safeParse(schema, body, { abortEarly: true });
    if (result.success) return result.output;
    const [issue] = result.issues;
    const path = v.getDotPath(issue) ?? "body";
    const expected = issue.expected === null ? "" : `, expected ${issue.expected}`;
    const problem = issue.received === "undefined" ? "is missing" : `is not accepted${expected}`;
    throw new LockdError("invalid", `read message: ${path} ${problem}`);
  };
}

/** A whole number in a range, both ends included. */
export const integerSchema = (range: { min: number; max: number }) =>
  v.pipe(v.number(), v.safeInteger(), v.minValue(range.min), v.maxValue(range.max));

/** Text of at most so many UTF-8 bytes. */
export const textSchema = (bytesMax: number) => v.pipe(v.string(), v.maxBytes(bytesMax));

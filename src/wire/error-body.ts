/** The body of an ERROR frame. Knows no socket. */
import type { LockdError } from "../errors.ts";
import type { Body } from "./types.ts";

/** Fit for the wire whatever the message was built from: a half surrogate pair is shown as U+FFFD. */
export function errorBody(error: LockdError): Body {
  const { code, message, hint, retryable } = error;
  const body = { code, message: message.toWellFormed(), retryable };
  return hint === undefined ? body : { ...body, hint: hint.toWellFormed() };
}

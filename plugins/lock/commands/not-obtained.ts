/** Why a lock was not obtained, for people: who is in the way and what the own place in the queue was. */
import { formatDuration } from "../../../src/cli/format.ts";
import { LockFailedError } from "../../../src/client/errors.ts";
import type { BlockerBody } from "../../../src/client/protocol.ts";
import { printable } from "../../../src/text.ts";
import { LockdError } from "../../../src/errors.ts";
import { holderText } from "./format.ts";

const BLOCKERS_SHOWN_MAX = 5;

/** The same error, with holders and position as its hint where the server told them. */
export function explainRefusal(error: LockdError): LockdError {
  if (!(error instanceof LockFailedError)) return error;
  const { holders, position } = error.details;
  const sentences = holders.slice(0, BLOCKERS_SHOWN_MAX).map(blockerText);
  if (holders.length > BLOCKERS_SHOWN_MAX) sentences.push(`and ${holders.length - BLOCKERS_SHOWN_MAX} more`);
  if (position !== null) sentences.push(`own place in the queue: ${position}`);
  if (sentences.length === 0) return error;
  return new LockdError(error.code, error.message, { hint: sentences.join("; "), retryable: error.retryable, cause: error });
}

function blockerText(blocker: BlockerBody): string {
  const since = formatDuration(blocker.sinceAgo);
  return `${printable(blocker.object)} is ${blocker.state} by ${holderText(blocker.holder)}, since ${since}`;
}

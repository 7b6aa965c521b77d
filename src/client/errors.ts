/**
 * Errors that a program using the client library acts on: a lock that was not obtained, and one that
 * was lost. Owns their extra fields; knows no session.
 */
import { type ErrorCode, LockdError, type LockdErrorOptions } from "../errors.ts";
import type { BlockerBody } from "./protocol.ts";

/** Who is in the way, as the server saw it when it gave up. */
export interface LockFailedDetails {
  holders: readonly BlockerBody[];
  /** own place in the queue at the end, 1 is next; null when the server did not say */
  position: number | null;
}

/** A round in which no server could be used, each for its own reason. */
export class NoServerError extends LockdError {
  override readonly name: string = "NoServerError";
  readonly attempts: readonly { server: string; reason: string }[];

  constructor(attempts: readonly { server: string; reason: string }[], cause: unknown) {
    super("unavailable", `reach a server: ${attempts.map(({ server, reason }) => `${server}: ${reason}`).join("; ")}`, {
      hint: "check that a server runs there and that --connect names it",
      cause,
    });
    this.attempts = attempts;
  }
}

/** What to do about a refusal of the server, where there is something. */
const HINTS: Partial<Record<ErrorCode, string>> = {
  deadlock: "take several locks in the same order everywhere, or all at once: `lockd exec A B -- CMD`",
};

/** The lock was not obtained: `code` says why, `details` who was in the way. */
export class LockFailedError extends LockdError {
  override readonly name: string = "LockFailedError";
  readonly details: LockFailedDetails;

  constructor(code: ErrorCode, message: string, details: LockFailedDetails, options: LockdErrorOptions = {}) {
    const hint = HINTS[code];
    super(code, message, { ...(hint === undefined ? {} : { hint }), ...options });
    this.details = details;
  }
}

/**
 * Why a lock was lost: `expired`: its duration ended without a renewal that the server confirmed;
 * `forced`: somebody took it away; `revoked`: the server does not know of it any more;
 * `unreachable`: no server could be reached in time to renew it.
 */
export type LostReason = "expired" | "forced" | "revoked" | "unreachable";

/** The server's word for it as the client's. */
export function lostReason(reason: string): LostReason {
  if (reason === "timedout") return "expired";
  return reason === "forced" || reason === "kicked" ? "forced" : "revoked";
}

const LOST_SENTENCES: Readonly<Record<LostReason, string>> = {
  expired: "its duration ended before a renewal was confirmed",
  forced: "it was released by force",
  revoked: "the server does not count this client as its holder any more",
  unreachable: "no server could be reached to renew it",
};

/** A lock was lost while it was in use. */
export class LockLostError extends LockdError {
  override readonly name: string = "LockLostError";
  readonly reason: LostReason;
  readonly objects: readonly string[];
  readonly token: number;

  constructor(reason: LostReason, lock: { objects: readonly string[]; token: number }) {
    super("lost", `hold lock ${lock.objects.join(", ")}: lost, ${LOST_SENTENCES[reason]} (token ${lock.token})`);
    this.reason = reason;
    this.objects = lock.objects;
    this.token = lock.token;
  }
}

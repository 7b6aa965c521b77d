/**
 * The one error type that crosses module borders. Owns the closed set of codes and their exit codes
 * (the table of the command-line contract); knows nothing of commands or servers.
 */

/** Exit code of every error code. Scripts rely on these numbers: they never change. */
const EXIT_CODES = {
  /** failed for another reason, named in the message */
  failed: 1,
  /** a write whose outcome is unknown: it may or may not have been applied */
  unknown: 1,
  /** a request that its own client withdrew */
  cancelled: 1,
  /** the other side broke the wire protocol */
  protocol: 1,
  /** wrong command, flag or argument on the command line */
  usage: 64,
  /** a request with a value that is not accepted (out of range, malformed) */
  invalid: 64,
  /** stored state that is corrupt, foreign, wiped or newer than this program */
  corrupt: 65,
  /** what was named does not exist */
  notfound: 66,
  /** unlock of what is not held */
  notheld: 66,
  /** no server reachable, no quorum, not ready: surely not done */
  unavailable: 69,
  /** the same client already asked for the same object */
  duplicate: 73,
  /** a configured limit was reached */
  overflow: 73,
  /** a compare-and-set precondition failed */
  precondition: 73,
  /** the lock was not obtained in time */
  timedout: 75,
  /** the request was refused to break a deadlock */
  deadlock: 75,
  /** the lock was lost while it was in use */
  lost: 76,
  /** not permitted, or authentication failed */
  denied: 77,
  /** configuration error: file, environment, port in use, data directory */
  config: 78,
} as const;

export type ErrorCode = keyof typeof EXIT_CODES;

export const isErrorCode = (code: string): code is ErrorCode => Object.hasOwn(EXIT_CODES, code);

export interface LockdErrorOptions {
  /** one sentence that says what the reader can do about it */
  hint?: string;
  /** whether the same request may succeed later; default: only `unavailable` and `overflow` */
  retryable?: boolean;
  cause?: unknown;
}

/** An error with a code from the closed set, a message of the form `verb noun: detail`, and a hint. */
export class LockdError extends Error {
  override readonly name: string = "LockdError";
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly retryable: boolean;

  constructor(code: ErrorCode, message: string, options: LockdErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.hint = options.hint;
    this.retryable = options.retryable ?? (code === "unavailable" || code === "overflow");
  }

  get exitCode(): number {
    return EXIT_CODES[this.code];
  }

  /** The JSON form of the command-line contract and of the wire's ERROR body. */
  toJSON(): { code: ErrorCode; message: string; hint?: string; retryable: boolean } {
    const json = { code: this.code, message: this.message, retryable: this.retryable };
    return this.hint === undefined ? json : { ...json, hint: this.hint };
  }
}

/** Any thrown value as a LockdError; what is not one becomes `failed` and keeps its cause. */
export function asLockdError(thrown: unknown): LockdError {
  if (thrown instanceof LockdError) return thrown;
  if (thrown instanceof Error) return new LockdError("failed", thrown.message, { cause: thrown });
  return new LockdError("failed", String(thrown));
}

/**
 * States an invariant. It stays in production: a broken invariant must end the process's promises
 * rather than be carried into storage or an answer.
 */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new AssertionError(message);
}

/** A broken invariant of our own: always a defect of lockd, never of its input. */
export class AssertionError extends Error {
  override readonly name: string = "AssertionError";
  constructor(message: string) {
    super(`assertion failed: ${message}`);
  }
}

/**
 * The life of one command under one lock: wait, run, renew, end, release. Owns the order of the steps
 * and what each failure means; knows the lock by a small interface and no server.
 */
import { LockdError, asLockdError } from "../../../src/errors.ts";
import { bootTimeMs } from "../../../src/system/bootTimer.ts";
import { ERRNO, errnoText } from "../../../src/system/libc.ts";
import { SIGNALS, ownGroup, signalOwnGroup } from "../../../src/system/process.ts";
import { GuardedChild, type ChildEnd, type OnLost } from "./guardedChild.ts";
import type { Inheritance } from "./inheritance.ts";
import type { ReleaseOrder } from "./orders.ts";
import { ENDING_SIGNALS, SignalRelay } from "./signals.ts";

/** The right to run, while it lasts: a lock, or a leadership. */
export interface Held {
  /** aborted, with the reason, when the right is lost */
  readonly signal: AbortSignal;
  /** milliseconds until it is lost without a renewal */
  expiresIn(): number;
  /** calls the listener after each renewal */
  onRenewed(listener: () => void): void;
  /** boot time at which the service may let others in, when it told an end earlier than the usual one */
  graceEndsMs(): number | null;
  /** variables for the command */
  environment(deadlineMs: number): Readonly<Record<string, string>>;
  /** what the supervisor needs to release it in our place */
  readonly releaseOrder: ReleaseOrder | null;
  release(): Promise<void>;
}

export interface RunOptions {
  argv: readonly string[];
  onLost: OnLost;
  unlockDurationMs: number;
  inheritance: Inheritance;
  /** Obtains the right; rejects with LockdError, at once when the signal aborts. */
  acquire(signal: AbortSignal): Promise<Held>;
  warn(sentence: string): void;
}

/** Answers a signal while waiting within a second, also when the server does not. */
const CANCEL_MS_MAX = 700;
const RELEASE_MS_MAX = 2_000;
/** After a loss the service ends the lock by itself soon: freeing it early is a courtesy. */
const RELEASE_LOST_MS_MAX = 300;

/**
 * Runs a command under a right that is awaited, and gives the exit code: the command's own, or 128+N
 * when it, or the wait for the lock, was ended by signal N; 126 and 127 when it cannot be run. Throws
 * LockdError: what `acquire` threw, `lost`, or `failed` when the command cannot be guarded.
 */
export async function runGuarded(options: RunOptions): Promise<number> {
  const waiting = new AbortController();
  let interruptedBy = 0;
  const relay = new SignalRelay(options.inheritance.ignored, (signal) => {
    if (!ENDING_SIGNALS.some((name) => SIGNALS[name] === signal)) return;
    interruptedBy ||= signal;
    waiting.abort(new LockdError("cancelled", "wait for lock: interrupted by a signal"));
  });
  const child = GuardedChild.prepare(options);
  try {
    const held = await obtain(options, child, waiting);
    if (held === null) return 128 + interruptedBy;
    return await runHeld(options, child, held, relay);
  } finally {
    child.abandon();
    relay.close();
  }
}

/** Waits for the right and the helpers together. Null: interrupted, and nothing is held. */
async function obtain(options: RunOptions, child: GuardedChild, waiting: AbortController): Promise<Held | null> {
  const aborted = new Promise<null>((resolve) => {
    waiting.signal.addEventListener("abort", () => setTimeout(resolve, CANCEL_MS_MAX, null), { once: true });
  });
  let refused: unknown = null;
  let unprepared: unknown = null;
  const acquiring = options.acquire(waiting.signal).catch((error: unknown) => {
    refused = error;
    return null;
  });
  const ready = child.ready.catch((error: unknown) => {
    unprepared = error;
    waiting.abort(error);
  });
  const held = await Promise.race([Promise.all([acquiring, ready]).then(([first]) => first), aborted]);
  if (waiting.signal.aborted) {
    if (held !== null) await releaseWithin(held, RELEASE_LOST_MS_MAX);
    if (unprepared !== null) throw unprepared;
    return null;
  }
  if (held === null) throw asLockdError(refused);
  return held;
}

async function runHeld(options: RunOptions, child: GuardedChild, held: Held, relay: SignalRelay): Promise<number> {
  if (held.signal.aborted || held.expiresIn() <= 0) {
    await releaseWithin(held, RELEASE_LOST_MS_MAX);
    throw new LockdError("lost", "start command: the lock was lost before it could start");
  }
  let deadlineMs = bootTimeMs() + held.expiresIn();
  child.start({ environment: held.environment(deadlineMs), deadlineMs, release: held.releaseOrder });
  relay.handTo((signal) => child.signal(signal));
  if (child.hasTerminal) relay.catchStop();
  held.onRenewed(() => {
    deadlineMs = bootTimeMs() + held.expiresIn();
    child.setDeadline(deadlineMs);
  });
  const onLost = (): void => {
    if (options.onLost === "ignore") options.warn("the lock was lost and the command runs on, as --on-lost ignore asks");
    child.terminate(held.graceEndsMs() ?? undefined);
  };
  held.signal.addEventListener("abort", onLost, { once: true });
  if (held.signal.aborted) onLost();
  let unguarded = false;
  void child.unguarded.then(() => {
    unguarded = true;
    child.terminate();
  });

  const end = await child.exited;
  const lost = held.signal.aborted || child.lostToSupervisor || bootTimeMs() >= deadlineMs;
  if ((lost || unguarded) && options.onLost !== "ignore") {
    // it may have ended by itself while its group has not heard of the loss yet
    child.terminate(held.graceEndsMs() ?? undefined);
    await child.groupGone();
  }
  held.signal.removeEventListener("abort", onLost);
  const hadTerminal = child.finish();
  const released = await releaseWithin(held, lost ? RELEASE_LOST_MS_MAX : RELEASE_MS_MAX);
  if (lost) throw lostError(held.signal.reason, options.onLost);
  if (!released) options.warn("the lock could not be released: it ends with its duration");
  if (unguarded) throw new LockdError("failed", "guard command: the supervisor was killed, so the command was ended");
  return exitCode(options, end, hadTerminal, relay);
}

function lostError(reason: unknown, onLost: OnLost): LockdError {
  const why = reason instanceof Error ? reason.message : "it was not renewed in time";
  const what = onLost === "ignore" ? "the command ran on without it" : "the command was ended";
  return new LockdError("lost", `keep lock: ${why}; ${what}`);
}

/** Whether the release was confirmed in time. */
async function releaseWithin(held: Held, limitMs: number): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, limitMs, false);
  });
  const done = held.release().then(
    () => true,
    () => false,
  );
  const released = await Promise.race([done, late]);
  clearTimeout(timer);
  return released;
}

function exitCode(options: RunOptions, end: ChildEnd, hadTerminal: boolean, relay: SignalRelay): number {
  if (end.kind === "code") return end.code;
  if (end.kind === "execFailed") {
    options.warn(`cannot run ${options.argv[0] ?? ""}: ${errnoText(end.errno)}`);
    return end.errno === ERRNO.ENOENT ? 127 : 126;
  }
  const byTerminal = end.signal === SIGNALS.SIGINT || end.signal === SIGNALS.SIGQUIT;
  if (hadTerminal && byTerminal && ownGroup() !== process.pid) {
    // Ctrl-C reached only the command's group; the script that we are part of would have got it too
    relay.close();
    signalOwnGroup(end.signal);
  }
  return 128 + end.signal;
}

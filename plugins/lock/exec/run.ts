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

/** The right to run, while it lasts: a lock, or a leadership. The client library's Lock is one. */
export interface Held {
  /** aborted, with the reason, when the right is lost */
  readonly signal: AbortSignal;
  /** until when it may be relied on without a renewal, milliseconds of the boot clock */
  readonly deadline: number;
  /** calls back with the new deadline after each renewal; returns what ends that */
  onRenewed(listener: (deadlineMs: number) => void): () => void;
  release(): Promise<void>;
}

/** What is told to the command and, in secret, to its supervisor. */
export interface StartOrder {
  environment: Readonly<Record<string, string>>;
  release: ReleaseOrder | null;
}

export interface RunOptions<H extends Held> {
  argv: readonly string[];
  onLost: OnLost;
  unlockDurationMs: number;
  inheritance: Inheritance;
  /** Obtains the right; rejects with LockdError, at once when the signal aborts. */
  acquire(signal: AbortSignal): Promise<H>;
  order(held: H): StartOrder;
  warn(sentence: string): void;
}

/** What the caller of lockd is to hear of a command's end. */
export interface GuardedEnd {
  /** the command's own, or 128+N when it, or the wait for the lock, was ended by signal N; 126 and 127 when it cannot be run */
  code: number;
  /** N, when it was a signal */
  signal: number | null;
  /** why the command could not be run */
  failure: LockdError | null;
}

/** Answers a signal while waiting within a second, also when the server does not. */
const CANCEL_MS_MAX = 700;
const RELEASE_MS_MAX = 2_000;
/** After a loss the service ends the lock by itself soon, and after a signal nobody waits for long. */
const RELEASE_SOON_MS_MAX = 300;

/**
 * Runs a command under a right that is awaited, and tells how that ended. Throws LockdError: what
 * `acquire` threw, `lost`, or `failed` when the command cannot be guarded.
 */
export async function runGuarded<H extends Held>(options: RunOptions<H>): Promise<GuardedEnd> {
  const waiting = new AbortController();
  let interruptedBy = 0;
  const interrupt = (signal: number): void => {
    if (!ENDING_SIGNALS.some((name) => SIGNALS[name] === signal)) return;
    interruptedBy ||= signal;
    waiting.abort(new LockdError("cancelled", "wait for lock: interrupted by a signal"));
  };
  const relay = new SignalRelay(options.inheritance.ignored, interrupt);
  const child = GuardedChild.prepare(options);
  void child.spoiled.then(({ signal, error }) => {
    // a service manager that stops the whole unit may reach the helper before it reaches us
    if (signal !== null) interrupt(signal);
    waiting.abort(error);
  });
  try {
    const held = await obtain(options, child, waiting.signal);
    if (held === null) return bySignal(interruptedBy);
    return await runHeld(options, child, held, relay);
  } finally {
    child.abandon();
    relay.close();
  }
}

/**
 * Waits for the right and the helpers together. Null: interrupted by a signal, and nothing is held.
 * Throws why it was not obtained, or why the command could not be prepared.
 */
async function obtain<H extends Held>(options: RunOptions<H>, child: GuardedChild, waiting: AbortSignal): Promise<H | null> {
  const aborted = new Promise<null>((resolve) => {
    waiting.addEventListener("abort", () => setTimeout(resolve, CANCEL_MS_MAX, null), { once: true });
  });
  let refused: unknown = null;
  const acquiring = options.acquire(waiting).catch((error: unknown) => {
    refused = error;
    return null;
  });
  // a refusal need not wait for helpers that are not needed any more
  const both = acquiring.then(async (held) => {
    if (held !== null) await child.ready;
    return held;
  });
  const held = await Promise.race([both, aborted]);
  if (waiting.aborted) {
    if (held !== null) await releaseWithin(held, RELEASE_SOON_MS_MAX);
    const reason = asLockdError(waiting.reason);
    if (reason.code !== "cancelled") throw reason;
    return null;
  }
  if (held === null) throw asLockdError(refused);
  return held;
}

async function runHeld<H extends Held>(options: RunOptions<H>, child: GuardedChild, held: H, relay: SignalRelay): Promise<GuardedEnd> {
  if (held.signal.aborted || held.deadline <= bootTimeMs()) {
    await releaseWithin(held, RELEASE_SOON_MS_MAX);
    throw new LockdError("lost", "start command: the lock was lost before it could start");
  }
  child.start({ ...options.order(held), deadlineMs: held.deadline });
  relay.handTo((signal) => child.signal(signal));
  if (child.hasTerminal) relay.catchStop();
  const stopRenewals = held.onRenewed((deadlineMs) => child.setDeadline(deadlineMs));
  const onLost = (): void => {
    if (options.onLost === "ignore") options.warn("the lock was lost and the command runs on, as --on-lost ignore asks");
    child.terminate();
  };
  held.signal.addEventListener("abort", onLost, { once: true });
  if (held.signal.aborted) onLost();
  let unguarded = false;
  void child.unguarded.then(() => {
    unguarded = true;
    child.terminate();
  });

  const end = await child.exited;
  const lost = held.signal.aborted || child.lostToSupervisor || bootTimeMs() >= held.deadline;
  if ((lost || unguarded) && options.onLost !== "ignore") {
    // it may have ended by itself while its group has not heard of the loss yet
    child.terminate();
    await child.groupGone();
  }
  held.signal.removeEventListener("abort", onLost);
  stopRenewals();
  const hadTerminal = child.finish();
  const released = await releaseWithin(held, lost ? RELEASE_SOON_MS_MAX : RELEASE_MS_MAX);
  if (lost) throw lostError(held.signal.reason, options.onLost);
  if (!released) options.warn("the lock could not be released: it ends with its duration");
  if (unguarded && options.onLost !== "ignore") throw new LockdError("failed", "guard command: the supervisor was killed, so the command was ended");
  return guardedEnd(options.argv, end, hadTerminal, relay);
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

function guardedEnd([program = ""]: readonly string[], end: ChildEnd, hadTerminal: boolean, relay: SignalRelay): GuardedEnd {
  if (end.kind === "code") return { code: end.code, signal: null, failure: null };
  if (end.kind === "execFailed") {
    const missing = end.errno === ERRNO.ENOENT;
    return { code: missing ? 127 : 126, signal: null, failure: notRun(program, end.errno) };
  }
  const byTerminal = end.signal === SIGNALS.SIGINT || end.signal === SIGNALS.SIGQUIT;
  if (hadTerminal && byTerminal && ownGroup() !== process.pid) {
    // Ctrl-C reached only the command's group; the script that we are part of would have got it too
    relay.close();
    signalOwnGroup(end.signal);
  }
  return bySignal(end.signal);
}

const bySignal = (signal: number): GuardedEnd => ({ code: 128 + signal, signal, failure: null });

/** What a shell would take apart, and no name of a program holds by chance. */
const SHELL_CHARACTERS = /[\s|&;<>()$`*?"']/;

function notRun(program: string, errno: number): LockdError {
  const line = errno === ERRNO.ENOENT && SHELL_CHARACTERS.test(program);
  return new LockdError("failed", `run command ${program}: ${errnoText(errno)}`, {
    ...(line ? { hint: "one word after -- is one program's name; a shell line needs a shell: -- sh -c 'LINE'" } : {}),
  });
}

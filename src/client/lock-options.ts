/** What a program may say about a lock that it wants, and the check of what this side must know itself. */
import { LockdError } from "../errors.ts";
import { DEFAULTS, LIMITS, type LockMode } from "./protocol.ts";
import type { LockBody } from "./ticket.ts";

/** All durations in milliseconds. What is left out gets the service's default. */
export interface LockOptions {
  mode?: LockMode | undefined;
  /** semaphore: how many permits each object has in all */
  permits?: number | undefined;
  /** semaphore: how many this lock takes */
  count?: number | undefined;
  /** how long to wait, 0: now or not at all, null: without end; default 5000 */
  wait?: number | null | undefined;
  /** how long the lock lasts unless it is renewed; the client renews it by itself */
  duration?: number | undefined;
  /** the grace after a loss in which the holder can stop before the next gets the lock */
  unlockDuration?: number | undefined;
  /** after an abnormal loss the objects stay free this long */
  lockDelay?: number | undefined;
  /** a text for others to see in listings */
  value?: string | null | undefined;
  /**
   * When this client holds the objects already by a reentrant request, another handle of the same lock comes
   * back at once: same mode, permits and count, everything else as the first request said. The lock is given
   * back when every handle is released.
   */
  reentrant?: boolean | undefined;
  /** owned by its handle instead of by this client: not renewed, and not released when the client ends */
  detached?: boolean | undefined;
  /** fail with `deadlock` instead of waiting in a cycle for ever */
  detectDeadlock?: boolean | undefined;
  /** handles of held locks on whose behalf this one is asked for */
  parents?: readonly string[] | undefined;
  /** for listings; it may hold passwords, so nothing sends it by itself */
  commandLine?: string | undefined;
  /** gives the wait up */
  signal?: AbortSignal | undefined;
  /** called with the place in the queue when it changes, 1 is next */
  onQueue?: ((position: number) => void) | undefined;
}

/** How long to wait. Throws LockdError `invalid`; everything else is checked by the server. */
export function waitMsOf(options: LockOptions): number | null {
  const waitMs = options.wait === undefined ? DEFAULTS.libraryWaitMs : options.wait;
  if (waitMs !== null && !(Number.isInteger(waitMs) && waitMs >= 0 && waitMs <= LIMITS.waitMsMax)) {
    throw new LockdError("invalid", `lock: wait is ${waitMs}, not a whole number of milliseconds from 0 to ${LIMITS.waitMsMax}`);
  }
  return waitMs;
}

/** The request without what changes when it is sent again. Throws LockdError `invalid`. */
export function lockSpec(objects: string | readonly string[], options: LockOptions): Omit<LockBody, "request" | "wait"> {
  return {
    objects: typeof objects === "string" ? [objects] : objects,
    mode: options.mode,
    permits: finite("permits", options.permits),
    count: finite("count", options.count),
    duration: finite("duration", options.duration),
    unlockDuration: finite("unlockDuration", options.unlockDuration),
    lockDelay: finite("lockDelay", options.lockDelay),
    value: options.value,
    detached: options.detached,
    detectDeadlock: options.detectDeadlock,
    queue: options.onQueue === undefined ? undefined : true,
    parents: options.parents,
    commandLine: options.commandLine,
  };
}

/** The wire has no NaN and no infinities; the ranges are the server's to check. */
function finite(name: string, value: number | undefined): number | undefined {
  if (value !== undefined && !Number.isSafeInteger(value)) {
    throw new LockdError("invalid", `lock: ${name} is ${value}, not a whole number`);
  }
  return value;
}

/**
 * The helper that outlives the wrapper: started in a session of its own, it holds the command's process group
 * and the times on the boot clock at which that must have ended. It kills the group then, or when its
 * pipe ends because the wrapper was killed. Loads nothing but libc until it has to release a lock.
 */
import { BootTimer, bootTimeMs } from "../../../src/system/bootTimer.ts";
import { readSome, waitReadable, writeFully } from "../../../src/system/files.ts";
import { SIGNALS, groupIsAlive, ignoreSignal, signalGroup } from "../../../src/system/process.ts";
import { OrderReader, SUPERVISOR_SAYS, type Order, type ReleaseOrder } from "./orders.ts";

const ORDERS_DESCRIPTOR = 0;
const ANSWERS_DESCRIPTOR = 1;

/** How long the wrapper may be late before the supervisor sends TERM in its place. */
const TERM_LAG_MS = 100;
/** How often it looks whether a killed group is gone, and kills again. */
const GONE_POLL_MS = 10;
/** A process that KILL cannot end hangs in the kernel; its lock is then left to the end of the lease. */
const GONE_WAIT_MS = 10_000;

interface Guard {
  group: number;
  termAtMs: number | null;
  killAtMs: number | null;
  release: ReleaseOrder | null;
}

/** Runs the supervisor; resolves when it has nothing left to do. */
export async function main(): Promise<void> {
  // a service manager that stops the whole unit signals this process too, but its work begins then
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE"] as const) {
    ignoreSignal(SIGNALS[signal]);
  }
  const orphaned = watch();
  if (orphaned === null) return;
  const gone = await killUntilGone(orphaned.group);
  if (gone && orphaned.release !== null) {
    const { releaseOrphanedLock } = await import("./release.ts");
    await releaseOrphanedLock(orphaned.release);
  }
}

/** Waits for orders and deadlines. Returns what to end when the wrapper died, null when all is done. */
function watch(): Guard | null {
  const timer = new BootTimer();
  const reader = new OrderReader();
  const buffer = new Uint8Array(65_536);
  let guard: Guard | null = null;
  for (;;) {
    timer.set(guard === null ? null : nextTimeMs(guard));
    const ready = waitReadable(ORDERS_DESCRIPTOR, timer.descriptor);
    // orders first: one of them may be the renewal that moves the deadline which has just passed
    if (ready.first) {
      const count = readSome(ORDERS_DESCRIPTOR, buffer);
      if (count === 0) return guard;
      for (const order of reader.push(buffer.subarray(0, count))) {
        if (order.order === "done") return null;
        guard = obey(guard, order);
      }
    } else if (ready.second && guard !== null) {
      enforce(guard);
    }
  }
}

function obey(guard: Guard | null, order: Exclude<Order, { order: "done" }>): Guard | null {
  if (order.order === "guard") {
    const { group, termAtMs, killAtMs, release } = order;
    return { group, termAtMs, killAtMs, release };
  }
  return guard === null ? null : { ...guard, termAtMs: order.termAtMs, killAtMs: order.killAtMs };
}

function nextTimeMs(guard: Guard): number | null {
  const { termAtMs, killAtMs } = guard;
  if (termAtMs === null) return killAtMs;
  return killAtMs === null ? termAtMs + TERM_LAG_MS : Math.min(termAtMs + TERM_LAG_MS, killAtMs);
}

/** Does what is due, each thing once. */
function enforce(guard: Guard): void {
  const nowMs = bootTimeMs();
  if (guard.killAtMs !== null && nowMs >= guard.killAtMs) {
    guard.termAtMs = null;
    guard.killAtMs = null;
    signalGroup(guard.group, SIGNALS.SIGKILL);
    say(SUPERVISOR_SAYS.killed);
  } else if (guard.termAtMs !== null && nowMs >= guard.termAtMs + TERM_LAG_MS) {
    guard.termAtMs = null;
    signalGroup(guard.group, SIGNALS.SIGTERM);
    // a stopped process would not see it
    signalGroup(guard.group, SIGNALS.SIGCONT);
    say(SUPERVISOR_SAYS.terminated);
  }
}

/** Kills the group until no member can do anything any more; false when that takes too long. */
async function killUntilGone(group: number): Promise<boolean> {
  const endMs = bootTimeMs() + GONE_WAIT_MS;
  while (bootTimeMs() < endMs) {
    signalGroup(group, SIGNALS.SIGKILL);
    if (!groupIsAlive(group)) return true;
    await Bun.sleep(GONE_POLL_MS);
  }
  return false;
}

function say(kind: number): void {
  try {
    writeFully(ANSWERS_DESCRIPTOR, Buffer.from([kind]));
  } catch {
    // the wrapper is gone; the end of the order pipe says the same and is acted upon
  }
}

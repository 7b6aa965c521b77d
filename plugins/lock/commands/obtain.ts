/**
 * How `exec`, `elect` and `lock` get their lock within --wait: finding a server counts as waiting, and who
 * sits at a terminal is told what the wait is for. Knows no flag but --wait.
 */
import { formatDuration, printable } from "../../../src/cli/format.ts";
import type { CommandContext } from "../../../src/cli/types.ts";
import type { LockdClient } from "../../../src/client/client.ts";
import { LockFailedError, NoServerError } from "../../../src/client/errors.ts";
import type { Lock } from "../../../src/client/lock.ts";
import type { LockOptions } from "../../../src/client/lock-options.ts";
import { durationText } from "../../../src/config/duration.ts";
import type { LockdError } from "../../../src/errors.ts";
import { bootTimeMs } from "../../../src/system/bootTimer.ts";
import { isTerminal } from "../../../src/terminal.ts";
import { holderText } from "./format.ts";

/** A wait that is over sooner needs no explanation. */
const QUIET_MS = 2_000;

export interface Found {
  /** for the caller to close */
  client: LockdClient;
  /** Waits for the lock on the positionals for the rest of --wait. Rejects as `LockdClient.lock`. */
  lock(request: LockOptions): Promise<Lock>;
}

/** Finds a server within --wait. Rejects as `connect`. */
export async function findServer(context: CommandContext, { program, signal }: { program: string; signal: AbortSignal }): Promise<Found> {
  const { out, values } = context;
  const waitMs = values.numberOrNull("wait");
  const startMs = bootTimeMs();
  let told = false;
  const onRetry = (failure: LockdError): void => {
    if (!told) out.note(`${absenceText(failure)}: waiting`);
    told = true;
  };
  const client = await context.connect({ program, waitMs, signal, onRetry });
  const lock = async (request: LockOptions): Promise<Lock> => {
    const leftMs = waitMs === null ? null : Math.max(0, Math.round(waitMs - (bootTimeMs() - startMs)));
    const over = new AbortController();
    const timer = setTimeout(() => void explainWait(context, client, over.signal), QUIET_MS);
    try {
      return await client.lock(context.positionals, { ...request, wait: leftMs, signal });
    } catch (error) {
      throw wholeWait(error, waitMs);
    } finally {
      clearTimeout(timer);
      over.abort();
    }
  };
  return { client, lock };
}

function absenceText(failure: LockdError): string {
  if (!(failure instanceof NoServerError)) return failure.message;
  return `no server at ${failure.attempts.map(({ server, reason }) => `${server} (${reason})`).join(", ")}`;
}

/** One note on a terminal who is in the way; nothing when that cannot be found out. */
async function explainWait({ out, positionals }: CommandContext, client: LockdClient, over: AbortSignal): Promise<void> {
  if (out.json || !isTerminal(2)) return;
  try {
    for (const object of positionals) {
      const { holders, waiters } = await client.why(object);
      const [holder] = holders;
      if (over.aborted) return;
      if (holder === undefined) continue;
      const position = waiters.find((waiter) => waiter.holder.session === client.session)?.position;
      const place = position === undefined ? "" : `, place ${position} in the queue`;
      const held = `held by ${holderText(holder.holder)}, for ${formatDuration(Math.max(0, holder.sinceAgo))}`;
      out.note(`waiting for ${printable(object)}, ${held}${place}`);
      return;
    }
  } catch {
    // it may be forbidden to look, or the server is gone: the wait itself goes on and tells its end
  }
}

/** The server knows only the part of the wait that it saw; the user gave the whole. */
function wholeWait(error: unknown, waitMs: number | null): unknown {
  if (!(error instanceof LockFailedError) || error.code !== "timedout" || waitMs === null || waitMs === 0) return error;
  const why = error.message.replace(/^not obtained (?:in time|within [^:]*): /, "");
  return new LockFailedError("timedout", `not obtained within ${durationText(waitMs)}: ${why}`, error.details, { cause: error });
}

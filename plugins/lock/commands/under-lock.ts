/**
 * What `lockd exec` and `lockd elect` share: the client library's lock joined with the guard of a
 * command. Knows no flag that only one of them has.
 */
import { basename } from "node:path";
import type { CommandContext } from "../../../src/cli/types.ts";
import type { LockdClient } from "../../../src/client/client.ts";
import type { Lock } from "../../../src/client/lock.ts";
import type { LockOptions } from "../../../src/client/lock-options.ts";
import { assert } from "../../../src/errors.ts";
import { clientFiles } from "../../../src/security/option-names.ts";
import { SIGNALS } from "../../../src/system/process.ts";
import { isTerminal } from "../../../src/terminal.ts";
import type { OnLost } from "../exec/guardedChild.ts";
import { type Inheritance, readInheritance } from "../exec/inheritance.ts";
import { type GuardedEnd, runGuarded } from "../exec/run.ts";
import { dieOf } from "../exec/signals.ts";

/** The goodbye is a courtesy to the server: what was held is released before it. */
const CLOSE_MS_MAX = 300;

export interface UnderLock {
  command: "exec" | "elect";
  /** what to ask for; throws LockdError `usage` for flags that exclude each other */
  request(): LockOptions;
}

/** Runs the child command under a lock on the positionals; the exit code. Rejects as runGuarded does. */
export async function runUnderLock(context: CommandContext, options: UnderLock): Promise<number> {
  const errorExit = context.values.numberOrNull("error-exit");
  // before anything installs signal handlers
  const inheritance = readInheritance();
  try {
    const end = await runCommand(context, options, inheritance);
    if (end.failure !== null) {
      await report(context, end.failure);
      return errorExit ?? end.code;
    }
    // a shell ends its loop or script only when it sees the signal itself
    if (end.signal === SIGNALS.SIGINT && !inheritance.ignored.has(SIGNALS.SIGINT) && isTerminal(0)) dieOf(end.signal);
    return end.code;
  } catch (error) {
    if (errorExit === null) throw error;
    await report(context, error);
    return errorExit;
  }
}

async function report(context: CommandContext, error: unknown): Promise<void> {
  const { reportError } = await import("../../../src/cli/report-error.ts");
  process.stderr.write(reportError(error, { json: context.out.json, stack: false }).text);
}

async function runCommand(context: CommandContext, { command, request: requested }: UnderLock, inheritance: Inheritance): Promise<GuardedEnd> {
  const { values, positionals: objects, child: argv } = context;
  const request = { ...requested(), duration: values.number("duration") };
  let client: LockdClient | null = null;
  try {
    return await runGuarded<Lock>({
      argv,
      onLost: onLostOf(values.string("on-lost")),
      unlockDurationMs: values.number("unlock-duration"),
      inheritance,
      warn: (sentence) => context.out.warn(sentence),
      acquire: async (signal) => {
        // its code is loaded only now: the helpers start up meanwhile
        const { findServer } = await import("./obtain.ts");
        const found = await findServer(context, { program: `lockd ${command} ${basename(argv[0] ?? "")}`, signal });
        client = found.client;
        return found.lock(request);
      },
      order: (lock) => ({
        environment: {
          LOCKD_OBJECT: objects.join("\n"),
          LOCKD_TOKEN: String(lock.token),
          LOCKD_HANDLE: lock.handle,
          LOCKD_DEADLINE: String(Math.floor(lock.deadline)),
        },
        release: { handle: lock.handle, servers: values.list("connect"), files: clientFiles(values) },
      }),
    });
  } finally {
    await closeWithin(client, CLOSE_MS_MAX);
  }
}

function onLostOf(word: string): OnLost {
  assert(word === "term" || word === "kill" || word === "ignore", "--on-lost is one of its choices");
  return word;
}

async function closeWithin(client: LockdClient | null, limitMs: number): Promise<void> {
  if (client === null) return;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs);
  });
  await Promise.race([client.close(), late]);
  clearTimeout(timer);
}

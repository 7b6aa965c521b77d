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
import { bootTimeMs } from "../../../src/system/bootTimer.ts";
import type { OnLost } from "../exec/guardedChild.ts";
import { readInheritance } from "../exec/inheritance.ts";
import { runGuarded } from "../exec/run.ts";

/** The goodbye is a courtesy to the server: what was held is released before it. */
const CLOSE_MS_MAX = 300;

export interface UnderLock {
  command: "exec" | "elect";
  /** what to ask for; throws LockdError `usage` for flags that exclude each other */
  request(): LockOptions;
}

/** Runs the child command under a lock on the positionals; the exit code. Rejects as runGuarded does. */
export async function runUnderLock(context: CommandContext, options: UnderLock): Promise<number> {
  try {
    return await runCommand(context, options);
  } catch (error) {
    const code = context.values.numberOrNull("error-exit");
    if (code === null) throw error;
    const { reportError } = await import("../../../src/cli/report-error.ts");
    const { text } = reportError(error, { json: context.out.json, stack: false });
    process.stderr.write(text);
    return code;
  }
}

async function runCommand(context: CommandContext, { command, request: requested }: UnderLock): Promise<number> {
  // before anything installs signal handlers
  const inheritance = readInheritance();
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
        const waitMs = values.numberOrNull("wait");
        const startMs = bootTimeMs();
        // its code is loaded only now: the helpers start up meanwhile
        client = await context.connect({ program: `lockd ${command} ${basename(argv[0] ?? "")}`, waitMs, signal });
        const leftMs = waitMs === null ? null : Math.max(0, Math.round(waitMs - (bootTimeMs() - startMs)));
        return client.lock(objects, { ...request, wait: leftMs, signal });
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

/**
 * `lockd lock OBJECT…`: takes a lock and prints its handle and token. Detached it lives by itself;
 * with --hold this process keeps it until a signal, or until stdin closes where that means something.
 */
import { fstatSync, readFileSync } from "node:fs";
import { constants } from "node:os";
import { formatIso } from "../../../src/cli/format.ts";
import type { CommandContext } from "../../../src/cli/types.ts";
import type { LockdClient } from "../../../src/client/client.ts";
import type { Lock } from "../../../src/client/lock.ts";
import { DEFAULTS } from "../../../src/client/protocol.ts";
import { isTerminal } from "../../../src/terminal.ts";
import { lockOptions } from "./lock-options.ts";
import { findServer } from "./obtain.ts";

const ENDING_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;
type EndingSignal = (typeof ENDING_SIGNALS)[number];

export async function run(context: CommandContext): Promise<number> {
  const hold = context.values.boolean("hold");
  const options = {
    ...lockOptions(context, "lock"),
    detached: !hold,
    duration: context.values.numberOrNull("duration") ?? (hold ? DEFAULTS.durationMs : DEFAULTS.detachedDurationMs),
  };
  const interrupted = new AbortController();
  const ended = Promise.withResolvers<EndingSignal | "stdin">();
  for (const name of ENDING_SIGNALS) {
    process.on(name, () => {
      ended.resolve(name);
      interrupted.abort();
    });
  }
  let client: LockdClient | null = null;
  try {
    const found = await findServer(context, { program: "lockd lock", signal: interrupted.signal });
    client = found.client;
    const lock = await found.lock(options);
    try {
      await printLock(context, lock);
    } catch (error) {
      // nobody got the handle, so nobody could unlock it
      await client.unlockHandle(lock.handle);
      throw error;
    }
    return hold ? await holdUntil(client, lock, ended) : 0;
  } catch (error) {
    if (!interrupted.signal.aborted) throw error;
    return signalCode(await ended.promise);
  } finally {
    await client?.close();
  }
}

async function printLock(context: CommandContext, lock: Lock): Promise<void> {
  const { objects, handle, token } = lock;
  await context.out.result({ objects, handle, token, expires: formatIso(Date.now() + lock.expiresIn()) }, `${handle} ${token}\n`);
}

/** Keeps the lock until a signal comes, stdin closes, or it is lost (which is then thrown). */
async function holdUntil(client: LockdClient, lock: Lock, ended: PromiseWithResolvers<EndingSignal | "stdin">): Promise<number> {
  if (stdinCanClose()) void endOfStdin().then(() => ended.resolve("stdin"));
  const lost = new Promise<never>((_resolve, reject) => {
    lock.signal.addEventListener("abort", () => reject(lock.signal.reason));
    if (lock.signal.aborted) reject(lock.signal.reason);
  });
  const reason = await Promise.race([ended.promise, lost]);
  await lock.release();
  await client.close();
  return reason === "stdin" ? 0 : signalCode(reason);
}

/**
 * A pipe or a terminal closes when whoever started us is done; /dev/null and files say nothing. A job in
 * the background must not read its terminal: it would be stopped, and lose the lock in silence.
 */
function stdinCanClose(): boolean {
  if (isTerminal(0)) return inForeground();
  try {
    const status = fstatSync(0);
    return status.isFIFO() || status.isSocket();
  } catch {
    return false;
  }
}

/** Whether this process belongs to the group that its terminal listens to; where the kernel does not tell: yes. */
function inForeground(): boolean {
  try {
    const status = readFileSync("/proc/self/stat", "latin1");
    // behind the name in parentheses: state, parent, process group, session, terminal, the terminal's group
    const fields = status.slice(status.lastIndexOf(")") + 2).split(" ");
    return fields[2] === fields[5];
  } catch {
    return true;
  }
}

async function endOfStdin(): Promise<void> {
  for await (const _chunk of Bun.stdin.stream()) {
    // what is typed or sent means nothing; only the end does
  }
}

const signalCode = (signal: EndingSignal | "stdin"): number => (signal === "stdin" ? 0 : 128 + constants.signals[signal]);

/**
 * A program for tests: `lockd exec` with a lock that exists only in this process. Its first argument
 * is JSON (FakeLock), the command follows `--`. What happens to the lock is appended to a journal.
 */
import { appendFileSync } from "node:fs";
import { readInheritance } from "../../../plugins/lock/exec/inheritance.ts";
import { runGuarded, type Held } from "../../../plugins/lock/exec/run.ts";
import type { OnLost } from "../../../plugins/lock/exec/guardedChild.ts";
import { asLockdError, LockdError } from "../../../src/errors.ts";
import { bootTimeMs } from "../../../src/system/bootTimer.ts";

export interface FakeLock {
  journal: string;
  /** how long the lock is waited for; null: for ever */
  waitMs?: number | null;
  durationMs?: number;
  unlockDurationMs?: number;
  /** renewals stop this long after the grant */
  renewForMs?: number;
  /** the service tells that the lock is lost this long after the grant */
  lostAfterMs?: number;
  /** whether the release is ever answered */
  releaseAnswers?: boolean;
  onLost?: OnLost;
}

const inheritance = readInheritance();
const fake: FakeLock = JSON.parse(process.argv[2] ?? "{}");
const argv = process.argv.slice(process.argv.indexOf("--") + 1);
const note = (event: string): void => appendFileSync(fake.journal, `${event}\n`);

async function acquire(signal: AbortSignal): Promise<Held> {
  const durationMs = fake.durationMs ?? 10_000;
  note("waiting");
  await new Promise<void>((resolve, reject) => {
    signal.addEventListener("abort", () => {
      note("cancelled");
      reject(signal.reason);
    });
    if (fake.waitMs !== null) setTimeout(resolve, fake.waitMs ?? 0);
  });
  note("held");
  const lost = new AbortController();
  let endsMs = bootTimeMs() + durationMs;
  const grantedMs = bootTimeMs();
  let renewed: () => void = () => undefined;
  const lose = (reason: string): void => lost.abort(new LockdError("lost", reason));
  const renewal = setInterval(() => {
    if (bootTimeMs() >= endsMs) lose("the lease ended");
    if (bootTimeMs() >= endsMs || bootTimeMs() - grantedMs > (fake.renewForMs ?? Number.POSITIVE_INFINITY)) return;
    endsMs = bootTimeMs() + durationMs;
    renewed();
  }, durationMs / 10);
  if (fake.lostAfterMs !== undefined) setTimeout(() => lose("it was taken away"), fake.lostAfterMs);
  return {
    signal: lost.signal,
    get deadline() {
      return endsMs;
    },
    onRenewed: (listener) => {
      renewed = () => listener(endsMs);
      return () => undefined;
    },
    release: async () => {
      clearInterval(renewal);
      if (fake.releaseAnswers === false) await new Promise(() => undefined);
      note("released");
    },
  };
}

try {
  const end = await runGuarded({
    argv,
    onLost: fake.onLost ?? "term",
    unlockDurationMs: fake.unlockDurationMs ?? 5_000,
    inheritance,
    acquire,
    order: (held) => ({
      environment: { LOCKD_OBJECT: "x", LOCKD_TOKEN: "7", LOCKD_HANDLE: "secret", LOCKD_DEADLINE: String(Math.floor(held.deadline)) },
      release: null,
    }),
    warn: (sentence) => process.stderr.write(`lockd: warning: ${sentence}\n`),
  });
  if (end.failure !== null) process.stderr.write(`lockd: ${end.failure.message}\n`);
  process.exit(end.code);
} catch (error) {
  const failure = asLockdError(error);
  process.stderr.write(`lockd: ${failure.message}\n`);
  process.exit(failure.exitCode);
}

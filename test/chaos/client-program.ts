/**
 * A client process under test: loops that take, hold, renew and give back locks through the client
 * library and note each step in a ledger. Ends when its standard input closes, and then prints one line
 * of JSON: how many locks it got, and which errors it saw.
 */
import { connect } from "../../src/client/client.ts";
import type { Lock } from "../../src/client/lock.ts";
import { realClock } from "../../src/clock/real.ts";
import { asLockdError } from "../../src/errors.ts";
import type { LoadOptions, LoadReport } from "./load.ts";
import { type LedgerEvent, LedgerWriter } from "./ledger.ts";

const options: LoadOptions = JSON.parse(process.argv[2] ?? "{}");
const ledger = new LedgerWriter(options.ledger);
const clock = realClock();
const report: LoadReport = { entered: 0, refused: {}, releaseErrors: {}, lost: {} };
let stopping = false;
const over = new AbortController();

function count(counters: Record<string, number>, thrown: unknown): void {
  const { code } = asLockdError(thrown);
  counters[code] = (counters[code] ?? 0) + 1;
}

/** Resolves after the time, or when the lock is lost or the end has come. */
function hold(lock: Lock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const end = (): void => {
      clearTimeout(timer);
      resolve();
    };
    lock.signal.addEventListener("abort", end);
    over.signal.addEventListener("abort", end);
    if (over.signal.aborted) end();
  });
}

async function work(lock: Lock, owner: string): Promise<void> {
  const object = lock.objects[0] ?? "";
  const note = (event: LedgerEvent): void => {
    const { token, deadline: deadlineMs, unlockDurationMs } = lock;
    ledger.note({ event, object, token, owner, atMs: clock.bootMs(), deadlineMs, unlockDurationMs });
  };
  note("enter");
  report.entered += 1;
  let knownLost = false;
  const lost = (): void => {
    if (knownLost) return;
    knownLost = true;
    const reason = lock.lost?.reason ?? "unknown";
    report.lost[reason] = (report.lost[reason] ?? 0) + 1;
    note("lost");
  };
  lock.signal.addEventListener("abort", lost);
  if (lock.signal.aborted) lost();
  const stopNotes = lock.onRenewed(() => note("renewed"));
  await hold(lock, options.holdMs ?? Math.random() * options.holdMsMax);
  stopNotes();
  if (lock.lost !== null) lost();
  // whoever lost the lock has stopped as well, and says so by giving it back
  note("leave");
  try {
    await lock.release();
    note("unlocked");
  } catch (thrown) {
    count(report.releaseErrors, thrown);
  }
}

async function loop(number: number): Promise<void> {
  const owner = `${process.pid}/${number}`;
  const client = await connect({ servers: [options.server], wait: null, name: options.name });
  while (!stopping) {
    const object = options.objects[Math.floor(Math.random() * options.objects.length)] ?? "object";
    try {
      const { waitMs: wait, durationMs: duration, unlockDurationMs: unlockDuration } = options;
      await work(await client.lock(object, { wait, duration, unlockDuration, signal: over.signal }), owner);
    } catch (thrown) {
      count(report.refused, thrown);
    }
  }
  await client.close();
}

void Bun.stdin.text().then(() => {
  stopping = true;
  over.abort();
});
await Promise.all(Array.from({ length: options.loops }, (_, number) => loop(number)));
ledger.close();
process.stdout.write(`${JSON.stringify(report)}\n`);
process.exit(0);

/**
 * Load program that drives lockd by its own client library, one JSON line on stdout. Arguments: address,
 * `cycle` (acquire and release, each worker on an object of its own) or `handoff` (one object, a queue).
 */
import { connect, type LockdClient } from "../../src/client/client.ts";
import { portableClock } from "../../src/clock/portable.ts";
import { assert, LockdError } from "../../src/errors.ts";
import { readOptions } from "../lib/options.ts";
import { quantile } from "../lib/statistics.ts";
import { addCrowd } from "./crowd.ts";
import { driveCycles, type CycleResult, type HandoffResult } from "./load.ts";

const SETUP_PARALLEL = 64;
const SETUP_MS_MAX = 120_000;
/** Waiters with a connection of their own; the rest of a longer queue is a crowd behind them. */
const CONNECTED_MAX = 1000;

const [address, mode, ...flags] = process.argv.slice(2);
if (address === undefined || (mode !== "cycle" && mode !== "handoff")) {
  throw new LockdError("usage", "run lockd-load: ADDRESS cycle|handoff [flags]");
}
const server = address;
console.log(JSON.stringify(mode === "cycle" ? await measureCycles(flags) : await measureHandoffs(flags)));
process.exit(0);

async function measureCycles(argv: readonly string[]): Promise<CycleResult> {
  const options = readOptions(argv, { workers: 1, separate: 0, seconds: 1, warmup: 0.3 });
  const clients = await openClients(options.separate === 0 ? 1 : options.workers);
  const run = crypto.randomUUID();
  const cycles = Array.from({ length: options.workers }, (_, worker) => {
    const client = clients[worker % clients.length];
    assert(client !== undefined, "every worker has a client");
    const objects = [`bench-${run}-${worker}`];
    return async () => (await client.lock(objects)).release();
  });
  const result = await driveCycles(cycles, { warmupSeconds: options.warmup, seconds: options.seconds });
  await Promise.all(clients.map((client) => client.close()));
  return result;
}

/**
 * From the holder's release to the next grant. Every waiter is a client of its own, as two requests of
 * one client for one object would be refused as duplicates. The last holder queues again before the
 * next hand-off, so the queue keeps its length; each keeps the lock for a while, as the peer's load does.
 * Thousands of clients in this one process would keep it busy with their keep-alives, and it would
 * measure itself: the end of a long queue, whose turn does not come, has no connections.
 */
async function measureHandoffs(argv: readonly string[]): Promise<HandoffResult> {
  const options = readOptions(argv, { waiters: 1, handoffs: 100, hold: 0.15 });
  const connected = Math.min(options.waiters, CONNECTED_MAX);
  if (connected < options.waiters && options.handoffs > connected) {
    throw new LockdError("usage", `measure hand-offs: ${options.handoffs} of a queue whose first ${connected} are connected`);
  }
  const clients = await openClients(connected + 1);
  const object = `queue-${crypto.randomUUID()}`;
  const [first, ...others] = clients;
  assert(first !== undefined, "there is a holder");
  let holder = { client: first, lock: await first.lock([object]) };
  let granted: (next: { holder: typeof holder; atMs: number }) => void = () => undefined;
  let failed: (error: unknown) => void = () => undefined;
  const enqueue = (client: LockdClient): void => {
    client.lock([object], { wait: null }).then(
      (lock) => granted({ holder: { client, lock }, atMs: performance.now() }),
      (error: unknown) => failed(error),
    );
  };
  others.forEach(enqueue);
  await untilQueued(first, object, connected);
  await addCrowd(server, object, options.waiters - connected);
  const timesMs: number[] = [];
  for (let count = 0; count < options.handoffs; count++) {
    await untilQueued(first, object, options.waiters);
    await Bun.sleep(options.hold * 1000);
    const next = new Promise<{ holder: typeof holder; atMs: number }>((resolve, reject) => ([granted, failed] = [resolve, reject]));
    const startMs = performance.now();
    const released = holder.lock.release();
    const { holder: successor, atMs } = await next;
    timesMs.push(atMs - startMs);
    await released;
    enqueue(holder.client);
    holder = successor;
  }
  return { waiters: options.waiters, handoffs: timesMs.length, p50Ms: quantile(timesMs, 0.5), p99Ms: quantile(timesMs, 0.99) };
}

async function untilQueued(client: LockdClient, object: string, waiters: number): Promise<void> {
  const deadlineMs = performance.now() + SETUP_MS_MAX;
  for (;;) {
    const { waitersTotal } = await client.why(object);
    if (waitersTotal === waiters) return;
    if (performance.now() > deadlineMs) throw new LockdError("failed", `queue waiters: ${waitersTotal} of ${waiters} after ${SETUP_MS_MAX} ms`);
    await Bun.sleep(2);
  }
}

/** Opens `count` clients, some at a time, as a server's queue of new connections is short. */
async function openClients(count: number): Promise<LockdClient[]> {
  const clients: LockdClient[] = [];
  // one for all, as it holds a descriptor
  const clock = portableClock();
  while (clients.length < count) {
    const batch = Math.min(SETUP_PARALLEL, count - clients.length);
    clients.push(...(await Promise.all(Array.from({ length: batch }, () => connect({ servers: [server], clock })))));
  }
  return clients;
}

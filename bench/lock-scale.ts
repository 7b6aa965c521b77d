/**
 * A full table on one node: many locks held by few sessions, many waiters on one object, many leases
 * that end in one second. No peer; a bystander with an unrelated lock tells how long single operations
 * take meanwhile. Every round starts a server of its own.
 */
import { TICKETS_PER_SESSION_MAX } from "../plugins/lock/options.ts";
import { connect, type LockdClient } from "../src/client/client.ts";
import { assert } from "../src/errors.ts";
import { describeMachine } from "./lib/machine.ts";
import { readOptions } from "./lib/options.ts";
import { runBenchmark } from "./lib/program.ts";
import { publish, type ReportRow } from "./lib/report.ts";
import type { Stage } from "./lib/stage.ts";
import { median } from "./lib/statistics.ts";
import { startBystander, type Bystander } from "./peers/bystander.ts";
import { addCrowd } from "./peers/crowd.ts";
import { residentBytes, startLockd, type LockdServer } from "./peers/lockd.ts";

const DEFAULTS = { rounds: 5, held: 100_000, waiting: 100_000, expiring: 10_000, sessions: 4, handoffs: 20 };
type Options = { [K in keyof typeof DEFAULTS]: number };

/**
 * Requests of one session that are under way at one time. Few, because the bystander stands in line
 * behind all of them: it is to see pauses of the server, not the length of that line.
 */
const IN_FLIGHT = 32;
const EXPIRING_DURATION_MS = 5000;
const EXPIRING_GRACE_MS = 500;

/** One round's numbers by row; the key is the row's case and measure. */
type Numbers = Map<string, number>;

await runBenchmark("lock-scale", async (stage, argv) => {
  const options = readOptions(argv, DEFAULTS);
  const machine = await describeMachine(stage.directory, {});
  const rows = new Map<string, number[]>();
  for (let round = 0; round < options.rounds; round++) {
    for (const [key, value] of await measureRound(stage, options)) rows.set(key, [...(rows.get(key) ?? []), value]);
  }
  const reportRows = [...rows].map(([key, samples]): ReportRow => {
    const [label = "", measure = ""] = key.split(" | ");
    return { case: label, measure, samples: { lockd: samples } };
  });
  publish({ name: "lock-scale", contestants: ["lockd"], rows: reportRows, options, machine });
});

async function measureRound(stage: Stage, options: Options): Promise<Numbers> {
  const numbers: Numbers = new Map();
  for (const [phase, measure] of [["held", measureHeld], ["waiting", measureWaiting], ["expiring", measureExpiring]] as const) {
    const server = await startLockd(stage);
    const bystander = await startBystander(server.address);
    try {
      await measure(server, bystander, options, numbers);
    } finally {
      for (const [during, spread] of Object.entries(await bystander.finish())) {
        if (during === "start") continue;
        const label = `${phase}: bystander while ${during}`;
        numbers.set(`${label} | p99 ms`, spread.p99);
        numbers.set(`${label} | max ms`, spread.max);
      }
      await server.process.stop();
    }
  }
  return numbers;
}

/** Few sessions take many objects, list them, and give them back. */
async function measureHeld(server: LockdServer, bystander: Bystander, options: Options, numbers: Numbers): Promise<void> {
  const sessions = Math.max(options.sessions, Math.ceil(options.held / TICKETS_PER_SESSION_MAX));
  const clients = await Promise.all(Array.from({ length: sessions }, () => connect({ servers: [server.address] })));
  const before = await residentBytes(server.process.pid);
  bystander.enter("locking");
  const lockSeconds = await timeSeconds(async () => {
    await Promise.all(clients.map((client, place) => lockMany(client, namesOf(`held/${place}`, Math.ceil(options.held / clients.length)))));
  });
  numbers.set("held: locked | locks/s", options.held / lockSeconds);
  numbers.set("held: memory | bytes/ticket", ((await residentBytes(server.process.pid)) - before) / options.held);
  bystander.enter("holding");
  await Bun.sleep(2000); // long enough for a keep-alive of every session
  bystander.enter("listing");
  numbers.set("held: list all | s", await timeSeconds(() => countTickets(clients[0], "held/", options.held)));
  bystander.enter("releasing");
  numbers.set("held: released | s", await timeSeconds(async () => void (await Promise.all(clients.map((client) => client.close())))));
}

/** One object with a long queue: first some clients that stay, then a crowd behind them. */
async function measureWaiting(server: LockdServer, bystander: Bystander, options: Options, numbers: Numbers): Promise<void> {
  const clients = await Promise.all(Array.from({ length: options.handoffs + 1 }, () => connect({ servers: [server.address] })));
  const [first, ...others] = clients;
  assert(first !== undefined, "there is a first holder");
  let holder = await first.lock(["hot"]);
  const queue: Promise<typeof holder>[] = [];
  for (const client of others) {
    queue.push(client.lock(["hot"], { wait: null }));
    await untilWaiting(first, "hot", queue.length);
  }
  const before = await residentBytes(server.process.pid);
  bystander.enter("queueing");
  const queueSeconds = await timeSeconds(() => addCrowd(server.address, "hot", options.waiting));
  numbers.set("waiting: queued, each by a new session | waiters/s", options.waiting / queueSeconds);
  numbers.set("waiting: memory with session | bytes/ticket", ((await residentBytes(server.process.pid)) - before) / options.waiting);
  bystander.enter("handing over");
  const timesMs: number[] = [];
  for (const next of queue) {
    const startMs = performance.now();
    await holder.release();
    holder = await next;
    timesMs.push(performance.now() - startMs);
  }
  numbers.set("waiting: hand-off | p50 ms", median(timesMs));
  numbers.set("waiting: hand-off | max ms", Math.max(...timesMs));
  bystander.enter("listing");
  numbers.set("waiting: list all | s", await timeSeconds(() => countTickets(first, "hot", options.waiting)));
  numbers.set("waiting: why | s", await timeSeconds(() => first.why("hot")));
  await Promise.all(clients.map((client) => client.close()));
}

/** Detached locks, which nobody renews, taken within moments: their leases end within moments too. */
async function measureExpiring(server: LockdServer, bystander: Bystander, options: Options, numbers: Numbers): Promise<void> {
  const client = await connect({ servers: [server.address] });
  bystander.enter("locking");
  const lockOptions = { detached: true, duration: EXPIRING_DURATION_MS, unlockDuration: EXPIRING_GRACE_MS };
  const seconds = await timeSeconds(() => lockMany(client, namesOf("expiring", options.expiring), lockOptions));
  numbers.set("expiring: leases begin and end within | s", seconds);
  bystander.enter("holding");
  await Bun.sleep(Math.max(0, EXPIRING_DURATION_MS - seconds * 1000 - 200));
  bystander.enter("expiring");
  await Bun.sleep(seconds * 1000 + 200 + EXPIRING_GRACE_MS);
  const lastSeconds = await timeSeconds(async () => {
    while ((await countPrefix(client, "expiring")) > 0) await Bun.sleep(20);
  });
  numbers.set("expiring: last one free after it was due | s", lastSeconds);
  bystander.enter("afterwards");
  await Bun.sleep(500);
  await client.close();
}

async function lockMany(client: LockdClient, names: readonly string[], options: Parameters<LockdClient["lock"]>[1] = {}): Promise<void> {
  let place = 0;
  const lockOneByOne = async (): Promise<void> => {
    for (let name = names[place++]; name !== undefined; name = names[place++]) await client.lock([name], options);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lockOneByOne));
}

function namesOf(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, place) => `${prefix}/${place}`);
}

async function countPrefix(client: LockdClient, prefix: string): Promise<number> {
  let count = 0;
  for await (const ticket of client.list(prefix)) count += ticket.object.startsWith(prefix) ? 1 : 0;
  return count;
}

async function countTickets(client: LockdClient | undefined, prefix: string, least: number): Promise<void> {
  assert(client !== undefined, "there is a client to list with");
  const count = await countPrefix(client, prefix);
  assert(count >= least, `the list has ${count} of ${least} tickets`);
}

async function untilWaiting(client: LockdClient, object: string, count: number): Promise<void> {
  while ((await client.why(object)).waitersTotal < count) await Bun.sleep(1);
}

async function timeSeconds(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work();
  return (performance.now() - startMs) / 1000;
}

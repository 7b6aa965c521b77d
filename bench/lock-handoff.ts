/**
 * From the release of a lock to the grant of the next in its queue, by length of the queue: lockd
 * against etcd's Mutex. Setting the queue up is not timed; etcd is left out where that takes minutes,
 * because its Mutex reads and sorts all keys of the queue for every waiter that joins.
 */
import { fileURLToPath } from "node:url";
import { describeMachine } from "./lib/machine.ts";
import { readOptions } from "./lib/options.ts";
import { runBenchmark } from "./lib/program.ts";
import { publish, reportRow, type ReportRow } from "./lib/report.ts";
import { alternate } from "./lib/rounds.ts";
import type { StartedProcess } from "./lib/stage.ts";
import { buildEtcdLoad, etcdVersion, startEtcd } from "./peers/etcd.ts";
import { readNumbers } from "./peers/load.ts";
import { startLockd } from "./peers/lockd.ts";

const DEFAULTS = { rounds: 5, handoffs: 20, hold: 0.15, waiters: [1, 100, 1000, 10_000], "etcd-waiters-max": 1000 };

await runBenchmark("lock-handoff", async (stage, argv) => {
  const options = readOptions(argv, DEFAULTS);
  const machine = await describeMachine(stage.directory, { etcd: etcdVersion() });
  const program = await buildEtcdLoad(stage);
  const load = fileURLToPath(new URL("peers/lockd-load.ts", import.meta.url));
  const rows: ReportRow[] = [];
  for (const waiters of options.waiters) {
    const flags = (dash: string): string[] =>
      Object.entries({ waiters, handoffs: options.handoffs, hold: options.hold }).flatMap(([name, value]) => [dash + name, String(value)]);
    const measure = async (server: { process: StartedProcess }, command: readonly string[]) => {
      const result = readNumbers(await stage.runJson(command), "p50Ms", "p99Ms");
      // each time a server of its own: what the sessions of a queue leave behind ends later
      await server.process.stop();
      return result;
    };
    const contestants = [
      {
        name: "lockd",
        measure: async () => {
          const lockd = await startLockd(stage);
          return measure(lockd, [process.execPath, load, lockd.address, "handoff", ...flags("--")]);
        },
      },
      {
        name: "etcd",
        measure: async () => {
          const etcd = await startEtcd(stage);
          return measure(etcd, [program, "-endpoint", etcd.address, "-mode", "handoff", ...flags("-")]);
        },
      },
    ];
    const results = await alternate(waiters <= options["etcd-waiters-max"] ? contestants : contestants.slice(0, 1), options.rounds);
    rows.push(reportRow({ case: `${waiters} waiting`, measure: "p50 ms" }, results, (result) => result.p50Ms));
    rows.push(reportRow({ case: "", measure: "p99 ms" }, results, (result) => result.p99Ms));
  }
  publish({ name: "lock-handoff", contestants: ["lockd", "etcd"], rows, options, machine });
});

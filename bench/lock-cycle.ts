/**
 * Acquire and release of a free lock, durable, one node: lockd against etcd and redis. Each holder has
 * an object of its own; all over one client, and with a connection each. etcd is driven by its own
 * client's Mutex, and by the bare transaction that a lock at least needs.
 */
import { fileURLToPath } from "node:url";
import { describeMachine } from "./lib/machine.ts";
import { readOptions } from "./lib/options.ts";
import { runBenchmark } from "./lib/program.ts";
import { publish, reportRow, type ReportRow } from "./lib/report.ts";
import { alternate, type Contestant } from "./lib/rounds.ts";
import type { Stage } from "./lib/stage.ts";
import { buildEtcdLoad, etcdVersion, startEtcd } from "./peers/etcd.ts";
import { readNumbers, type CycleResult } from "./peers/load.ts";
import { startLockd } from "./peers/lockd.ts";
import { redisVersion, startRedis } from "./peers/redis.ts";

const DEFAULTS = { rounds: 5, seconds: 2, warmup: 0.5, holders: [1, 16, 64, 256], separate: [0, 1] };

const script = (name: string): string => fileURLToPath(new URL(`peers/${name}.ts`, import.meta.url));

await runBenchmark("lock-cycle", async (stage, argv) => {
  const options = readOptions(argv, DEFAULTS);
  const machine = await describeMachine(stage.directory, { etcd: etcdVersion(), redis: redisVersion() });
  const loads = await startLoads(stage);
  const rows: ReportRow[] = [];
  for (const separate of options.separate) {
    for (const holders of options.holders) {
      const flags = { workers: holders, separate, seconds: options.seconds, warmup: options.warmup };
      const contestants = Object.entries(loads).map(([name, load]): Contestant<CycleResult> => ({
        name,
        measure: async () => readNumbers(await stage.runJson(load(flags)), "cycles", "seconds", "p50Ms", "p99Ms"),
      }));
      const results = await alternate(contestants, options.rounds);
      const label = `${holders} holder${holders === 1 ? "" : "s"}, ${separate === 0 ? "one client" : "own connections"}`;
      rows.push(reportRow({ case: label, measure: "cycles/s" }, results, (result) => result.cycles / result.seconds));
      rows.push(reportRow({ case: "", measure: "p50 ms" }, results, (result) => result.p50Ms));
      rows.push(reportRow({ case: "", measure: "p99 ms" }, results, (result) => result.p99Ms));
    }
  }
  publish({ name: "lock-cycle", contestants: ["lockd", "etcd Mutex", "etcd txn", "redis"], rows, options, machine });
});

interface LoadFlags {
  workers: number;
  separate: number;
  seconds: number;
  warmup: number;
}

/** The command line of each contestant's load program, with its server already running. */
async function startLoads(stage: Stage): Promise<Record<string, (flags: LoadFlags) => string[]>> {
  const program = await buildEtcdLoad(stage);
  const [lockd, etcd, redis] = [await startLockd(stage), await startEtcd(stage), await startRedis(stage)];
  const etcdFlags = ({ workers, separate, seconds, warmup }: LoadFlags): string[] => [
    ...["-endpoint", etcd.address, "-workers", String(workers), `-separate=${separate === 1}`],
    ...["-seconds", String(seconds), "-warmup", String(warmup)],
  ];
  const ownFlags = (flags: LoadFlags): string[] => Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
  return {
    lockd: (flags) => [process.execPath, script("lockd-load"), lockd.address, "cycle", ...ownFlags(flags)],
    "etcd Mutex": (flags) => [program, "-mode", "mutex", ...etcdFlags(flags)],
    "etcd txn": (flags) => [program, "-mode", "txn", ...etcdFlags(flags)],
    redis: (flags) => [process.execPath, script("redis-load"), "--port", String(redis.port), ...ownFlags(flags)],
  };
}

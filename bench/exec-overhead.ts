/**
 * What it costs to run a command under a free lock: `lockd exec x -- true` against the same with
 * `etcdctl lock` and with `flock`, which asks no server. The bare command stands beside them.
 */
import { describeMachine } from "./lib/machine.ts";
import { readOptions } from "./lib/options.ts";
import { runBenchmark } from "./lib/program.ts";
import { publish, reportRow } from "./lib/report.ts";
import { alternate, type Contestant } from "./lib/rounds.ts";
import { timeCommandMs } from "./lib/spawned.ts";
import { median, quantile } from "./lib/statistics.ts";
import { firstLineOf, lockdProgram, requireTool } from "./lib/tools.ts";
import { etcdVersion, startEtcd } from "./peers/etcd.ts";
import { startLockd } from "./peers/lockd.ts";

const DEFAULTS = { rounds: 5, repeats: 20 };

await runBenchmark("exec-overhead", async (stage, argv) => {
  const options = readOptions(argv, DEFAULTS);
  const flock = requireTool("flock", "util-linux");
  const etcdctl = requireTool("etcdctl", "etcd-client");
  const nothing = requireTool("true", "coreutils");
  const machine = await describeMachine(stage.directory, { etcd: etcdVersion(), flock: firstLineOf([flock, "--version"]) });
  const [lockd, etcd] = [await startLockd(stage), await startEtcd(stage)];
  const environment = { ETCDCTL_API: "3" };
  const commands: Record<string, string[]> = {
    lockd: [lockdProgram(), "exec", "bench", "--connect", lockd.address, "--", nothing],
    etcdctl: [etcdctl, `--endpoints=${etcd.address}`, "lock", "bench", nothing],
    flock: [flock, `${stage.directory}/flock`, nothing],
    bare: [nothing],
  };
  const contestants = Object.entries(commands).map(([name, command]): Contestant<number[]> => {
    timeCommandMs(command, 2, { environment }); // the first runs fetch the programs from the disk
    return { name, measure: async () => timeCommandMs(command, options.repeats, { environment }) };
  });
  const results = await alternate(contestants, options.rounds);
  const rows = [
    reportRow({ case: "run a command under a free lock", measure: "p50 ms" }, results, median),
    reportRow({ case: "", measure: "p95 ms" }, results, (times) => quantile(times, 0.95)),
  ];
  publish({ name: "exec-overhead", contestants: ["lockd", "etcdctl", "flock", "bare"], rows, options, machine });
});

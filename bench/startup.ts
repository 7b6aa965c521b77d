/**
 * How long lockd takes to start: `--version` from start to end, and `serve` from start to ready, with
 * an empty data directory and with one that was in use. No peer; a bare command stands beside it.
 */
import { describeMachine } from "./lib/machine.ts";
import { readOptions } from "./lib/options.ts";
import { runBenchmark } from "./lib/program.ts";
import { publish } from "./lib/report.ts";
import { alternate } from "./lib/rounds.ts";
import { timeCommandMs } from "./lib/spawned.ts";
import type { Stage } from "./lib/stage.ts";
import { median } from "./lib/statistics.ts";
import { lockdProgram, requireTool } from "./lib/tools.ts";
import { startLockd } from "./peers/lockd.ts";

const DEFAULTS = { rounds: 5, repeats: 10 };

await runBenchmark("startup", async (stage, argv) => {
  const options = readOptions(argv, DEFAULTS);
  const nothing = requireTool("true", "coreutils");
  const machine = await describeMachine(stage.directory, {});
  const used = stage.folder("used");
  await timeToReadyMs(stage, used);
  const repeat = async (measure: () => Promise<number>): Promise<number> => {
    const times: number[] = [];
    for (let count = 0; count < options.repeats; count++) times.push(await measure());
    return median(times);
  };
  const results = await alternate(
    [
      { name: "lockd --version", measure: async () => median(timeCommandMs([lockdProgram(), "--version"], options.repeats)) },
      { name: "true", measure: async () => median(timeCommandMs([nothing], options.repeats)) },
      { name: "serve, empty directory", measure: async () => repeat(() => timeToReadyMs(stage, stage.folder("new"))) },
      { name: "serve, used directory", measure: async () => repeat(() => timeToReadyMs(stage, used)) },
    ],
    options.rounds,
  );
  const rows = [...results].map(([name, times]) => ({ case: name, measure: "p50 ms", samples: { time: times } }));
  publish({ name: "startup", contestants: ["time"], rows, options, machine });
});

/** From the start of the process to the line of its log that says it is ready. */
async function timeToReadyMs(stage: Stage, data: string): Promise<number> {
  const startMs = performance.now();
  const server = await startLockd(stage, { data });
  const tookMs = performance.now() - startMs;
  await server.process.stop();
  return tookMs;
}

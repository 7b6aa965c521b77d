/**
 * The outer shell of a benchmark program: errors as one sentence with their hint, exit codes of the
 * command line. Knows no benchmark.
 */
import { asLockdError } from "../../src/errors.ts";
import { Stage } from "./stage.ts";

/** Runs `body` on a stage that is cleared away whatever happens, then ends the process. */
export async function runBenchmark(name: string, body: (stage: Stage, argv: readonly string[]) => Promise<void>): Promise<never> {
  process.exit(await guarded(name, body));
}

async function guarded(name: string, body: (stage: Stage, argv: readonly string[]) => Promise<void>): Promise<number> {
  try {
    await using stage = Stage.open(name);
    await body(stage, process.argv.slice(2));
    return 0;
  } catch (thrown) {
    const error = asLockdError(thrown);
    process.stderr.write(`${name}: ${error.message}\n${error.hint === undefined ? "" : `  ${error.hint}\n`}`);
    return error.exitCode;
  }
}

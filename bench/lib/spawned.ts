/**
 * How long a command takes from its start to its end, as a shell that waits for it would see.
 * Knows no command.
 */
import { LockdError } from "../../src/errors.ts";

export interface CommandOptions {
  environment?: Readonly<Record<string, string>>;
}

/** Milliseconds of each of `repeats` runs, one after the other; `failed` when one does not exit with 0. */
export function timeCommandMs(command: readonly string[], repeats: number, options: CommandOptions = {}): number[] {
  const env = { ...process.env, ...options.environment };
  return Array.from({ length: repeats }, () => {
    const startMs = performance.now();
    const run = Bun.spawnSync([...command], { env, stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    const tookMs = performance.now() - startMs;
    if (run.exitCode !== 0) {
      throw new LockdError("failed", `run ${command.join(" ")}: ended with ${run.exitCode}: ${run.stderr.toString().trim()}`);
    }
    return tookMs;
  });
}

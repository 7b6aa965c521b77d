/** Starts client processes that work under locks (client-program.ts) and ends them. */
import { join } from "node:path";
import { environment } from "../e2e/kit.ts";

export interface LoadOptions {
  server: string;
  /** file that the judge reads */
  ledger: string;
  name: string;
  objects: readonly string[];
  loops: number;
  /** each section takes a random time up to this … */
  holdMsMax: number;
  /** … or exactly this */
  holdMs?: number;
  waitMs: number;
  durationMs: number;
  unlockDurationMs: number;
}

export interface LoadReport {
  entered: number;
  /** locks not obtained, by error code */
  refused: Record<string, number>;
  /** releases that failed, by error code */
  releaseErrors: Record<string, number>;
  /** locks lost while they were held, by reason */
  lost: Record<string, number>;
}

const PROGRAM = join(import.meta.dir, "client-program.ts");

export class Load {
  readonly process: Bun.Subprocess<"pipe", "pipe", "inherit">;

  constructor(options: LoadOptions, env: Readonly<Record<string, string>> = {}) {
    this.process = Bun.spawn([process.execPath, "--no-env-file", PROGRAM, JSON.stringify(options)], {
      env: environment(env),
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
    });
  }

  /** Lets every loop finish its section and end; what it saw. */
  async finish(): Promise<LoadReport> {
    await this.process.stdin.end();
    const text = await new Response(this.process.stdout).text();
    const code = await this.process.exited;
    if (code !== 0) throw new Error(`a client process ended with ${code}`);
    return JSON.parse(text);
  }

  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.process.exited;
  }
}

/** The reports of several processes as one. */
export function total(reports: readonly LoadReport[]): LoadReport {
  const sum = (pick: (report: LoadReport) => Record<string, number>): Record<string, number> => {
    const counters: Record<string, number> = {};
    for (const report of reports) for (const [code, count] of Object.entries(pick(report))) counters[code] = (counters[code] ?? 0) + count;
    return counters;
  };
  return {
    entered: reports.reduce((most, { entered }) => most + entered, 0),
    lost: sum(({ lost }) => lost),
    refused: sum(({ refused }) => refused),
    releaseErrors: sum(({ releaseErrors }) => releaseErrors),
  };
}

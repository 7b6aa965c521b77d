/** Starts the test's exec program, follows its output line by line, and cleans up whatever it left. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { processStat } from "../../../src/system/process.ts";
import type { FakeLock } from "./fakeExec.ts";

export const FAKE_EXEC = fileURLToPath(new URL("./fakeExec.ts", import.meta.url));
/** Only a hang takes longer than this. */
const HANG_MS = 10_000;
/** For setDefaultTimeout, which holds for one file: a test fails by its own message before. */
export const TEST_MS_MAX = 3 * HANG_MS;

/** Polls until the condition holds; throws with `what` when that takes as long as only a hang does. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  const end = performance.now() + HANG_MS;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`waited in vain until ${what}`);
    await Bun.sleep(5);
  }
}

export const isAlive = (pid: number): boolean => {
  const stat = processStat(pid);
  return stat !== null && stat.state !== "Z" && stat.state !== "X";
};

/** Process ids of the children of a process. */
export function childrenOf(pid: number): { pid: number; arguments: string[] }[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1")
    .split(" ")
    .filter((text) => text !== "")
    .map((text) => ({ pid: Number(text), arguments: readFileSync(`/proc/${text}/cmdline`, "utf8").split("\0") }));
}

export interface ExecResult {
  code: number;
  signal: string | null;
  stdout: string;
  stderr: string;
  journal: string[];
}

/** The command line of the test program, for tests that put it behind another one. */
export function execCommand(fake: FakeLock, command: readonly string[]): string[] {
  return [process.execPath, "--no-env-file", FAKE_EXEC, JSON.stringify(fake), "--", ...command];
}

export class ExecWorld {
  readonly directory = mkdtempSync(join(tmpdir(), "lockd-exec-"));
  readonly #running: ExecRun[] = [];

  path(name: string): string {
    return join(this.directory, name);
  }

  fake(options: Omit<FakeLock, "journal"> = {}): FakeLock {
    return { ...options, journal: this.path(`journal-${this.#running.length}`) };
  }

  start(fake: FakeLock, command: readonly string[], options: StartOptions = {}): ExecRun {
    const run = new ExecRun(fake.journal, [...(options.before ?? []), ...execCommand(fake, command)], options);
    this.#running.push(run);
    return run;
  }

  /** Starts the program and waits for its end. */
  run(command: readonly string[], fake: Omit<FakeLock, "journal"> = {}, options: StartOptions = {}): Promise<ExecResult> {
    return this.start(this.fake(fake), command, options).end();
  }

  async close(): Promise<void> {
    for (const run of this.#running) await run.kill();
    rmSync(this.directory, { recursive: true });
  }
}

export interface StartOptions {
  stdin?: Bun.BunFile | "pipe";
  /** words before the test program, such as `nohup` */
  before?: readonly string[];
  environment?: Readonly<Record<string, string>>;
}

export class ExecRun {
  readonly process: Bun.Subprocess<"ignore" | "pipe" | Bun.BunFile, "pipe", "pipe">;
  readonly #journal: string;
  readonly #stderr: Promise<string>;
  readonly #ended: Promise<void>;
  stdout = "";

  constructor(journal: string, command: string[], options: StartOptions) {
    this.#journal = journal;
    this.process = Bun.spawn(command, {
      stdio: [options.stdin ?? "ignore", "pipe", "pipe"],
      env: { ...process.env, ...options.environment },
    });
    this.#stderr = new Response(this.process.stderr).text();
    this.#ended = this.#follow();
  }

  get pid(): number {
    return this.process.pid;
  }

  async #follow(): Promise<void> {
    const decoder = new TextDecoder();
    for await (const bytes of this.process.stdout) this.stdout += decoder.decode(bytes, { stream: true });
  }

  /** Waits until the command wrote this; returns the rest of the line. */
  async said(text: string): Promise<string> {
    const line = (): string | undefined => this.stdout.split("\n").slice(0, -1).find((candidate) => candidate.startsWith(text));
    await until(`${text} is written`, () => line() !== undefined);
    return (line() ?? "").slice(text.length).trim();
  }

  journal(): string[] {
    try {
      return readFileSync(this.#journal, "utf8").trim().split("\n");
    } catch {
      return [];
    }
  }

  async journaled(event: string): Promise<void> {
    await until(`${event} is in the journal`, () => this.journal().includes(event));
  }

  /** Exit code or signal as the caller of the program sees it, with all output. */
  async end(): Promise<ExecResult> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const hang = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`still running; stdout so far: ${this.stdout}`)), HANG_MS);
    });
    const code = await Promise.race([this.process.exited, hang]);
    clearTimeout(timer);
    await this.#ended;
    const signal = this.process.signalCode;
    return { code, signal: signal === null ? null : String(signal), stdout: this.stdout, stderr: await this.#stderr, journal: this.journal() };
  }

  async kill(): Promise<void> {
    this.process.kill("SIGCONT");
    this.process.kill("SIGKILL");
    await this.process.exited;
  }
}

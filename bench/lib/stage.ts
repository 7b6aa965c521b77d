/**
 * Where a benchmark plays: one temporary folder on a real disk and the processes that it started,
 * all gone when it ends, also by a signal. Ends processes by their pid only; knows no peer.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { LockdError, assert } from "../../src/errors.ts";
import { mountOf } from "./machine.ts";

/** A process that runs until it is stopped. Its stderr is kept (the newest 64 KiB) for error messages. */
export interface StartedProcess {
  readonly pid: number;
  readonly exited: Promise<number>;
  /** whole lines of stderr as they come; ends with the process */
  stderrLines(): AsyncIterable<string>;
  /** what stderr said last, for a message */
  lastWords(): string;
  /** TERM, then KILL after five seconds; resolves when the process is gone */
  stop(): Promise<void>;
}

export interface StartOptions {
  environment?: Readonly<Record<string, string>>;
}

const STOP_MS = 5000;
const KEPT_CHARACTERS = 65_536;

export class Stage {
  readonly directory: string;
  readonly #running = new Set<StartedProcess>();
  readonly #onSignal: (signal: NodeJS.Signals) => void;

  private constructor(directory: string) {
    this.directory = directory;
    this.#onSignal = (signal) => {
      void this[Symbol.asyncDispose]().then(() => process.exit(signal === "SIGINT" ? 130 : 143));
    };
    process.on("SIGINT", this.#onSignal);
    process.on("SIGTERM", this.#onSignal);
  }

  /** `parent` defaults to BENCH_DIRECTORY or `.tmp` here; memory file systems are refused (`config`). */
  static open(name: string, parent = process.env["BENCH_DIRECTORY"] ?? ".tmp"): Stage {
    const folder = resolve(parent);
    mkdirSync(folder, { recursive: true });
    refuseMemoryFileSystem(folder);
    return new Stage(mkdtempSync(join(folder, `bench-${name}-`)));
  }

  /** A new empty folder of this stage. */
  folder(name: string): string {
    return mkdtempSync(join(this.directory, `${name}-`));
  }

  start(command: readonly string[], options: StartOptions = {}): StartedProcess {
    const started = spawnProcess(command, options, () => this.#running.delete(started));
    this.#running.add(started);
    return started;
  }

  /** Runs a command to its end. Its stdout, parsed as JSON; `failed` with its last words otherwise. */
  async runJson(command: readonly string[], options: StartOptions = {}): Promise<unknown> {
    const child = Bun.spawn([...command], {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      env: { ...process.env, ...options.environment },
    });
    const [code, output, errors] = await Promise.all([
      child.exited,
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    if (code !== 0) throw new LockdError("failed", `run ${command[0] ?? ""}: ended with ${code}: ${errors.trim()}`);
    return JSON.parse(output);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    process.off("SIGINT", this.#onSignal);
    process.off("SIGTERM", this.#onSignal);
    await Promise.all([...this.#running].map((started) => started.stop()));
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** A port that was free on the loopback interface a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done, failed) => {
    server.once("error", failed);
    server.listen(0, "127.0.0.1", done);
  });
  const address = server.address();
  assert(address !== null && typeof address === "object", "a listening server has an address");
  await new Promise<void>((done) => server.close(() => done()));
  return address.port;
}

/** Calls `probe` every 10 ms until it gives a value; `unavailable` when the process ends or 20 s pass. */
export async function untilReady<T>(server: StartedProcess, what: string, probe: () => Promise<T | null>): Promise<T> {
  let ended = false;
  void server.exited.then(() => (ended = true));
  const deadlineMs = performance.now() + 20_000;
  for (;;) {
    const value = await probe();
    if (value !== null) return value;
    if (ended || performance.now() > deadlineMs) {
      throw new LockdError("unavailable", `start ${what}: ${ended ? "it ended" : "not ready in 20 s"}: ${server.lastWords()}`);
    }
    await Bun.sleep(10);
  }
}

function spawnProcess(command: readonly string[], options: StartOptions, gone: () => void): StartedProcess {
  const child = Bun.spawn([...command], {
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
    env: { ...process.env, ...options.environment },
  });
  let kept = "";
  const listeners = new Set<(chunk: string | null) => void>();
  const drained = (async () => {
    const decoder = new TextDecoder();
    for await (const bytes of child.stderr) {
      const chunk = decoder.decode(bytes, { stream: true });
      kept = (kept + chunk).slice(-KEPT_CHARACTERS);
      for (const listener of listeners) listener(chunk);
    }
    for (const listener of listeners) listener(null);
  })();
  const exited = child.exited.finally(gone);
  return {
    pid: child.pid,
    exited,
    lastWords: () => kept.trim().split("\n").slice(-5).join(" | "),
    stderrLines: () => linesOf(kept, listeners, drained),
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
      await exited;
      clearTimeout(timer);
      await drained;
    },
  };
}

/** Lines of what was kept so far, then of the chunks that come, until null says that no more will. */
async function* linesOf(
  kept: string,
  listeners: Set<(chunk: string | null) => void>,
  drained: Promise<void>,
): AsyncGenerator<string> {
  const chunks: (string | null)[] = [kept];
  let wake: () => void = () => undefined;
  const listener = (chunk: string | null): void => {
    chunks.push(chunk);
    wake();
  };
  listeners.add(listener);
  void drained.then(() => listener(null));
  let rest = "";
  try {
    for (;;) {
      const chunk = chunks.shift();
      if (chunk === null) return;
      if (chunk === undefined) {
        await new Promise<void>((resume) => (wake = resume));
        continue;
      }
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
    }
  } finally {
    listeners.delete(listener);
  }
}

/** A sync to memory costs nothing: a result from there would say nothing about durability. */
function refuseMemoryFileSystem(folder: string): void {
  let mounts: string;
  try {
    mounts = readFileSync("/proc/self/mounts", "utf8");
  } catch {
    return; // not Linux: nothing to ask
  }
  const mount = mountOf(folder, mounts);
  if (mount !== null && ["tmpfs", "ramfs"].includes(mount.fileSystem)) {
    throw new LockdError("config", `use ${folder}: it is on ${mount.fileSystem}`, {
      hint: "set BENCH_DIRECTORY to a folder on a real disk",
    });
  }
}

/**
 * The kit of the end-to-end tests: starts real servers from dist/lockd on random ports with their own
 * data directories, runs commands against them, and ends by pid whatever a test left behind.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

/** The executable under test; TEST_LOCKD names another one than the build's. */
export const LOCKD = process.env["TEST_LOCKD"] ?? resolve(import.meta.dir, "../../dist/lockd");

export interface Finished {
  code: number;
  stdout: string;
  stderr: string;
}

export interface Ready {
  name: string;
  listen: string;
  http: string;
  mode: string;
  pid: number;
}

/** The environment of commands under test: ours without LOCKD_ variables. */
export function environment(extra: Readonly<Record<string, string>> = {}): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && !name.startsWith("LOCKD_")) result[name] = value;
  }
  return { ...result, ...extra };
}

export class TestServer {
  readonly directory: string;
  readonly process: Bun.Subprocess<"ignore", "ignore", "pipe">;
  readonly ready: Ready;
  readonly log: string[];

  private constructor(directory: string, process: Bun.Subprocess<"ignore", "ignore", "pipe">, ready: Ready, log: string[]) {
    this.directory = directory;
    this.process = process;
    this.ready = ready;
    this.log = log;
  }

  /** Starts `lockd serve` and resolves at its ready line; rejects with its output when it ends before. */
  static async start(options: {
    directory: string;
    listen?: string;
    /** default: off */
    http?: string;
    flags?: readonly string[];
    /** a command that runs the server as its child, such as strace */
    prefix?: readonly string[];
    env?: Readonly<Record<string, string>>;
  }): Promise<TestServer> {
    const command = [
      ...(options.prefix ?? []),
      LOCKD, "serve", "--listen", options.listen ?? "127.0.0.1:0", "--http", options.http ?? "off", "--data", options.directory,
      "--log-format", "json", ...(options.flags ?? []),
    ];
    const child = Bun.spawn(command, { env: environment(options.env), stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    const log: string[] = [];
    const ready = await new Promise<Ready>((found, failed) => {
      void readLines(child.stderr, (line) => {
        log.push(line);
        if (line.includes('"ready"')) {
          const entry: Ready & { msg?: string } = JSON.parse(line);
          if (entry.msg === "ready") found(entry);
        }
      }).then(async () => failed(new Error(`lockd serve ended with ${await child.exited}:\n${log.join("\n")}`)));
    });
    return new TestServer(options.directory, child, ready, log);
  }

  get address(): string {
    return this.ready.listen;
  }

  /** Sends a signal to the server itself, not to what it runs under; without effect when it has ended. */
  signal(name: NodeJS.Signals): void {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    try {
      process.kill(this.ready.pid, name);
    } catch {
      // it ended in this very moment
    }
  }

  /** kill -9, and waits until it is gone. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.process.exited;
  }

  /** SIGTERM; the exit code. */
  async stop(): Promise<number> {
    this.signal("SIGTERM");
    return this.process.exited;
  }

  /** Runs a client command against this server. */
  run(argv: readonly string[], options: { stdin?: string; env?: Readonly<Record<string, string>> } = {}): Promise<Finished> {
    return lockd(argv, { ...options, env: { LOCKD_CONNECT: this.address, ...options.env } });
  }

  /** Starts a client command and leaves it running. */
  spawn(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Bun.Subprocess<"pipe", "pipe", "pipe"> {
    return Bun.spawn([LOCKD, ...argv], {
      env: environment({ LOCKD_CONNECT: this.address, ...env }),
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
    });
  }

  /** `list --json` as objects. */
  async list(prefix?: string): Promise<Record<string, unknown>[]> {
    const { stdout } = await this.run(["list", "--json", ...(prefix === undefined ? [] : [prefix])]);
    return stdout.split("\n").filter((line) => line !== "").map((line): Record<string, unknown> => JSON.parse(line));
  }
}

/** Runs dist/lockd to its end. */
export async function lockd(
  argv: readonly string[],
  options: { stdin?: string; env?: Readonly<Record<string, string>>; cwd?: string } = {},
): Promise<Finished> {
  const child = Bun.spawn([LOCKD, ...argv], {
    env: environment(options.env),
    stdin: options.stdin === undefined ? "ignore" : new TextEncoder().encode(options.stdin),
    stdout: "pipe",
    stderr: "pipe",
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  const [code, stdout, stderr] = await Promise.all([child.exited, new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code, stdout, stderr };
}

/** Calls back with each line of a stream, the last one also without its end. */
export async function readLines(stream: ReadableStream<Uint8Array>, line: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) line(part);
  }
  if (rest !== "") line(rest);
}

/** A temporary directory that a test suite removes in its afterAll. */
export function temporaryDirectory(name: string): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), `lockd-${name}-`));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Waits until `condition` holds, looking every 20 ms; throws with `what` after a bound that only a hang exceeds. */
export async function eventually(what: string, condition: () => boolean | Promise<boolean>, boundMs = 30_000): Promise<void> {
  const end = performance.now() + boundMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`waited ${boundMs} ms in vain: ${what}`);
    await Bun.sleep(20);
  }
}

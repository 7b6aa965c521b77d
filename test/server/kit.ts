/** Starts process.ts as a real process and reads its log and its output, for the tests of run.ts. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export type LogEntry = Readonly<Record<string, unknown>>;

export interface TestServer {
  readonly pid: number;
  readonly directory: string;
  /** parsed lines of standard error so far */
  readonly log: readonly LogEntry[];
  /** lines of standard output so far: what the plugins of the case say */
  readonly said: readonly string[];
  /** lines of standard error that are no JSON */
  readonly errors: readonly string[];
  /** what came on descriptor 3, resolved at its end */
  readonly readyFd: Promise<string>;
  /** The first log line with this msg, now or later; rejects when the process ends without it. */
  logged(msg: string, count?: number): Promise<LogEntry>;
  /** Resolves when the plugins have said this line. */
  hasSaid(line: string): Promise<void>;
  kill(signal: NodeJS.Signals): void;
  /** exit code, or the name of the signal that ended it, after all output was read */
  readonly exited: Promise<number | string>;
}

export interface StartOptions {
  case?: string;
  settings?: Readonly<Record<string, unknown>>;
  environment?: Readonly<Record<string, string>>;
  directory?: string;
  /** descriptor that becomes standard error; the log is not read then */
  stderr?: number;
}

/** Makes processes and directories, and ends what is left of them when it is disposed. */
export class ServerKit implements AsyncDisposable {
  readonly #directories: string[] = [];
  readonly #children: Bun.Subprocess[] = [];

  directory(): string {
    const made = mkdtempSync(join(tmpdir(), "lockd-server-"));
    this.#directories.push(made);
    return made;
  }

  start(options: StartOptions = {}): TestServer {
    const directory = options.directory ?? this.directory();
    const settings = {
      name: "n1",
      listen: "127.0.0.1:0",
      http: "127.0.0.1:0",
      data: join(directory, "data"),
      insecure: false,
      "tls-cert": null,
      "tls-key": null,
      "tls-ca": null,
      "secret-file": null,
      "trace-messages": false,
      "ready-fd": null,
      "log-level": "info",
      "log-format": "json",
      "log-file": null,
      ...options.settings,
    };
    const child = Bun.spawn([process.execPath, fileURLToPath(new URL("process.ts", import.meta.url))], {
      stdio: ["ignore", "pipe", options.stderr ?? "pipe", "pipe"],
      env: {
        PATH: process.env["PATH"] ?? "",
        TEST_CASE: options.case ?? "plain",
        TEST_SETTINGS: JSON.stringify(settings),
        ...options.environment,
      },
    });
    this.#children.push(child);
    return observe(child, directory);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      child.kill("SIGKILL");
      await child.exited;
    }
    for (const directory of this.#directories) rmSync(directory, { recursive: true, force: true });
  }
}

function observe(child: Bun.Subprocess<"ignore", "pipe", "pipe" | number>, directory: string): TestServer {
  const log: LogEntry[] = [];
  const said: string[] = [];
  const errors: string[] = [];
  let ended = false;
  let wake = Promise.withResolvers<void>();
  const changed = (): void => {
    const before = wake;
    wake = Promise.withResolvers<void>();
    before.resolve();
  };
  const until = async <T>(look: () => T | undefined, what: string): Promise<T> => {
    for (;;) {
      const found = look();
      if (found !== undefined) return found;
      if (ended) throw new Error(`the server ended without ${what}: ${JSON.stringify({ log, said, errors })}`);
      await wake.promise;
    }
  };
  const readers = [eachLine(child.stdout, (line) => (said.push(line), changed()))];
  if (child.stderr instanceof ReadableStream) {
    const read = eachLine(child.stderr, (line) => {
      if (line.startsWith("{")) log.push(JSON.parse(line));
      else errors.push(line);
      changed();
    });
    readers.push(read);
  }
  const exited = (async () => {
    await child.exited;
    await Promise.all(readers);
    ended = true;
    changed();
    return child.signalCode ?? child.exitCode ?? -1;
  })();
  const third = child.stdio[3];
  return {
    pid: child.pid,
    directory,
    log,
    said,
    errors,
    readyFd: typeof third === "number" ? readAll(third) : Promise.reject(new Error("descriptor 3 is no pipe")),
    logged: (msg, count = 1) => until(() => log.filter((entry) => entry["msg"] === msg)[count - 1], `logging ${msg}`),
    hasSaid: async (line) => void (await until(() => said.find((one) => one === line), `saying ${line}`)),
    kill: (signal) => void child.kill(signal),
    exited,
  };
}

async function eachLine(stream: ReadableStream<Uint8Array>, take: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) take(line);
  }
  if (rest !== "") take(rest);
}

async function readAll(fd: number): Promise<string> {
  return new Response(Bun.file(fd).stream()).text();
}

/** The error of a promise that must reject. */
export async function rejection(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

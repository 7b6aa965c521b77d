/**
 * What the demonstration runs on: a temporary directory, a server of its own on a free port, and
 * commands of this same executable, shown as they would be typed. Ends everything it began.
 */
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LockdError } from "../../../src/errors.ts";
import { ownCommand } from "../exec/self.ts";

export interface Finished {
  code: number;
  stdout: string;
  stderr: string;
}

type Child = Bun.Subprocess<"ignore", "pipe", "pipe">;

const START_MS_MAX = 15_000;

export class Stage {
  readonly directory = mkdtempSync(join(tmpdir(), "lockd-demo-"));
  readonly #say: (line: string) => void;
  readonly #children = new Set<{ kill(signal: NodeJS.Signals): void; exited: Promise<number> }>();
  #server: Child | null = null;
  #address: string | null = null;

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  /** Of the server; a free port until it was started once. */
  get address(): string {
    return this.#address ?? "127.0.0.1:0";
  }

  /** Starts the server, the second time on the port and with the data of the first. */
  async startServer(): Promise<void> {
    const argv = ["serve", "--listen", this.address, "--http", "off", "--data", join(this.directory, "server"), "--log-format", "json"];
    const child = this.#spawn(argv);
    this.#server = child;
    this.#address = await readyAddress(child);
  }

  /** kill -9, as a crash would. */
  async crashServer(): Promise<void> {
    this.#server?.kill("SIGKILL");
    await this.#server?.exited;
    this.#server = null;
  }

  /** Runs a command to its end, shown with a prompt, and its output indented below. */
  async show(argv: readonly string[]): Promise<Finished> {
    this.#say(`  $ lockd ${argv.map(quoted).join(" ")}`);
    const finished = await this.run(argv);
    for (const line of `${finished.stdout}${finished.stderr}`.trimEnd().split("\n")) this.#say(`  ${line}`);
    return finished;
  }

  async run(argv: readonly string[]): Promise<Finished> {
    return finish(this.#spawn(argv));
  }

  /** Starts a command that goes on meanwhile. */
  start(argv: readonly string[]): Promise<Finished> {
    return finish(this.#spawn(argv));
  }

  /** Ends what still runs and removes the directory. */
  async clear(): Promise<void> {
    for (const child of this.#children) child.kill("SIGTERM");
    await Promise.all([...this.#children].map((child) => child.exited));
    rmSync(this.directory, { recursive: true, force: true });
  }

  #spawn(argv: readonly string[]): Child {
    const environment: Record<string, string | undefined> = {};
    for (const [name, value] of Object.entries(process.env)) if (!name.startsWith("LOCKD_")) environment[name] = value;
    if (this.#address !== null) environment["LOCKD_CONNECT"] = this.#address;
    const { command } = ownCommand(...argv);
    const child = Bun.spawn(command, { cwd: this.directory, env: environment, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
    this.#children.add(child);
    void child.exited.then(() => this.#children.delete(child));
    return child;
  }
}

async function finish(child: Child): Promise<Finished> {
  const [stdout, stderr, code] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  return { code, stdout, stderr };
}

/** The address in the server's `ready` line. What it logs later is read and dropped, so that it never blocks. */
function readyAddress(child: Child): Promise<string> {
  return new Promise((resolve, reject) => {
    const seen: string[] = [];
    const fail = (why: string): void => reject(new LockdError("failed", `start demo server: ${why}\n${seen.join("\n")}`));
    const timer = setTimeout(() => fail(`not ready after ${START_MS_MAX} ms`), START_MS_MAX);
    void (async () => {
      for await (const line of lines(child.stderr)) {
        seen.push(line);
        const address = listenOf(line);
        if (address !== null) resolve(address);
      }
      fail(`it ended with exit code ${await child.exited}`);
    })().finally(() => clearTimeout(timer));
  });
}

function listenOf(line: string): string | null {
  if (!line.includes('"ready"')) return null;
  const entry: { msg?: unknown; listen?: unknown } = JSON.parse(line);
  return entry.msg === "ready" && typeof entry.listen === "string" ? entry.listen : null;
}

async function* lines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    yield* parts;
  }
  if (rest !== "") yield rest;
}

const quoted = (word: string): string => (/^[A-Za-z0-9_./:=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** What starts this executable when it is typed: `lockd` where PATH leads to it, else its path. */
export function typedName(path: string | undefined): string {
  if (!import.meta.url.includes("/$bunfs/")) return "lockd";
  const found = Bun.which("lockd", { PATH: path ?? "" });
  return found !== null && realpathSync(found) === realpathSync(process.execPath) ? "lockd" : quoted(process.execPath);
}

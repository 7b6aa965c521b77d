/**
 * What the end-to-end tests of locks share beyond the kit: typed lines of `list --json`, commands that
 * go on running with their output by lines, and holders and waiters in a known order.
 */
import { eventually, environment, type Finished, LOCKD, TestServer, temporaryDirectory } from "./kit.ts";

export interface HolderLine {
  name: string;
  host: string;
  pid: number;
  program: string;
  address: string;
  session: string;
  commandLine?: string;
}

/** A line of `list --json`. */
export interface TicketLine {
  object: string;
  ticket: string;
  state: string;
  mode: string;
  holder: HolderLine;
  detached: boolean;
  since: string;
  token?: number;
  permits?: number;
  count?: number;
  expires?: string;
  freeAt?: string;
  waitDeadline?: string;
  position?: number;
  value?: string;
}

/** A line of `events --json` and `list --watch --json`. */
export interface EventLine {
  id: number;
  time: string;
  event: string;
  object: string;
  ticket: string;
  mode: string;
  holder: HolderLine;
  token?: number;
  waitedMs?: number;
  heldMs?: number;
  reason?: string;
}

export interface WhyObject {
  object: string;
  holders: TicketLine[];
  waiters: TicketLine[];
  waitersTotal: number;
  freeAt?: string;
  cycle: { waiter: HolderLine; object: string; holder: HolderLine }[];
  events: EventLine[];
}

export interface LockObject {
  objects: string[];
  handle: string;
  token: number;
  expires: string;
}

export interface ErrorObject {
  code: string;
  message: string;
  hint?: string;
  retryable: boolean;
}

const jsonLines = (text: string): string[] => text.split("\n").filter((line) => line !== "");

/** What a command that must end with `code` wrote to stdout. */
export function output(finished: Finished, code = 0): string {
  if (finished.code !== code) throw new Error(`ended with ${finished.code}, not ${code}:\n${finished.stdout}${finished.stderr}`);
  return finished.stdout;
}

/** The error that a command with --json ended with: one object on stderr, nothing on stdout. */
export function errorOf(finished: Finished, code: number): ErrorObject {
  if (output(finished, code) !== "") throw new Error(`an error, and still on stdout: ${finished.stdout}`);
  const { error }: { error: ErrorObject } = JSON.parse(finished.stderr);
  return error;
}

/** Runs a shell script to its end; `$BIN` is the executable under test. */
export async function shell(script: string, env: Readonly<Record<string, string>> = {}): Promise<Finished> {
  const child = Bun.spawn(["sh", "-c", script], { env: environment({ BIN: LOCKD, ...env }), stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [code, stdout, stderr] = await Promise.all([child.exited, new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code, stdout, stderr };
}

/** A server of a suite and what was started against it; `clear` ends by pid what still runs. */
export class LockWorld {
  readonly server: TestServer;
  readonly #remove: () => void;
  readonly #running: Running[] = [];

  private constructor(server: TestServer, remove: () => void) {
    this.server = server;
    this.#remove = remove;
  }

  static async start(name: string, flags: readonly string[] = []): Promise<LockWorld> {
    const directory = temporaryDirectory(name);
    return new LockWorld(await TestServer.start({ directory: directory.path, flags }), directory.remove);
  }

  async clear(): Promise<void> {
    for (const running of this.#running) running.kill("SIGKILL");
    await this.server.kill();
    this.#remove();
  }

  /** Runs a command to its end. */
  run(...argv: readonly string[]): Promise<Finished> {
    return this.server.run(argv);
  }

  /** `lockd lock … --json`, which must succeed. */
  async lock(...argv: readonly string[]): Promise<LockObject> {
    const taken: LockObject = JSON.parse(output(await this.run("lock", "--json", ...argv)));
    return taken;
  }

  async tickets(prefix?: string): Promise<TicketLine[]> {
    const text = output(await this.run("list", "--json", ...(prefix === undefined ? [] : ["--", prefix])));
    return jsonLines(text).map((line): TicketLine => JSON.parse(line));
  }

  /** The tickets of exactly this object. */
  async ticketsOf(object: string): Promise<TicketLine[]> {
    return (await this.tickets(object)).filter((ticket) => ticket.object === object);
  }

  async why(object: string): Promise<WhyObject> {
    const why: WhyObject = JSON.parse(output(await this.run("why", "--json", "--", object)));
    return why;
  }

  async events(...argv: readonly string[]): Promise<EventLine[]> {
    return jsonLines(output(await this.run("events", "--json", ...argv))).map((line): EventLine => JSON.parse(line));
  }

  /** Starts a command that goes on; its stdin is a pipe that stays open. */
  start(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Running {
    const running = new Running(argv, { LOCKD_CONNECT: this.server.address, ...env });
    this.#running.push(running);
    return running;
  }

  /** Starts `lock OBJECT --hold …` and resolves when it has the lock. */
  async holder(object: string, ...flags: readonly string[]): Promise<Running & { lock: LockObject }> {
    const running = this.start(["lock", "--hold", "--json", ...flags, "--", object]);
    await running.line(0);
    return Object.assign(running, { lock: running.json<LockObject>(0) });
  }

  /** Starts `lock OBJECT --hold …` and resolves when the listing shows it waiting. */
  async waiter(object: string, ...flags: readonly string[]): Promise<Running> {
    const running = this.start(["lock", "--hold", "--json", ...flags, "--", object]);
    await this.waits(object, running.pid);
    return running;
  }

  /** Resolves when the process `pid` waits for the object. */
  waits(object: string, pid: number): Promise<void> {
    return eventually(`${pid} waits for ${object}`, async () =>
      (await this.ticketsOf(object)).some(({ holder, state }) => holder.pid === pid && state === "waiting"),
    );
  }
}

/** A command that goes on, with its output by lines. */
export class Running {
  readonly #child: Bun.Subprocess<"pipe", "pipe", "pipe">;
  readonly lines: string[] = [];
  readonly #stdout: Promise<void>;
  readonly #stderr: Promise<string>;

  constructor(argv: readonly string[], env: Readonly<Record<string, string>>) {
    this.#child = Bun.spawn([LOCKD, ...argv], { env: environment(env), stdin: "pipe", stdout: "pipe", stderr: "pipe" });
    this.#stderr = new Response(this.#child.stderr).text();
    this.#stdout = this.#read();
  }

  get pid(): number {
    return this.#child.pid;
  }

  get ended(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** The line with this number on stdout, waited for; throws when the command ends without it. */
  async line(index: number): Promise<string> {
    await eventually(`line ${index} of a command`, () => this.lines.length > index || this.ended);
    await (this.lines.length > index ? undefined : this.#stdout);
    const line = this.lines[index];
    if (line === undefined) throw new Error(`ended with ${await this.#child.exited}: ${await this.#stderr}`);
    return line;
  }

  json<T>(index: number): T {
    const value: T = JSON.parse(this.lines[index] ?? "null");
    return value;
  }

  kill(signal: NodeJS.Signals): void {
    if (!this.ended) this.#child.kill(signal);
  }

  closeStdin(): void {
    void this.#child.stdin.end();
  }

  async finished(): Promise<Finished> {
    const code = await this.#child.exited;
    await this.#stdout;
    return { code, stdout: this.lines.map((line) => `${line}\n`).join(""), stderr: await this.#stderr };
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of this.#child.stdout) {
      const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = parts.pop() ?? "";
      this.lines.push(...parts);
    }
    if (rest !== "") this.lines.push(rest);
  }
}

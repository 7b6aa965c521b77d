/**
 * What the tests of the client library share: the library built as a release has it, installed where
 * programs find it as `lockd`, and programs that run under Bun and under Node.
 */
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildLibrary } from "../../scripts/library.ts";
import { environment, eventually, type Finished, readLines, temporaryDirectory } from "./kit.ts";

export const RUNTIMES = ["bun", "node"] as const;
export type Runtime = (typeof RUNTIMES)[number];

/** A program that runs; its lines of output as they come. */
export class Program {
  readonly lines: string[] = [];
  readonly process: Bun.Subprocess<"pipe", "pipe", "pipe">;
  readonly finished: Promise<Finished>;

  constructor(command: readonly string[], cwd: string) {
    this.process = Bun.spawn([...command], { cwd, env: environment(), stdin: "pipe", stdout: "pipe", stderr: "pipe" });
    const read = readLines(this.process.stdout, (line) => void this.lines.push(line));
    this.finished = Promise.all([this.process.exited, read, new Response(this.process.stderr).text()]).then(([code, , stderr]) => ({
      code,
      stdout: this.lines.map((line) => `${line}\n`).join(""),
      stderr,
    }));
  }

  /** Waits until it has said a line that begins so, `times` times; the last of them. Throws when it ends before. */
  async line(word: string, times = 1): Promise<string> {
    const found = (): string[] => this.lines.filter((line) => line.startsWith(word));
    const ended = (): boolean => this.process.exitCode !== null || this.process.signalCode !== null;
    await eventually(`a program says ${word}`, () => found().length >= times || ended());
    if (found().length < times) await this.finished;
    const line = found()[times - 1];
    if (line === undefined) throw new Error(`it said ${JSON.stringify(this.lines)}: ${(await this.finished).stderr}`);
    return line;
  }

  /** Ends it; without effect when it has ended. */
  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.process.exited;
  }
}

/** A folder with the library in node_modules, for programs in it. */
export class Workshop {
  readonly path: string;
  readonly #remove: () => void;
  readonly #programs: Program[] = [];

  private constructor(path: string, remove: () => void) {
    this.path = path;
    this.#remove = remove;
  }

  static async open(name: string): Promise<Workshop> {
    const { path, remove } = temporaryDirectory(name);
    const library = join(path, "node_modules/lockd");
    await buildLibrary(library);
    writeFileSync(join(path, "package.json"), JSON.stringify({ type: "module" }));
    return new Workshop(path, remove);
  }

  /** Writes a file into it; its path. */
  file(name: string, text: string): string {
    const path = join(this.path, name);
    writeFileSync(path, text);
    return path;
  }

  /** Starts a JavaScript file of it. */
  start(runtime: Runtime, path: string, ...words: readonly string[]): Program {
    const command = runtime === "bun" ? [process.execPath, "--no-env-file", path] : ["node", path];
    const program = new Program([...command, ...words], this.path);
    this.#programs.push(program);
    return program;
  }

  run(runtime: Runtime, path: string, ...words: readonly string[]): Promise<Finished> {
    return this.start(runtime, path, ...words).finished;
  }

  /** Type-checks TypeScript files of it as a stranger's strict project would; what tsc says. */
  async check(resolution: "bundler" | "nodenext", ...paths: readonly string[]): Promise<Finished> {
    const repository = resolve(import.meta.dir, "../..");
    const module = resolution === "bundler" ? "ESNext" : "NodeNext";
    const command = [
      join(repository, "node_modules/.bin/tsc"), "--ignoreConfig", "--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess",
      "--target", "ESNext", "--lib", "ESNext", "--module", module, "--moduleResolution", resolution,
      "--typeRoots", join(repository, "node_modules"), "--types", "bun-types", ...paths,
    ];
    return new Program(command, this.path).finished;
  }

  async close(): Promise<void> {
    for (const program of this.#programs) await program.kill();
    this.#remove();
  }
}

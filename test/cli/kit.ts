/** A program with a plugin made for tests, run in this process; and the real one, run from source. */
import { fileURLToPath } from "node:url";
import type { BundledPlugin } from "../../src/cli/plugin-catalog.ts";
import { type ProgramOptions, runProgram } from "../../src/cli/run.ts";
import type { CommandContext, CommandSpec } from "../../src/cli/types.ts";
import type { Plugin } from "../../src/plugin/types.ts";

export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a command line in this process. */
export async function run(args: readonly string[], options: Partial<ProgramOptions> = {}): Promise<Ended> {
  let stdout = "";
  let stderr = "";
  const code = await runProgram({
    args,
    environment: {},
    software: "1.2.3",
    plugins: [],
    defaultFile: null,
    startServer: () => Promise.reject(new Error("no server in this test")),
    sinks: {
      stdout: async (data) => {
        stdout += typeof data === "string" ? data : new TextDecoder().decode(data);
      },
      stderr: (text) => {
        stderr += text;
      },
    },
    ...options,
  });
  return { code, stdout, stderr };
}

/** A plugin with the given commands, and what was loaded of it. */
export function fakePlugin(commands: readonly CommandSpec[], changes: Partial<Plugin> = {}): BundledPlugin & { loads: number } {
  const name = changes.name ?? "fake";
  const entry = {
    name,
    commandNames: commands.map((command) => command.name),
    loads: 0,
    load: async (): Promise<Plugin> => {
      entry.loads += 1;
      return { name, version: "1.0.0", requires: { lockd: "^1" }, commands, ...changes };
    },
  };
  return entry;
}

/** A command that does what `body` says; its exit code is what that returns, or 0. */
export function command(
  spec: Partial<CommandSpec>,
  body: (context: CommandContext) => number | undefined | Promise<number | undefined> = () => 0,
): CommandSpec {
  return { name: "go", summary: "does a thing", load: async () => ({ run: async (context) => (await body(context)) ?? 0 }), ...spec };
}

/** Runs `go` with these words and returns the context that the command got. */
export async function contextOf(spec: Partial<CommandSpec>, words: readonly string[], options: Partial<ProgramOptions> = {}): Promise<CommandContext> {
  let context: CommandContext | null = null;
  const go = command(spec, (given) => {
    context = given;
    return 0;
  });
  const ended = await run(["go", ...words], { plugins: [fakePlugin([go])], ...options });
  if (context === null) throw new Error(`not run: ${ended.stderr}`);
  return context;
}

export const entry = fileURLToPath(new URL("../../bin/lockd.ts", import.meta.url));

/** A command line of the real program, as a new process from source. */
export const sourceCommand = (...args: string[]): string[] => [process.execPath, "--no-env-file", entry, ...args];

/** An environment without what the tester's own shell may hold. */
export function cleanEnvironment(changes: Record<string, string> = {}): Record<string, string> {
  return { PATH: process.env["PATH"] ?? "/usr/bin:/bin", HOME: process.env["HOME"] ?? "/", LANG: "C.UTF-8", ...changes };
}

/** Runs a shell script in which `lockd` is the real program from source. */
export async function shell(script: string, environment: Record<string, string> = {}): Promise<Ended> {
  const words = sourceCommand().map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
  const child = Bun.spawn(["bash", "-c", `lockd() { ${words} "$@"; }\n${script}`], {
    env: cleanEnvironment(environment),
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [code, stdout, stderr] = await Promise.all([child.exited, new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code, stdout, stderr };
}

/** The one `bun build` line. Every flag in it was needed: see the comments. */
import { mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";

/** BUN_OPTIONS and BUN_BE_BUN would change what the build, or the built binary, does. */
export function cleanEnvironment(): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && name !== "BUN_OPTIONS" && name !== "BUN_BE_BUN") environment[name] = value;
  }
  return environment;
}

export const version: string = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")).version;

/**
 * Replaces `outfile` in one step. The maps that bun leaves beside what it builds go: the executable holds
 * its own, by which its stack traces name sources. For another platform than this one give its target
 * name and the bun executable of it.
 */
export async function buildExecutable(options: { outfile: string; cross?: { target: string; runtime: string } }): Promise<void> {
  const work = mkdtempSync(`${options.outfile}.making-`);
  try {
    const built = join(work, basename(options.outfile));
    await compile({ ...options, outfile: built });
    renameSync(built, options.outfile);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

async function compile(options: Parameters<typeof buildExecutable>[0]): Promise<void> {
  const workers = [...new Bun.Glob("{src,plugins}/**/*.worker.ts").scanSync(".")].sort();
  const command = [
    process.execPath,
    "build",
    "--compile",
    // names stay: stack traces must be readable
    "--minify-syntax",
    "--minify-whitespace",
    "--sourcemap",
    // lazily imported subcommands are not parsed at start
    "--splitting",
    "--bytecode",
    // without it --bytecode yields a binary that dies at start
    "--format=esm",
    // else whoever owns the working directory could inject code by bunfig.toml or .env
    "--no-compile-autoload-bunfig",
    "--no-compile-autoload-dotenv",
    "--define",
    `LOCKD_VERSION=${JSON.stringify(version)}`,
    // given the runtime, the build downloads nothing by itself
    ...(options.cross === undefined ? [] : [`--target=${options.cross.target}`, `--compile-executable-path=${options.cross.runtime}`]),
    "bin/lockd.ts",
    ...workers,
    "--outfile",
    options.outfile,
  ];
  const build = Bun.spawn(command, { env: cleanEnvironment(), stdout: "pipe", stderr: "pipe" });
  const [code, output, errors] = await Promise.all([
    build.exited,
    new Response(build.stdout).text(),
    new Response(build.stderr).text(),
  ]);
  if (code !== 0) {
    process.stderr.write(output + errors);
    throw new Error(`bun build ended with ${code}`);
  }
}

/**
 * Programs that a benchmark needs from the machine: found or refused with the package that brings
 * them. Knows the names of none.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { LockdError } from "../../src/errors.ts";

/** The path of a program in PATH; `config` with the Debian package otherwise. */
export function requireTool(name: string, debianPackage: string): string {
  const path = Bun.which(name);
  if (path === null) throw new LockdError("config", `find ${name}: not installed`, { hint: `apt-get install ${debianPackage}` });
  return path;
}

/** The compiled lockd; `config` when it was not built. */
export function lockdProgram(): string {
  const path = fileURLToPath(new URL("../../dist/lockd", import.meta.url));
  if (!existsSync(path)) throw new LockdError("config", "find dist/lockd: not built", { hint: "npm run build" });
  return path;
}

/** First line of what a command prints, for the versions in a result. */
export function firstLineOf(command: readonly string[]): string {
  const run = Bun.spawnSync([...command], { stdin: "ignore", stderr: "pipe" });
  return (run.stdout.toString() || run.stderr.toString()).split("\n")[0]?.trim() ?? "";
}

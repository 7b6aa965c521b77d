/**
 * npm run bench -- NAME… [flags]: lists the benchmarks of this folder, or runs those that are named, one
 * after the other, each as a program of its own. Knows none by name: a file here is a benchmark.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL(".", import.meta.url));
const names = readdirSync(folder)
  .filter((file) => file.endsWith(".ts") && file !== "run.ts")
  .map((file) => file.slice(0, -3))
  .sort();

const firstFlag = process.argv.findIndex((argument, place) => place >= 2 && argument.startsWith("-"));
const chosen = process.argv.slice(2, firstFlag < 0 ? undefined : firstFlag);
const flags = firstFlag < 0 ? [] : process.argv.slice(firstFlag);

if (chosen.length === 0) {
  process.stdout.write(renderLeft(names.map((name) => [name, summaryOf(name)])));
  process.stdout.write("\nnpm run bench -- NAME… [--rounds N …]; an unknown flag lists those of the benchmark\n");
  process.exit(flags.length === 0 ? 0 : 64);
}
const unknown = chosen.filter((name) => !names.includes(name));
if (unknown.length > 0) {
  process.stderr.write(`bench: no benchmark ${unknown.join(", ")}; there are: ${names.join(", ")}\n`);
  process.exit(64);
}
let code = 0;
for (const name of chosen) {
  const run = Bun.spawn([process.execPath, "--no-env-file", join(folder, `${name}.ts`), ...flags], {
    stdin: "ignore",
    stdout: "inherit",
    stderr: "inherit",
  });
  code = Math.max(code, await run.exited);
}
process.exit(code);

/** The first sentence of the comment at the head of a benchmark. */
function summaryOf(name: string): string {
  const head = /^\/\*\*([\s\S]*?)\*\//.exec(readFileSync(join(folder, `${name}.ts`), "utf8"))?.[1] ?? "";
  const text = head.replace(/^\s*\*\s?/gm, "").replace(/\s+/g, " ").trim();
  return /^.*?[.:](?=\s|$)/.exec(text)?.[0].replace(/[.:]$/, "") ?? text;
}

function renderLeft(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, text]) => `${name.padEnd(width)}  ${text}\n`).join("");
}

/**
 * Runs every test file with bun's runner, type-checks first, and ends with `N passed, N failed` (npm test).
 * Arguments are passed on to `bun test`: npm test -- test/store.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const types = Bun.spawnSync(["node_modules/.bin/tsc", "-p", "."], { stdout: "inherit", stderr: "inherit" });
const folder = mkdtempSync(join(tmpdir(), "lockd-test-"));
const report = join(folder, "junit.xml");
const run = Bun.spawn(
  [process.execPath, "--no-env-file", "test", "--timeout=60000", "--reporter=junit", `--reporter-outfile=${report}`, ...process.argv.slice(2)],
  { stdout: "inherit", stderr: "inherit" },
);
const code = await run.exited;

let tests = 0;
let failures = 0;
let skipped = 0;
try {
  const suites = /<testsuites ([^>]*)>/.exec(readFileSync(report, "utf8"))?.[1] ?? "";
  const count = (name: string): number => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(suites)?.[1] ?? 0);
  tests = count("tests");
  failures = count("failures");
  skipped = count("skipped");
} catch {
  // no report: the run itself failed, which the next lines count
}
rmSync(folder, { recursive: true, force: true });

// A throw at module level is absent from the report; an empty run proves nothing.
let failed = failures;
if (types.exitCode !== 0) failed += 1;
if ((code !== 0 && failures === 0) || tests === 0) failed += 1;
const passed = Math.max(0, tests - failures - skipped);
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
process.exit(failed === 0 ? 0 : 1);

/** Builds dist/lockd for this machine and proves that the artifact starts (npm run build). */
import { rmSync } from "node:fs";
import { buildExecutable, cleanEnvironment } from "./compile.ts";

rmSync("dist", { recursive: true, force: true });
await buildExecutable({ outfile: "dist/lockd" });

const smoke = Bun.spawnSync(["dist/lockd", "__smoke"], { env: cleanEnvironment(), stdout: "pipe", stderr: "inherit" });
if (smoke.exitCode !== 0) {
  console.error(`smoke run failed: dist/lockd __smoke ended with ${smoke.exitCode ?? smoke.signalCode}`);
  process.exit(1);
}
console.log(`built dist/lockd: ${smoke.stdout.toString().trim()}`);

/** Builds dist/lockd for this machine and proves that the artifact starts; and the client library (npm run build). */
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { buildExecutable, cleanEnvironment } from "./compile.ts";
import { buildLibrary } from "./library.ts";

mkdirSync("dist", { recursive: true });
for (const name of readdirSync("dist")) {
  // releases were made to be kept, and what is built here replaces itself
  if (name !== "release" && name !== "client" && name !== "lockd") rmSync(`dist/${name}`, { recursive: true, force: true });
}
await buildExecutable({ outfile: "dist/lockd" });

const smoke = Bun.spawnSync(["dist/lockd", "__smoke"], { env: cleanEnvironment(), stdout: "pipe", stderr: "inherit" });
if (smoke.exitCode !== 0) {
  console.error(`smoke run failed: dist/lockd __smoke ended with ${smoke.exitCode ?? smoke.signalCode}`);
  process.exit(1);
}
await buildLibrary("dist/client");
console.log(`built dist/lockd: ${smoke.stdout.toString().trim()}`);

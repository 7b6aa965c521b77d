// Plain Node: after `npm ci --ignore-scripts` the package bun is a placeholder of a few hundred bytes;
// running its installer replaces it by the executable that npm already brought.
import { execFileSync } from "node:child_process";
import { statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../node_modules/bun/", import.meta.url));
const size = statSync(`${folder}bin/bun.exe`, { throwIfNoEntry: false })?.size;
if (size === undefined) {
  console.error("bun is not installed: run `npm install` in the project's folder first");
  process.exit(1);
}
if (size < 1_000_000) execFileSync(process.execPath, [`${folder}install.js`], { cwd: folder, stdio: "inherit" });

/**
 * Builds the client library: one ES module for Node 20+ and Bun, and its types. `bun scripts/library.ts
 * [FOLDER]`, by default into dist/client, where package.json's `exports` points.
 */
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { cleanEnvironment, version } from "./compile.ts";

const root = resolve(import.meta.dir, "..");
const ENTRY = "src/client/index.ts";

const manifest = {
  name: "lockd",
  version,
  description: "Client library of the lockd lock service",
  license: "MIT",
  type: "module",
  engines: { node: ">=20" },
  types: "./types/client/index.d.ts",
  exports: { ".": { types: "./types/client/index.d.ts", default: "./lockd.js" } },
};

/**
 * Replaces `folder` in one step when all of it is there: the npm package of the library, which `npm install
 * FOLDER` takes. Throws with the output of what failed.
 */
export async function buildLibrary(folder: string): Promise<void> {
  mkdirSync(dirname(folder), { recursive: true });
  const work = mkdtempSync(`${folder}.making-`);
  try {
    await buildModule(join(work, "lockd.js"));
    buildTypes(join(work, "types"));
    writeFileSync(join(work, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
    copyFileSync(join(root, "docs/client.md"), join(work, "README.md"));
    copyFileSync(join(root, "LICENSE"), join(work, "LICENSE"));
    // mkdtemp makes it for its user alone
    chmodSync(work, 0o755);
    rmSync(folder, { recursive: true, force: true });
    renameSync(work, folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Makes the npm package of the library in `folder`, as a file with this name: what `npm install FILE` takes. */
export async function packLibrary(folder: string): Promise<string> {
  const work = mkdtempSync(join(folder, ".packing-"));
  try {
    const client = join(work, "client");
    await buildLibrary(client);
    const pack = Bun.spawnSync(["npm", "pack", "--silent", "--offline"], { cwd: client, env: cleanEnvironment(), stdout: "pipe", stderr: "pipe" });
    if (pack.exitCode !== 0) throw new Error(`pack client library: ${pack.stderr.toString()}`);
    const packed = join(folder, packageName);
    renameSync(join(client, `lockd-${version}.tgz`), packed);
    return packed;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Its file in a release. */
export const packageName = `lockd-client-${version}.tgz`;

async function buildModule(outfile: string): Promise<void> {
  // `await using` inside is lowered for Node 20
  const built = await Bun.build({ entrypoints: [join(root, ENTRY)], target: "node", format: "esm" });
  const [module] = built.outputs;
  if (!built.success || module === undefined) throw new Error(`build client library: ${built.logs.join("\n")}`);
  const text = await module.text();
  const foreign = /\bfrom ?"bun\b.*|\bBun\.\w+|\bPromise\.(?:withResolvers|try)\b|\b(?:fromAsync|groupBy)\(/.exec(text)?.[0];
  if (foreign !== undefined) throw new Error(`build client library: Node 20 has no ${foreign}`);
  writeFileSync(outfile, text);
}

/** A declaration file for each module that the public face needs, with imports that every resolution understands. */
function buildTypes(folder: string): void {
  const tsc = [
    "node_modules/.bin/tsc", "--ignoreConfig", ENTRY, "--declaration", "--emitDeclarationOnly", "--stripInternal", "--rootDir", "src", "--outDir", folder,
    "--target", "ESNext", "--module", "ESNext", "--moduleResolution", "bundler", "--lib", "ESNext", "--types", "bun-types", "--strict",
    "--allowImportingTsExtensions", "--exactOptionalPropertyTypes", "--verbatimModuleSyntax", "--skipLibCheck", "--noCheck",
  ];
  const run = Bun.spawnSync(tsc, { cwd: root, env: cleanEnvironment(), stdout: "pipe", stderr: "pipe" });
  if (run.exitCode !== 0) throw new Error(`build types of the client library: ${run.stdout.toString()}${run.stderr.toString()}`);
  keepReachable(folder, join(folder, "client/index.d.ts"));
}

/** Rewrites `./x.ts` to `./x.js`, which is found as `x.d.ts`, and drops what the face does not lead to. */
function keepReachable(folder: string, entry: string): void {
  const kept = new Set<string>();
  const pending = [entry];
  for (let path = pending.pop(); path !== undefined; path = pending.pop()) {
    if (kept.has(path)) continue;
    kept.add(path);
    const text = readFileSync(path, "utf8");
    for (const [, specifier = ""] of text.matchAll(/(?:from |import\()"(\.[^"]+)\.ts"/g)) pending.push(join(dirname(path), `${specifier}.d.ts`));
    writeFileSync(path, text.replaceAll(/((?:from |import\()"\.[^"]+)\.ts"/g, '$1.js"'));
  }
  for (const name of new Bun.Glob("**/*.d.ts").scanSync(folder)) if (!kept.has(join(folder, name))) rmSync(join(folder, name));
  if (!existsSync(entry)) throw new Error("build types of the client library: the face has none");
}

if (import.meta.main) {
  const folder = resolve(process.argv[2] ?? join(root, "dist/client"));
  await buildLibrary(folder);
  console.log(`built ${folder}`);
}

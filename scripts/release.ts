/**
 * Makes dist/release/lockd-VERSION: an artifact for each platform, the client library as an npm package,
 * SHA256SUMS, install.sh (npm run release).
 * `-- --url URL` writes into install.sh where the folder will be served.
 *
 * The bun executable of each platform is its npm package, in the version and with the sum that
 * package-lock.json demands. The artifact for this machine is installed by the release's own install.sh
 * and run; of the others only the ELF header is checked.
 */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { buildExecutable, cleanEnvironment, version } from "./compile.ts";
import { packageName, packLibrary } from "./library.ts";
import { artifactName, checkExecutable, checkIntegrity, installerText, lockedPackage, platforms, sumsText, type Platform } from "./release-parts.ts";

const { values: flags } = parseArgs({ options: { url: { type: "string" } } });
const root = resolve(import.meta.dir, "..");
process.chdir(root);
const installer = installerText(readFileSync("install.sh", "utf8"), flags.url ?? null);
const lockFile: unknown = JSON.parse(readFileSync("package-lock.json", "utf8"));

mkdirSync("dist/release", { recursive: true });
const work = mkdtempSync("dist/release/.making-");
try {
  await makeRelease(`dist/release/lockd-${version}`);
} finally {
  rmSync(work, { recursive: true, force: true });
}

async function makeRelease(folder: string): Promise<void> {
  const files = new Map<string, Uint8Array>([["install.sh", new TextEncoder().encode(installer)]]);
  for (const platform of platforms) files.set(artifactName(version, platform), await artifact(platform));
  files.set(packageName, readFileSync(await packLibrary(work)));

  const making = join(work, "release");
  mkdirSync(making);
  for (const [name, bytes] of files) writeFileSync(join(making, name), bytes);
  writeFileSync(join(making, "SHA256SUMS"), sumsText(files));
  chmodSync(join(making, "install.sh"), 0o755);
  const tried = tryHere(making);

  rmSync(folder, { recursive: true, force: true });
  renameSync(making, folder);
  console.log(`made ${folder}`);
  for (const platform of platforms) {
    const name = artifactName(version, platform);
    const mebibytes = ((files.get(name)?.byteLength ?? 0) / 2 ** 20).toFixed(1);
    const verdict = platform === tried ? "installed and run here" : "NOT run here, only its ELF header was checked";
    console.log(`  ${name}  ${mebibytes} MiB  ${verdict}`);
  }
  console.log(`  ${packageName}  client library`);
}

/** Builds and packs one executable. The same sources give the same bytes: the header of the gzip has no time. */
async function artifact(platform: Platform): Promise<Uint8Array> {
  const folder = join(work, platform.name);
  mkdirSync(folder);
  const outfile = join(folder, "lockd");
  await buildExecutable({ outfile, cross: { target: platform.target, runtime: await fetchRuntime(platform, folder) } });
  const executable = readFileSync(outfile);
  checkExecutable(executable, platform);
  return Bun.gzipSync(executable, { level: 9, library: "zlib" });
}

/** Brings the bun executable of a platform from the package registry by npm, and checks it. */
async function fetchRuntime(platform: Platform, folder: string): Promise<string> {
  const { version: runtimeVersion, integrity } = lockedPackage(lockFile, platform.runtimePackage);
  if (runtimeVersion !== Bun.version) throw new Error(`build for ${platform.name}: package-lock.json has bun ${runtimeVersion}, this is ${Bun.version}`);
  const spec = `${platform.runtimePackage}@${runtimeVersion}`;
  run(["npm", "pack", spec, "--silent", "--pack-destination", folder]);
  const [packed] = [...new Bun.Glob("*.tgz").scanSync(folder)];
  if (packed === undefined) throw new Error(`fetch ${spec}: npm pack left no file`);
  checkIntegrity(spec, readFileSync(join(folder, packed)), integrity);
  run(["tar", "-xzf", join(folder, packed), "-C", folder, "package/bin/bun"]);
  return join(folder, "package/bin/bun");
}

/** Installs from the folder into a directory of no use; install.sh checks the sum and runs what it installs. */
function tryHere(folder: string): Platform | null {
  const platform = platforms.find(({ host }) => host === `${process.platform}-${process.arch}`);
  if (platform === undefined) return null;
  run(["sh", join(folder, "install.sh"), "--from", folder, "--version", version, "--bin-dir", join(work, "bin")]);
  return platform;
}

function run(command: readonly string[]): void {
  const result = Bun.spawnSync([...command], { env: cleanEnvironment(), stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  if (result.exitCode === 0) return;
  process.stderr.write(result.stdout.toString() + result.stderr.toString());
  throw new Error(`${command.slice(0, 3).join(" ")} ended with ${result.exitCode ?? result.signalCode}`);
}

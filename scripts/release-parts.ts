/**
 * What a release is made of, without making one: the platforms, the checks on what comes from the
 * package registry and on what was built, and the texts that go into the folder.
 */
import { createHash } from "node:crypto";

export interface Platform {
  /** as install.sh names it */
  name: string;
  /** as bun build names it */
  target: string;
  /** the package that brings its bun executable */
  runtimePackage: string;
  /** e_machine of its executables' ELF header */
  elfMachine: number;
  /** process.platform and process.arch of machines that run it */
  host: string;
}

/** One bun executable serves every x64 CPU with SSE4.2: there is no separate baseline build to choose. */
export const platforms: readonly Platform[] = [
  { name: "linux-x64", target: "bun-linux-x64", runtimePackage: "@oven/bun-linux-x64", elfMachine: 62, host: "linux-x64" },
  { name: "linux-arm64", target: "bun-linux-arm64", runtimePackage: "@oven/bun-linux-aarch64", elfMachine: 183, host: "linux-arm64" },
];

export interface Locked {
  version: string;
  /** as npm writes it: `sha512-` and base64 */
  integrity: string;
}

/** What package-lock.json says of a package; the lock file lists the packages of all platforms. */
export function lockedPackage(lockFile: unknown, name: string): Locked {
  const entry = field(field(lockFile, "packages"), `node_modules/${name}`);
  const version = field(entry, "version");
  const integrity = field(entry, "integrity");
  if (typeof version !== "string" || typeof integrity !== "string") {
    throw new Error(`read package-lock.json: ${name} is not in it with version and integrity`);
  }
  return { version, integrity };
}

/** Throws unless the bytes have the sum that the lock file demands. */
export function checkIntegrity(name: string, bytes: Uint8Array, integrity: string): void {
  const [algorithm = "", ...rest] = integrity.split("-");
  if (algorithm !== "sha512") throw new Error(`check ${name}: package-lock.json has ${algorithm || "no sum"}, not sha512`);
  const actual = createHash("sha512").update(bytes).digest("base64");
  if (actual !== rest.join("-")) throw new Error(`check ${name}: its sha512 is ${actual}, package-lock.json demands ${rest.join("-")}`);
}

/** Throws unless the file begins as a 64-bit little-endian ELF executable for this platform. */
export function checkExecutable(bytes: Uint8Array, platform: Platform): void {
  const header = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, 64));
  const wrong = (what: string): Error => new Error(`check the build for ${platform.name}: ${what}`);
  if (header.length < 64 || header.toString("latin1", 0, 4) !== "\x7fELF") throw wrong("it is no ELF file");
  if (header[4] !== 2 || header[5] !== 1) throw wrong("it is not 64-bit little-endian");
  const machine = header.readUInt16LE(18);
  if (machine !== platform.elfMachine) throw wrong(`its machine is ${machine}, not ${platform.elfMachine}`);
}

export const artifactName = (version: string, platform: Platform): string => `lockd-${version}-${platform.name}.gz`;

/** The file that `sha256sum -c` reads, sorted by name. */
export function sumsText(files: ReadonlyMap<string, Uint8Array>): string {
  return [...files.keys()]
    .sort()
    .map((name) => `${createHash("sha256").update(files.get(name) ?? new Uint8Array()).digest("hex")}  ${name}\n`)
    .join("");
}

/** install.sh as it lies in a release; with its address, so that `curl … | sh` needs no variable. */
export function installerText(installer: string, url: string | null): string {
  if (url === null) return installer;
  if (!/^https?:\/\/[\w.:[\]-]+(?:\/[\w.~/%+-]*)?$/.test(url)) throw new Error(`read --url: ${url} is not a plain http or https address`);
  const line = /^ {2}release_url=$/m;
  if (!line.test(installer)) throw new Error("write install.sh: it has no line release_url=");
  return installer.replace(line, `  release_url='${url}'`);
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Object.entries(value).find(([key]) => key === name)?.[1] : undefined;
}

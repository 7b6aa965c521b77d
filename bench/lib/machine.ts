/**
 * What a result must say about the machine it came from: processor, kernel, disk and versions.
 * Reads /proc and /sys of Linux; elsewhere it says what node:os knows.
 */
import { readFileSync, statSync, readlinkSync } from "node:fs";
import { arch, cpus, release, totalmem, type as system } from "node:os";
import { basename, dirname, join } from "node:path";
import { softwareVersion } from "../../src/version.ts";

export interface Machine {
  cpu: string;
  cores: number;
  architecture: string;
  memoryBytes: number;
  kernel: string;
  /** file system, block device and kind of the disk under the data directories */
  disk: string;
  versions: Readonly<Record<string, string>>;
}

/** `versions` are those of the peers, as they report them. */
export async function describeMachine(directory: string, versions: Readonly<Record<string, string>>): Promise<Machine> {
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: cpus().length,
    architecture: arch(),
    memoryBytes: totalmem(),
    kernel: `${system()} ${release()}`,
    disk: describeDisk(directory),
    versions: { lockd: await softwareVersion(), bun: Bun.version, ...versions },
  };
}

export interface Mount {
  point: string;
  fileSystem: string;
  device: string;
}

/** The mount that holds `path`, out of the text of /proc/self/mounts; null when none does. */
export function mountOf(path: string, mounts: string): Mount | null {
  let found: Mount | null = null;
  for (const line of mounts.split("\n")) {
    const [device, rawPoint, fileSystem] = line.split(" ");
    if (device === undefined || rawPoint === undefined || fileSystem === undefined) continue;
    const point = rawPoint.replace(/\\(\d{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)));
    const inside = path === point || path.startsWith(point.endsWith("/") ? point : `${point}/`);
    // a later line covers an earlier one of the same length: it was mounted over it
    if (inside && (found === null || point.length >= found.point.length)) found = { point, fileSystem, device };
  }
  return found;
}

function describeDisk(directory: string): string {
  const mount = mountOf(directory, readText("/proc/self/mounts") ?? "");
  const fileSystem = mount === null ? "unknown" : `${mount.fileSystem} on ${mount.device}`;
  const queue = queueFolder(directory);
  if (queue === null) return fileSystem;
  const kind = readText(join(queue, "queue/rotational"))?.trim() === "1" ? "rotating" : "not rotating";
  const cache = readText(join(queue, "queue/write_cache"))?.trim() ?? "unknown cache";
  return `${fileSystem}, ${basename(queue)}, ${kind}, ${cache}`;
}

/** The /sys folder of the whole disk behind a directory; null where there is none. */
function queueFolder(directory: string): string | null {
  const device = statSync(directory).dev;
  // the coding of device numbers in struct stat of Linux, for numbers below 2^32
  const name = `${(device >> 8) & 0xfff}:${(device & 0xff) | ((device >> 12) & 0xfff00)}`;
  try {
    const folder = join("/sys/dev/block", readlinkSync(`/sys/dev/block/${name}`));
    return readText(join(folder, "queue/rotational")) === null ? dirname(folder) : folder;
  } catch {
    return null; // overlay, network or another system: the mount's description has to do
  }
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}

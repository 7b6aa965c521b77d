/**
 * The data directory as a server needs it: there, its own, with room, on a file system that keeps what it
 * was given, and how long a sync takes on it. Leaves nothing behind: its file loses its name when it is opened.
 */
import { accessSync, closeSync, constants, existsSync, fdatasync, openSync, type Stats, statSync, statfsSync, unlinkSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { type Check, errorText, median, milliseconds, systemCode, within, worst } from "./check.ts";

const OTHERS_MAY_LOOK = 0o077;
const MIB = 1024 * 1024;
const FREE_BYTES_LOW = 512 * MIB;
const FREE_BYTES_MIN = 32 * MIB;

/** Numbers of file systems (statfs(2)) whose name says what to expect. */
const FILE_SYSTEMS: ReadonlyMap<number, { name: string; danger?: string }> = new Map([
  [0xef53, { name: "ext4" }],
  [0x58465342, { name: "xfs" }],
  [0x9123683e, { name: "btrfs" }],
  [0x2fc12fc1, { name: "zfs" }],
  [0xf2f52010, { name: "f2fs" }],
  [0x794c7630, { name: "overlay", danger: "in a container it goes when the container goes" }],
  [0x01021994, { name: "tmpfs", danger: "it is memory: all is lost at the next boot, and tokens would start again" }],
  [0x858458f6, { name: "ramfs", danger: "it is memory: all is lost at the next boot, and tokens would start again" }],
  [0x6969, { name: "nfs", danger: "a sync depends on another machine, and file locks there may be lost" }],
  [0xff534d42, { name: "cifs", danger: "a sync depends on another machine, and file locks there may be lost" }],
  [0xfe534d42, { name: "smb2", danger: "a sync depends on another machine, and file locks there may be lost" }],
  [0x01021997, { name: "9p", danger: "whether a sync reaches the disk depends on the other side" }],
  [0x65735546, { name: "fuse", danger: "whether a sync reaches the disk depends on the program behind it" }],
]);

export interface DirectoryChoice {
  path: string;
  /** whether somebody chose it; the default may well be missing on a machine without a server */
  given: boolean;
}

/** Everything but how fast it is. */
export function checkDirectory({ path, given }: DirectoryChoice): readonly Check[] {
  let stats: Stats;
  try {
    stats = statSync(path);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") return [failed(`${path}: ${systemCode(error) ?? errorText(error)}`, "choose a directory with --data that this user may use")];
    const summary = `${path} does not exist; \`lockd serve\` makes it`;
    return [{ check: "data-directory", state: given ? "warning" : "ok", summary, ...(given ? { hint: "check --data if a server ran here before" } : {}), details: { path, exists: false } }];
  }
  if (!stats.isDirectory()) return [failed(`${path} is not a directory`, "choose another with --data")];
  return [accessCheck(path, stats), fileSystemCheck(path)];
}

function accessCheck(path: string, { uid, mode }: Stats): Check {
  const own = process.getuid?.() ?? uid;
  const facts = `${path}, owner ${uid}, mode ${(mode & 0o7777).toString(8).padStart(4, "0")}`;
  const details = { path, exists: true, owner: uid, mode: (mode & 0o7777).toString(8).padStart(4, "0") };
  try {
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return { ...failed(`${facts}: this user (${own}) may not write there`, "run doctor and the server as the owner, or give the directory to their user"), details };
  }
  if (uid !== own) return { check: "data-directory", state: "warning", summary: `${facts}: this user is ${own}`, hint: "files made by another user than the server's may keep it from starting", details };
  if ((mode & OTHERS_MAY_LOOK) !== 0) return { check: "data-directory", state: "warning", summary: `${facts}: others may look inside`, hint: `chmod 0700 ${path}`, details };
  return { check: "data-directory", state: "ok", summary: facts, details };
}

function fileSystemCheck(path: string): Check {
  const { type, bavail, bsize } = statfsSync(path);
  const known = FILE_SYSTEMS.get(type);
  const freeBytes = bavail * bsize;
  const name = known?.name ?? `type 0x${type.toString(16)}`;
  const room = freeBytes < FREE_BYTES_MIN ? "failed" : freeBytes < FREE_BYTES_LOW ? "warning" : "ok";
  const state = worst([room, known?.danger === undefined ? "ok" : "warning"]);
  const danger = known?.danger === undefined ? "" : `: ${known.danger}`;
  const hint = room !== "ok" ? "make room: a server with a full disk grants nothing" : "put the data directory on a local disk";
  return {
    check: "file-system",
    state,
    summary: `${name}, ${Math.floor(freeBytes / MIB).toLocaleString("en")} MiB free${danger}`,
    ...(state === "ok" ? {} : { hint }),
    details: { fileSystem: name, freeBytes },
  };
}

const failed = (summary: string, hint: string): Check => ({ check: "data-directory", state: "failed", summary, hint });

const SYNCS = 25;
const SYNC_BYTES = 4096;
/** All of them together; a slower disk is judged by fewer. */
const SYNC_MS_MAX = 1500;
/** One that takes longer is not waited for. */
const SYNC_HANG_MS = 2500;
const SLOW_MS = 20;

/** Writes and syncs 4 KiB some times, in the directory or, as long as there is none, where it would be made. */
export async function checkSync(choice: DirectoryChoice): Promise<readonly Check[]> {
  const directory = nearest(choice.path);
  const place = directory === choice.path ? "" : ` (in ${directory})`;
  try {
    const times = await within(SYNC_HANG_MS, measureSyncs(directory), null);
    if (times === null) return [{ check: "sync", state: "failed", summary: `no sync of 4 KiB has ended within ${SYNC_HANG_MS} ms${place}`, hint: "look for a failing or overloaded disk (dmesg, iostat -x)" }];
    const middleMs = median(times);
    const worstMs = Math.max(...times);
    const rate = Math.round(1000 / middleMs);
    const state = middleMs > SLOW_MS ? "warning" : "ok";
    return [
      {
        check: "sync",
        state,
        summary: `median ${milliseconds(middleMs)}, worst ${milliseconds(worstMs)}${place}: about ${rate.toLocaleString("en")} commits a second, each for all requests that wait`,
        ...(state === "ok" ? {} : { hint: "a disk with power-loss protection syncs in less than a millisecond" }),
        details: { medianMs: middleMs, worstMs, syncs: times.length, commitsPerSecond: rate },
      },
    ];
  } catch (error) {
    const code = systemCode(error);
    // without a directory of its own there is no promise to write here
    if (directory !== choice.path && (code === "EACCES" || code === "EROFS" || code === "EPERM")) return [];
    return [{ check: "sync", state: "failed", summary: `write and sync 4 KiB in ${directory}: ${code ?? errorText(error)}`, hint: "a server needs a data directory that it can write to" }];
  }
}

function nearest(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : nearest(dirname(path));
}

async function measureSyncs(directory: string): Promise<readonly number[]> {
  const path = join(directory, `.lockd-doctor-${process.pid}-${crypto.randomUUID()}`);
  const descriptor = openSync(path, "wx", 0o600);
  try {
    // gone by name at once, so that nothing stays behind however this process ends
    unlinkSync(path);
    const block = new Uint8Array(SYNC_BYTES).fill(1);
    const times: number[] = [];
    const endMs = performance.now() + SYNC_MS_MAX;
    while (times.length < SYNCS && performance.now() < endMs) {
      writeSync(descriptor, block);
      const startMs = performance.now();
      await promisify(fdatasync)(descriptor);
      times.push(performance.now() - startMs);
    }
    return times;
  } finally {
    closeSync(descriptor);
  }
}

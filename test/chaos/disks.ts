/**
 * Disks that can be cut off and filled: file systems in an image file, and small ones in memory. Needs
 * root, mount, losetup and mkfs.ext4. All of it is unmounted after the test, also after a failed one.
 */
import { closeSync, copyFileSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { later } from "./cleanup.ts";
import { directory, run } from "./world.ts";

/** Small, so that a copy takes little time; ext4 with a journal needs at least 2 MiB. */
const IMAGE_BYTES = 48 * 1024 * 1024;

/**
 * An ext4 file system in a file. What programs write stays in the page cache of the mounted file system
 * until they sync it (or for half a minute): only what was synced is in the image file, so a copy of
 * that is what a disk holds after a power cut. With commit=600 the journal is not written in between.
 */
export class ImageDisk {
  readonly image: string;
  readonly path: string;

  private constructor(image: string, path: string) {
    this.image = image;
    this.path = path;
  }

  static create(): ImageDisk {
    const image = join(directory("image"), "disk.img");
    writeFileSync(image, "");
    run("truncate", "-s", String(IMAGE_BYTES), image);
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image);
    const disk = ImageDisk.#mount(image);
    // what mkfs and mount wrote is not part of any experiment
    run("sync", "-f", disk.path);
    return disk;
  }

  /** The disk as a power cut at this moment leaves it, mounted elsewhere. Whoever writes must be stopped or dead. */
  afterPowerCut(): ImageDisk {
    const copy = join(directory("image"), "disk.img");
    copyFileSync(this.image, copy);
    return ImageDisk.#mount(copy);
  }

  static #mount(image: string): ImageDisk {
    const path = join(directory("mount"), "disk");
    mkdirSync(path);
    run("mount", "-t", "ext4", "-o", "loop,commit=600", image, path);
    // detaches the loop device as well; lazy, should a process that is just dying still use it
    later(() => void run("umount", "-l", path));
    return new ImageDisk(image, path);
  }
}

/** A file system in memory, such as `8m` large. */
export function memoryDisk(size: string): string {
  const path = join(directory("mount"), "disk");
  mkdirSync(path);
  run("mount", "-t", "tmpfs", "-o", `size=${size}`, "tmpfs", path);
  later(() => void run("umount", "-l", path));
  return path;
}

/** Takes all the room that is left, while others may write, too; removing the file, whose path is the answer, gives it back. */
export function fill(path: string): string {
  const ballast = join(path, "ballast");
  const descriptor = openSync(ballast, "wx");
  try {
    for (let block = new Uint8Array(1024 * 1024); block.length > 0; ) {
      // a write that found some room stops short, one that found none fails
      const written = writeOrNothing(descriptor, block);
      if (written < block.length) block = block.subarray(0, written >> 1);
    }
  } finally {
    closeSync(descriptor);
  }
  return ballast;
}

function writeOrNothing(descriptor: number, block: Uint8Array): number {
  try {
    return writeSync(descriptor, block);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOSPC") return 0;
    throw error;
  }
}

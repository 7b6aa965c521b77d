/**
 * Whether somebody else could have put code where a plugin is loaded from: owners and modes of files and
 * of all folders above them, as ssh looks at its keys. Reads the file system, loads nothing.
 */
import { lstatSync, readlinkSync, type Stats } from "node:fs";
import { dirname, resolve } from "node:path";

const WRITABLE_BY_OTHERS = 0o022;
const STICKY = 0o1000;
/** As many as Linux follows in one path. */
const LINKS_MAX = 40;

/**
 * Why the file or folder at the absolute path is not to be trusted by the user `uid`, as a sentence; null
 * when it is. It and every folder above it must belong to that user or to root, and only its owner may
 * write to it; a folder such as /tmp, in which only owners may rename and delete, may be above it. The
 * same holds for what symbolic links on the way lead to. Throws the error of the file system.
 */
export function distrust(path: string, uid: number): string | null {
  return walk(path, uid, 0);
}

function walk(path: string, uid: number, links: number): string | null {
  const above = dirname(path);
  const reason = above === path ? null : walk(above, uid, links);
  if (reason !== null) return reason;
  const stat = lstatSync(path);
  const own = distrustOf(path, stat, uid);
  if (own !== null || !stat.isSymbolicLink()) return own;
  if (links >= LINKS_MAX) return `${path} is one of too many symbolic links`;
  return walk(resolve(above, readlinkSync(path)), uid, links + 1);
}

/** Of one entry alone, whatever is above it. The mode of a symbolic link means nothing. */
export function distrustOf(path: string, stat: Pick<Stats, "uid" | "mode" | "isSymbolicLink" | "isDirectory">, uid: number): string | null {
  if (stat.uid !== 0 && stat.uid !== uid) return `${path} belongs to user ${stat.uid}, who is neither root nor the user that runs lockd`;
  if (stat.isSymbolicLink() || (stat.mode & WRITABLE_BY_OTHERS) === 0) return null;
  if (stat.isDirectory() && (stat.mode & STICKY) !== 0) return null;
  return `${path} can be written by others than its owner`;
}

/** What mends it, for a hint. */
export const TRUST_HINT = "let it and all folders above it belong to root or to that user, and take the right to write from others: chmod go-w";

/** How many descriptors this process may open and has open. Linux; knows nothing of connections. */
import { readdirSync, readFileSync } from "node:fs";

/** Kept free for files, the store and outgoing connections. */
const RESERVED = 64;

export interface Descriptors {
  /** soft limit in force, null when the system does not tell */
  limit: number | null;
  open: number;
}

export function readDescriptors(): Descriptors {
  try {
    const line = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
    // the listing itself holds one
    return { limit: line === null ? null : Number(line[1]), open: readdirSync("/proc/self/fd").length - 1 };
  } catch {
    // no /proc: the configured limit stands alone
    return { limit: null, open: 0 };
  }
}

/**
 * Connections that may be open at once: what is configured, lowered to what the descriptors bear. With
 * a very low limit less is reserved (a quarter), but one connection is always allowed.
 */
export function connectionLimit(configured: number, { limit, open }: Descriptors): number {
  if (limit === null) return configured;
  const reserved = Math.min(RESERVED, Math.floor(limit / 4));
  return Math.max(1, Math.min(configured, limit - reserved - open));
}

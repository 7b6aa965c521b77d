/**
 * The judge of mutual exclusion: an append-only file in which every client notes what it did with its
 * locks, and the rules that such a file must keep. Knows no server. Times are milliseconds of the boot
 * clock of this machine, so that entries of different processes compare.
 */
import { closeSync, existsSync, openSync, readFileSync, writeSync } from "node:fs";

export type LedgerEvent =
  /** the client was told that it holds the lock */
  | "enter"
  /** a renewal was confirmed */
  | "renewed"
  /** the client was told, or knew by its clock, that it does not hold the lock any more */
  | "lost"
  /** the client is about to give the lock back */
  | "leave"
  /** the server has confirmed the release */
  | "unlocked";

export interface LedgerEntry {
  event: LedgerEvent;
  object: string;
  token: number;
  /** who: one loop of one client process */
  owner: string;
  atMs: number;
  /** enter, renewed: until when the client relies on the lock */
  deadlineMs: number;
  unlockDurationMs: number;
}

/** Appends whole lines; many processes may do so at once. */
export class LedgerWriter {
  readonly #descriptor: number;

  constructor(path: string) {
    this.#descriptor = openSync(path, "a");
  }

  note(entry: LedgerEntry): void {
    writeSync(this.#descriptor, `${JSON.stringify(entry)}\n`);
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

export function readLedger(path: string): LedgerEntry[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line): LedgerEntry => JSON.parse(line));
}

interface Section {
  entry: LedgerEntry;
  deadlineMs: number;
  left: boolean;
  lost: boolean;
}

/** Readings of the boot clock by two processes agree to the resolution of /proc/uptime, which clients read. */
const CLOCK_SLACK_MS = 20;

/**
 * What the file shows against the promises, as sentences; empty when all is well: sections of one
 * object never overlap, one that was not left is waited out to the end of its lease and grace, and was
 * known as lost by its owner before the next began; tokens of one object rise.
 */
export function violations(entries: readonly LedgerEntry[], options: { ownersMayBeDead?: boolean } = {}): string[] {
  const found: string[] = [];
  const last = new Map<string, Section>();
  for (const entry of entries) {
    const { object, token, owner, atMs } = entry;
    const section = last.get(object);
    if (entry.event !== "enter") {
      // about an earlier section: late news that change nothing
      if (section === undefined || section.entry.token !== token) continue;
      if (section.entry.owner !== owner) found.push(`${object}: token ${token} is used by ${owner} and by ${section.entry.owner}`);
      if (entry.event === "renewed") section.deadlineMs = entry.deadlineMs;
      else if (entry.event === "lost") section.lost = true;
      else section.left = true;
      continue;
    }
    if (section !== undefined) {
      if (token <= section.entry.token) found.push(`${object}: token ${token} of ${owner} does not exceed ${section.entry.token} before it`);
      if (!section.left) {
        const who = `${section.entry.owner} (token ${section.entry.token})`;
        const earlyMs = section.deadlineMs + section.entry.unlockDurationMs - CLOCK_SLACK_MS - atMs;
        if (earlyMs > 0) found.push(`${object}: ${owner} (token ${token}) came in ${Math.round(earlyMs)} ms before the lease and grace of ${who} were over`);
        if (!section.lost && options.ownersMayBeDead !== true) found.push(`${object}: ${owner} (token ${token}) came in while ${who} thought that it holds`);
      }
    }
    last.set(object, { entry, deadlineMs: entry.deadlineMs, left: false, lost: false });
  }
  return found;
}

/** Tokens whose release was confirmed. */
export function unlockedTokens(entries: readonly LedgerEntry[]): Set<number> {
  return new Set(entries.filter(({ event }) => event === "unlocked").map(({ token }) => token));
}

/** The largest token that any client was told. */
export const largestToken = (entries: readonly LedgerEntry[]): number => entries.reduce((most, { token }) => Math.max(most, token), 0);

/** Entries of `enter` whose holder has neither begun to give the lock back nor lost it: the server must still know them. */
export function heldEntries(entries: readonly LedgerEntry[]): LedgerEntry[] {
  const held = new Map<number, LedgerEntry>();
  for (const entry of entries) {
    if (entry.event === "enter") held.set(entry.token, entry);
    else if (entry.event !== "renewed") held.delete(entry.token);
  }
  return [...held.values()];
}

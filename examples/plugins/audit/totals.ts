/** What is counted, apart from everything that talks to the outside: easy to test, and the same on both sides. */
import { type Body, LockdError, readInteger } from "lockd:api";
import type { LockEvent } from "lockd:lock";

export interface Totals {
  granted: number;
  /** ended by its holder's lateness or by force */
  lost: number;
  heldMs: number;
}

const LOST = ["expired", "forced", "kicked"];

/** The totals after an event; null when it counts for nothing. */
export function counted(totals: Totals, { event, held = 0 }: LockEvent): Totals | null {
  if (event === "granted") return { ...totals, granted: totals.granted + 1 };
  if (event === "released") return { ...totals, heldMs: totals.heldMs + held };
  if (LOST.includes(event)) return { ...totals, lost: totals.lost + 1, heldMs: totals.heldMs + held };
  return null;
}

/** From a message or a record: what comes from outside is looked at, whoever has written it. */
export function readTotals(body: Body): Totals {
  const range = { min: 0, max: Number.MAX_SAFE_INTEGER };
  return { granted: readInteger(body, "granted", range), lost: readInteger(body, "lost", range), heldMs: readInteger(body, "heldMs", range) };
}

/** The entries of an answer's body. */
export function readEntries(body: Body): { object: string; totals: Totals }[] {
  const entries = body["entries"];
  if (!Array.isArray(entries)) throw new LockdError("protocol", "read AUDITED: it has no entries");
  return entries.map((entry: unknown) => {
    if (!isBody(entry) || typeof entry["object"] !== "string") throw new LockdError("protocol", "read AUDITED: an entry has no object");
    return { object: entry["object"], totals: readTotals(entry) };
  });
}

export const isBody = (value: unknown): value is Body => typeof value === "object" && value !== null && !Array.isArray(value);

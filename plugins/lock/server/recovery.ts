/** Builds the lock table and its timeline from what a node's store holds. Reads only. */
import type { Clock } from "../../../src/clock/clock.ts";
import { LockdError } from "../../../src/errors.ts";
import type { Namespace } from "../../../src/store/types.ts";
import { LockTable } from "../core/table.ts";
import type { LockLimits } from "../core/types.ts";
import { EngineTimeline } from "./engine-timeline.ts";

export interface Recovered {
  table: LockTable;
  timeline: EngineTimeline;
  /** whether the machine was started anew since the last durable batch */
  rebooted: boolean;
}

/** The last durable state; the command `restart` is to follow. Throws LockdError `corrupt`. */
export function recover(namespace: Namespace, options: { limits: LockLimits; bootId: string; clock: Clock }): Recovered {
  const { limits, bootId, clock } = options;
  let stored: Uint8Array | null = null;
  const records: [string, Uint8Array][] = [];
  for (const [key, value] of namespace.records()) {
    if (key === EngineTimeline.RECORD_KEY) stored = value;
    else records.push([key, value]);
  }
  if (stored === null && records.length > 0) {
    throw new LockdError("corrupt", "read lock state: there are tickets, but no record of the time", {
      hint: "restore the data directory from a backup, or remove it to start anew",
    });
  }
  const table = LockTable.restore(records, limits);
  if (stored === null) return { table, timeline: EngineTimeline.fresh(bootId, clock), rebooted: false };
  return { table, ...EngineTimeline.resume(stored, bootId, clock) };
}

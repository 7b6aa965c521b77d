/** Options of the lock service: section `[lock]` of the configuration file. */
import type { OptionSpec } from "../../src/config/types.ts";
import type { OptionValue } from "../../src/config/types.ts";
import { assert } from "../../src/errors.ts";
import type { LockLimits } from "./core/types.ts";

/**
 * A session that is taken over hears of all its tickets in one frame of 16 MiB. One ticket takes at most 339 bytes
 * with an object's name of 64 bytes, where it stands twice; names of 100 bytes still fit.
 */
export const TICKETS_PER_SESSION_MAX = 40_000;

export const lockOptions: readonly OptionSpec[] = [
  limit("objects-max", 1_000_000, "distinct objects that may have tickets at one time"),
  limit("tickets-max", 2_000_000, "tickets, held and waiting, at one time"),
  limit("tickets-per-session-max", TICKETS_PER_SESSION_MAX, "tickets that one session may have", TICKETS_PER_SESSION_MAX),
  limit("waiters-per-object-max", 200_000, "tickets that may wait for one object"),
  limit("sessions-max", 250_000, "sessions at one time"),
  limit("history-max", 10_000, "events kept for `lockd events`, `lockd why` and watchers"),
];

function limit(name: string, value: number, help: string, max = 10_000_000): OptionSpec {
  return { name, type: "integer", min: 1, max, default: value, help };
}

/** The table's limits from the validated section. */
export function limitsFrom(config: Readonly<Record<string, OptionValue>>): LockLimits {
  return {
    objectsMax: numberOf(config, "objects-max"),
    ticketsMax: numberOf(config, "tickets-max"),
    ticketsPerSessionMax: numberOf(config, "tickets-per-session-max"),
    waitersPerObjectMax: numberOf(config, "waiters-per-object-max"),
    sessionsMax: numberOf(config, "sessions-max"),
    objectsPerTicketMax: 64,
    lostMax: 10_000,
    workPerStepMax: 256,
  };
}

export function numberOf(config: Readonly<Record<string, OptionValue>>, name: string): number {
  const value = config[name];
  assert(typeof value === "number", `option lock.${name} is a number`);
  return value;
}

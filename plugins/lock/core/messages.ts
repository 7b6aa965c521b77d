/**
 * The sentences of the table for people: who is in the way, how long, and why a lock was refused or
 * lost. Owns wording and the list of blockers; decides nothing.
 */
import type { LockObject, Ticket } from "./entities.ts";
import { NOTHING, fits } from "./load.ts";
import type { TableState } from "./state.ts";
import type { Blocker, Holder, LockSpec, LossReason, WaitEdge } from "./types.ts";

/** Blockers named in one answer. */
const BLOCKERS_MAX = 8;

/** A duration for people: 250ms, 3.2s, 5m, 2h, 1d. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))}ms`;
  if (ms < 60_000) return `${Math.round(ms / 100) / 10}s`;
  const units: readonly [number, string][] = [
    [86_400_000, "d"],
    [3_600_000, "h"],
    [60_000, "m"],
  ];
  for (const [size, name] of units) {
    if (ms >= size) return `${Math.round((ms * 10) / size) / 10}${name}`;
  }
  return `${ms}ms`;
}

export const quote = (object: string): string => JSON.stringify(object);

export const describe = (holder: Holder): string =>
  `${holder.name} on ${holder.host} (pid ${holder.pid}, ${holder.program})`;

/** Who is in the way of a request at its objects: the holders, else the first who waits. */
export function blockersOf(state: TableState, spec: LockSpec, except: Ticket | null): Blocker[] {
  const blockers: Blocker[] = [];
  for (const name of spec.objects) {
    const object = state.objects.get(name);
    if (object === undefined) continue;
    if (fits(spec, object.held, NOTHING)) {
      const ahead = object.tickets.weightedAt(0)?.value.ticket;
      if (ahead !== undefined && ahead !== except) blockers.push(blocker(object, ahead));
    } else {
      for (let place = object.firstHolder; place !== null; place = place.nextHolder) {
        blockers.push(blocker(object, place.ticket));
        if (blockers.length >= BLOCKERS_MAX) return blockers;
      }
    }
    if (blockers.length >= BLOCKERS_MAX) return blockers;
  }
  return blockers;
}

function blocker(object: LockObject, ticket: Ticket): Blocker {
  return {
    object: object.name,
    holder: ticket.holder,
    session: ticket.session.id,
    token: ticket.state === "waiting" ? null : ticket.token,
    sinceMs: ticket.sinceMs,
    state: ticket.state,
  };
}

/** One sentence that names the first of them, or what else keeps the objects from being granted. */
export function obstacle(state: TableState, spec: LockSpec, blockers: readonly Blocker[]): string {
  for (const name of spec.objects) {
    const delay = state.objects.get(name)?.delay;
    if (delay !== undefined && delay !== null) {
      return `${quote(name)} is kept free by a lock-delay for ${duration(delay.untilMs - state.nowMs)}`;
    }
  }
  const first = blockers[0];
  if (first === undefined) return `${quote(spec.objects[0] ?? "")} was not granted in time`;
  const who = describe(first.holder);
  const since = duration(state.nowMs - first.sinceMs);
  const more = blockers.length > 1 ? ` and ${blockers.length - 1} more` : "";
  if (first.token === null) return `${quote(first.object)} is waited for by ${who} since ${since}${more}`;
  const grace = first.state === "unlocking" ? ", told to leave" : "";
  return `${quote(first.object)} is locked by ${who}, token ${first.token}${grace}, since ${since}${more}`;
}

/** Who took a lock by force, and why, as the history keeps it. */
export const forceNote = (command: { by: string; reason: string; dead?: boolean }): string =>
  `by ${command.by}${command.dead === true ? ", who states that the holder is dead" : ""}${command.reason === "" ? "" : `: ${command.reason}`}`;

/** Why a lock is gone. */
export function lossText(reason: LossReason): string {
  switch (reason) {
    case "timedout":
      return "its duration was over before it was renewed";
    case "forced":
      return "it was released by force";
    case "kicked":
      return "its session was kicked";
    case "lost":
      return "its owner did not claim it any more";
  }
}

/** A deadlock in words: who waits for what held by whom, around the cycle. */
export function cycleText(cycle: readonly WaitEdge[]): string {
  const steps = cycle.map(({ waiter, object, holder }) => {
    const verb = holder.token === undefined ? "wanted earlier" : "held";
    return `${describe(waiter.holder)} waits for ${quote(object)} ${verb} by ${describe(holder.holder)}`;
  });
  return `deadlock: ${steps.join("; ")}`;
}

/**
 * The work that is due: what freed locks and changed sessions lead to, then deadlines, then position
 * reports. Owns its order and that any amount of it can be done in parts.
 */
import { assert } from "../../../src/errors.ts";
import { expire, finishDelay, finishGrace } from "./ending.ts";
import type { Timer } from "./entities.ts";
import { walk } from "./granting.ts";
import { timeOut } from "./locking.ts";
import { report } from "./reporting.ts";
import { endSilence, sweep } from "./sessions.ts";
import type { TableState } from "./state.ts";

/** Pieces of work on one object or session before the next has its turn. */
const SLICE = 64;

/** Whether anything is due at the table's present time. */
export function isDue(state: TableState): boolean {
  const first = state.timers.first();
  return state.hasScheduled || (first !== null && first.timerMs <= state.nowMs);
}

/**
 * Does up to `max` pieces of work and returns how many were done. Deadlines come one by one and only
 * when nothing else is scheduled, so that each meets a settled table; what is done depends on the
 * state alone, not on how it came about.
 */
export function doWork(state: TableState, max: number): number {
  let left = max;
  while (left > 0) {
    const slice = Math.min(left, SLICE);
    if (state.urgentWalks.size + state.sweeps.size + state.walks.size > 0) {
      left -= doScheduled(state, slice);
      continue;
    }
    const timer = state.timers.first();
    if (timer !== null && timer.timerMs <= state.nowMs) left -= fire(state, timer);
    else if (state.reports.size > 0) left -= doReport(state, slice);
    else break;
  }
  return max - left;
}

function doScheduled(state: TableState, slice: number): number {
  const urgent = state.urgentWalks.shift();
  if (urgent !== undefined) {
    const done = walk(state, urgent, slice);
    if (done === slice) state.scheduleWalk(urgent);
    return done;
  }
  const session = state.sweeps.shift();
  if (session !== undefined) {
    session.sweepScheduled = false;
    const done = sweep(state, session, slice);
    if (done === slice && !session.sweepScheduled) {
      session.sweepScheduled = true;
      state.sweeps.push(session);
    }
    return done;
  }
  const object = state.walks.shift();
  if (object === undefined) return 0;
  const done = walk(state, object, slice);
  if (done === slice) state.walks.push(object);
  else object.walkScheduled = false;
  return done;
}

function doReport(state: TableState, slice: number): number {
  const object = state.reports.shift();
  if (object === undefined) return 0;
  const done = report(state, object, slice);
  if (done === slice) state.reports.push(object);
  else object.reportScheduled = false;
  return done;
}

/**
 * Carries out the first deadline, or moves it when it lies later by now, which counts as no work: it
 * then has its turn in the order of time, as if the timer had stood there all along.
 */
function fire(state: TableState, timer: Timer): 0 | 1 {
  switch (timer.kind) {
    case "delay":
      finishDelay(state, timer);
      return 1;
    case "ticket":
      if (timer.state === "waiting") timeOut(state, timer);
      else if (timer.state === "locked") expire(state, timer);
      else finishGrace(state, timer);
      return 1;
    case "group": {
      if (timer.endMs > timer.timerMs) {
        state.timers.set(timer, timer.endMs);
        return 0;
      }
      const first = timer.tickets.first();
      assert(first !== null, "a renewal group without tickets has no timer");
      expire(state, first.value);
      return 1;
    }
    case "session":
      if (timer.silentAtMs > timer.timerMs) {
        state.timers.remove(timer);
        state.watch(timer);
        return 0;
      }
      return endSilence(state, timer);
  }
}

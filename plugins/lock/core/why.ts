/** Answers who holds an object, who waits for it, and whether they are stuck. Reads only. */
import { edgesOf, findCycle } from "./deadlock.ts";
import type { LockObject } from "./entities.ts";
import type { TableState } from "./state.ts";
import type { TicketView, WaitEdge, WhyView } from "./types.ts";
import { viewOf } from "./views.ts";

/** Waiters whose situation is searched for a deadlock. */
const SEARCHES_MAX = 16;

/** At most `waitersMax` tickets of each kind are shown; of the waiters, those that are ready. */
export function why(state: TableState, name: string, waitersMax: number): WhyView {
  const object = state.objects.get(name);
  if (object === undefined) {
    return { holders: [], holdersTotal: 0, waiters: [], waitersTotal: 0, delayUntilMs: null, cycle: [] };
  }
  const holders: TicketView[] = [];
  for (let place = object.firstHolder; place !== null && holders.length < waitersMax; place = place.nextHolder) {
    holders.push(viewOf(place));
  }
  const waiters: TicketView[] = [];
  while (waiters.length < waitersMax) {
    const node = object.tickets.weightedAt(waiters.length);
    if (node === null) break;
    waiters.push(viewOf(node.value));
  }
  return {
    holders: holders.sort((a, b) => a.number - b.number),
    holdersTotal: object.held.tickets,
    waiters,
    waitersTotal: object.waiters,
    delayUntilMs: object.delay?.untilMs ?? null,
    cycle: cycleAt(object),
  };
}

function cycleAt(object: LockObject): WaitEdge[] {
  for (let searches = 0; searches < SEARCHES_MAX; searches++) {
    const node = object.tickets.weightedAt(searches);
    if (node === null) break;
    const cycle = findCycle(node.value.ticket);
    if (cycle !== null) return edgesOf(cycle);
  }
  return [];
}

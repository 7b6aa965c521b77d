/**
 * Deadlocks among agents: who waits for whom, and who gives way. Owns the wait-for graph, which is
 * derived from the queues and never stored. An agent is a session, or the session on whose behalf a
 * nested request is made.
 *
 * A waiting ticket waits for each holder and each earlier ready waiter that excludes it; who stands
 * before an exclusive waiter is reached through that one. Holders in their grace are left
 * out, since they go by themselves. Semaphore holders count only when the two permits alone exceed
 * the limit: with several to wait for, any of them may be the one that leaves.
 */
import { assert } from "../../../src/errors.ts";
import type { Agent, LockObject, Place, Ticket } from "./entities.ts";
import { fail } from "./ending.ts";
import { excludes } from "./load.ts";
import { cycleText } from "./messages.ts";
import type { TableState } from "./state.ts";
import { viewOf } from "./views.ts";
import type { WaitEdge } from "./types.ts";

/** Tickets looked at in one search; a cycle beyond them stays for the timeouts. */
const LOOKS_MAX = 4000;

/** One search: its bound, and the parts of queues in which every ticket was named already. */
interface Search {
  looksLeft: number;
  named: Map<LockObject, { from: number; to: number }>;
}

interface Step {
  waiter: Ticket;
  object: LockObject;
  blocker: Ticket;
  /** how the search came to the waiter */
  from: Step | null;
}

/** A cycle through a waiting ticket, nearest first; null: none found within the bound. */
export function findCycle(start: Ticket): Step[] | null {
  const goal = new Set<Agent>(start.agents);
  const seenAgents = new Set<Agent>();
  const seenTickets = new Set<Ticket>([start]);
  const open: { ticket: Ticket; from: Step | null }[] = [{ ticket: start, from: null }];
  const search: Search = { looksLeft: LOOKS_MAX, named: new Map() };
  for (let next = open[0], index = 0; next !== undefined; next = open[++index]) {
    const { ticket: waiter, from } = next;
    for (const { object, blocker } of blockersOf(waiter, search)) {
      const step: Step = { waiter, object, blocker, from };
      for (const agent of blocker.agents) {
        if (goal.has(agent)) return pathOf(step);
        if (seenAgents.has(agent)) continue;
        seenAgents.add(agent);
        for (const ticket of agent.waits) {
          if (!ticket.ready || seenTickets.has(ticket)) continue;
          seenTickets.add(ticket);
          open.push({ ticket, from: step });
        }
      }
    }
  }
  return null;
}

/**
 * Looks for deadlocks that a ticket closes by starting to wait. In each, the youngest waiter that
 * asked for detection fails; without any the cycle stays, and `why` shows it.
 */
export function breakCycles(state: TableState, ticket: Ticket): void {
  if (!ticket.agents.some((agent) => agent.tickets > 1)) return;
  while (ticket.state === "waiting" && ticket.ready) {
    const cycle = findCycle(ticket);
    const victim = cycle?.map((step) => step.waiter).reduce<Ticket | null>(youngest, null) ?? null;
    if (cycle === null || victim === null) return;
    const message = cycleText(edgesOf(cycle));
    fail(state, victim, { code: "deadlock", message, event: "failed" });
    if (victim === ticket) return;
  }
}

/** The steps of a cycle for people. */
export function edgesOf(cycle: readonly Step[]): WaitEdge[] {
  return cycle.map(({ waiter, object, blocker }) => ({
    waiter: viewOf(placeAt(waiter, object)),
    object: object.name,
    holder: viewOf(placeAt(blocker, object)),
  }));
}

const youngest = (best: Ticket | null, ticket: Ticket): Ticket | null =>
  ticket.spec.detectDeadlock && (best === null || ticket.number > best.number) ? ticket : best;

function* blockersOf(waiter: Ticket, search: Search): Generator<{ object: LockObject; blocker: Ticket }> {
  for (const { object, node } of waiter.places) {
    const named = search.named.get(object);
    // an exclusive waiter behind this one has named all who hold and all who wait before it
    if (named !== undefined && named.from < waiter.number && waiter.number < named.to) continue;
    for (let place = object.firstHolder; place !== null; place = place.nextHolder) {
      if (search.looksLeft-- <= 0) return;
      const blocker = place.ticket;
      if (blocker.state === "locked" && excludes(waiter.spec, blocker.spec)) yield { object, blocker };
    }
    let before = object.tickets.weightedPrevious(node);
    while (before !== null) {
      if (search.looksLeft-- <= 0) return;
      const blocker = before.value.ticket;
      if (excludes(waiter.spec, blocker.spec)) {
        yield { object, blocker };
        if (blocker.spec.mode === "exclusive") break;
      }
      before = object.tickets.weightedPrevious(before);
    }
    if (waiter.spec.mode !== "exclusive") continue;
    const from = before === null ? 0 : before.key;
    if (named === undefined || waiter.number > named.to) search.named.set(object, { from, to: waiter.number });
    else if (named.from === waiter.number) named.from = from;
  }
}

function pathOf(last: Step): Step[] {
  const path: Step[] = [];
  for (let step: Step | null = last; step !== null; step = step.from) path.unshift(step);
  return path;
}

function placeAt(ticket: Ticket, object: LockObject): Place {
  const place = ticket.places.find((each) => each.object === object);
  assert(place !== undefined, "a step of a cycle names a common object");
  return place;
}

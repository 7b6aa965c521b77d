/**
 * Tells waiting sessions that asked for it when their position in the queue changes. Works in rounds
 * from the front of a queue; positions far behind are not reported, so that a long queue costs no more
 * than a short one.
 */
import type { LockObject } from "./entities.ts";
import { positionOf } from "./queues.ts";
import type { TableState } from "./state.ts";

/** Positions from the front that are reported. */
const POSITIONS_MAX = 1000;

/** Looks at up to `ticketsMax` waiters; fewer: the round is over. */
export function report(state: TableState, object: LockObject, ticketsMax: number): number {
  let done = 0;
  while (done < ticketsMax) {
    const node = object.reportRank < POSITIONS_MAX ? object.tickets.weightedAt(object.reportRank) : null;
    if (node === null || object.reporters === 0) {
      if (!object.reportAgain || object.reporters === 0) return done;
      object.reportAgain = false;
      object.reportRank = 0;
      continue;
    }
    object.reportRank++;
    done++;
    const ticket = node.value.ticket;
    if (!ticket.spec.reportQueue) continue;
    const position = positionOf(ticket);
    if (position === ticket.reportedPosition) continue;
    ticket.reportedPosition = position;
    state.effects.push({ kind: "queue", session: ticket.session.id, request: ticket.request, position });
  }
  return done;
}

/**
 * Who gets a lock: the longest front of the ready queue whose tickets go together with each other and
 * with who holds; a ticket for several objects when it is in that front at all of them. Owns the walk
 * over a queue and the grant; knows nothing of how locks end.
 */
import { assert } from "../../../src/errors.ts";
import type { LockObject, Place, Ticket } from "./entities.ts";
import { startLease } from "./leases.ts";
import { NOTHING, fits } from "./load.ts";
import { passOver, reserve, startHolding, stopWaiting } from "./queues.ts";
import type { TableState } from "./state.ts";
import type { Grant, LockSpec } from "./types.ts";

/**
 * Whether a request that comes now, behind everybody, can be granted at once at an object: it goes
 * together with all who hold and with all who wait, so it overtakes nobody whom it would delay.
 */
export const isOpenTo = (object: LockObject, spec: LockSpec): boolean =>
  object.delay === null && fits(spec, object.held, object.waiting);

/**
 * Grants what has become eligible at an object, at most `grantsMax`. Returns how many tickets it
 * dealt with; fewer than `grantsMax` means that the object is settled.
 *
 * It starts behind the tickets that are eligible here already, so a long row of tickets that wait for
 * another object is not looked at again. A ticket for several objects is marked as reserved at each
 * where it is eligible, and granted by the walk that marks the last of them.
 */
export function walk(state: TableState, object: LockObject, grantsMax: number): number {
  let done = 0;
  while (done < grantsMax) {
    const node = object.tickets.weightedAbove(object.frontier);
    if (node === null) break;
    const place = node.value;
    const ticket = place.ticket;
    if (!ticket.session.connected || ticket.session.ending !== null) {
      passOver(state, ticket);
      done++;
      continue;
    }
    if (!isEligible(place)) break;
    done++;
    reserve(place);
    if (ticket.places.every((each) => each.reserved)) {
      grant(state, ticket);
      state.effects.push({ kind: "locked", grant: grantOf(ticket, ticket.durationMs) });
    }
  }
  return done;
}

/** Whether the first unreserved ticket of a queue may join those in front of it. */
export const isEligible = (place: Place): boolean =>
  place.object.delay === null && fits(place.ticket.spec, place.object.held, place.object.reserved);

/** Makes a ticket a holder of all its objects. The caller tells its session. */
export function grant(state: TableState, ticket: Ticket): void {
  assert(ticket.state === "waiting", "a ticket is granted once");
  const session = ticket.session;
  if (session.waiting.has(ticket)) stopWaiting(state, ticket);
  for (const { object } of ticket.places) {
    assert(object.delay === null && fits(ticket.spec, object.held, NOTHING), "holders go together");
  }
  ticket.state = "locked";
  ticket.token = ++state.meta.lastToken;
  ticket.grantNumber = ++session.lastGrant;
  ticket.message = session.message;
  ticket.grantedMs = ticket.sinceMs = state.nowMs;
  ticket.endMs = state.nowMs + ticket.durationMs;
  assert(Number.isSafeInteger(ticket.token), "tokens stay exact");
  state.tokens.set(ticket.token, ticket);
  startHolding(ticket);
  startLease(state, ticket);
  state.record("granted", ticket, { waitedMs: state.nowMs - ticket.enteredMs });
  state.journal.touch(ticket);
  state.journal.touch(session);
  state.journal.touch(state.meta);
}

/** The grant as the session is told it. `leftMs` is the rest of the duration. */
export function grantOf(ticket: Ticket, leftMs: number): Grant {
  return {
    session: ticket.session.id,
    request: ticket.request,
    objects: ticket.spec.objects,
    handle: ticket.handle,
    token: ticket.token,
    leftMs,
    durationMs: ticket.durationMs,
    unlockDurationMs: ticket.spec.unlockDurationMs,
    message: ticket.message,
    grantNumber: ticket.grantNumber,
  };
}

/**
 * How tickets stand in the queues of their objects: entering, waiting ready or passed over, reserved,
 * holding, leaving. Keeps the sums, the index of waiters and the holder lists in step. Decides
 * nothing: who may be granted is granting.ts, how tickets end is ending.ts.
 */
import { assert } from "../../../src/errors.ts";
import { type LockObject, Place, type Ticket } from "./entities.ts";
import type { TableState } from "./state.ts";

/** Puts a new ticket into the indexes and, without any right yet, into the queues of its objects. */
export function attach(state: TableState, ticket: Ticket): void {
  const { session, spec } = ticket;
  for (const name of spec.objects) {
    const object = state.objects.get(name) ?? state.addObject(name);
    const place = new Place(ticket, object);
    ticket.places.push(place);
    object.tickets.insert(place.node);
    if (spec.mode === "semaphore") {
      object.semaphoreTickets++;
      object.permits = spec.permits;
    }
    session.byObject.set(name, ticket);
  }
  session.requests.set(ticket.request, ticket);
  state.handles.set(ticket.handle, ticket);
  for (const agent of ticket.agents) agent.tickets++;
}

/** Takes a ticket that neither waits nor holds out of everything. */
export function detach(state: TableState, ticket: Ticket): void {
  const { session, spec } = ticket;
  for (const place of ticket.places) {
    const object = place.object;
    object.tickets.remove(place.node);
    if (spec.mode === "semaphore") object.semaphoreTickets--;
    disown(ticket, object.name);
    state.releaseObject(object);
  }
  session.requests.delete(ticket.request);
  state.handles.delete(ticket.handle);
  for (const agent of ticket.agents) {
    agent.tickets--;
    state.releaseAgent(agent);
  }
}

/** From now on the session may ask for the object again. */
export function disown(ticket: Ticket, object: string): void {
  if (ticket.session.byObject.get(object) === ticket) ticket.session.byObject.delete(object);
}

/** The ticket starts to wait, passed over until `makeReady`. */
export function startWaiting(state: TableState, ticket: Ticket): void {
  for (const place of ticket.places) {
    place.object.waiters++;
    if (ticket.spec.reportQueue) place.object.reporters++;
  }
  ticket.session.waiting.add(ticket);
  for (const agent of ticket.agents) agent.waits.add(ticket);
  state.watch(ticket.session);
}

/** The ticket waits no more: it is about to hold or to leave. */
export function stopWaiting(state: TableState, ticket: Ticket): void {
  passOver(state, ticket);
  for (const place of ticket.places) {
    const object = place.object;
    object.waiters--;
    if (ticket.spec.reportQueue) object.reporters--;
  }
  ticket.session.waiting.delete(ticket);
  for (const agent of ticket.agents) agent.waits.delete(ticket);
}

/** Lets a waiting ticket take part, in the place that its number gives it. */
export function makeReady(state: TableState, ticket: Ticket): void {
  assert(ticket.state === "waiting" && !ticket.ready, "only a waiting ticket becomes ready, once");
  ticket.ready = true;
  for (const place of ticket.places) {
    const object = place.object;
    object.tickets.setWeight(place.node, 1);
    object.waiting.add(ticket.spec);
    if (ticket.number <= object.frontier) unreserveAll(object);
    state.scheduleWalk(object);
    // a ticket that joins at the end changes nobody's position
    if (object.tickets.last() !== place.node) state.scheduleReport(object);
  }
}

/** Takes a waiting ticket out of the competition, but not out of the queue. */
export function passOver(state: TableState, ticket: Ticket): void {
  if (!ticket.ready) return;
  ticket.ready = false;
  for (const place of ticket.places) {
    const object = place.object;
    object.tickets.setWeight(place.node, 0);
    object.waiting.remove(ticket.spec);
    if (place.reserved) {
      place.reserved = false;
      object.reserved.remove(ticket.spec);
    }
    if (object.waiting.tickets > 0) state.scheduleWalk(object);
    state.scheduleReport(object);
  }
}

/** Marks a ready ticket as eligible at one of its objects. */
export function reserve(place: Place): void {
  assert(!place.reserved, "a place is reserved once");
  place.reserved = true;
  place.object.reserved.add(place.ticket.spec);
  if (place.ticket.number > place.object.frontier) place.object.frontier = place.ticket.number;
}

/** Takes all eligibility at an object back, because a ticket came in front or the object is not available. */
export function unreserveAll(object: LockObject): void {
  for (let node = object.tickets.weightedAt(0); node !== null && node.key <= object.frontier; ) {
    node.value.reserved = false;
    node = object.tickets.weightedAbove(node.key);
  }
  object.reserved.clear();
  object.frontier = 0;
}

/** Enters a ticket among the holders of its objects. */
export function startHolding(ticket: Ticket): void {
  for (const place of ticket.places) {
    const object = place.object;
    object.held.add(ticket.spec);
    place.nextHolder = object.firstHolder;
    if (object.firstHolder !== null) object.firstHolder.previousHolder = place;
    object.firstHolder = place;
  }
  if (!ticket.spec.detached) ticket.session.heldCount++;
}

export function stopHolding(state: TableState, ticket: Ticket): void {
  for (const place of ticket.places) {
    const object = place.object;
    object.held.remove(ticket.spec);
    if (place.previousHolder === null) object.firstHolder = place.nextHolder;
    else place.previousHolder.nextHolder = place.nextHolder;
    if (place.nextHolder !== null) place.nextHolder.previousHolder = place.previousHolder;
    place.previousHolder = place.nextHolder = null;
    if (object.waiting.tickets > 0) state.scheduleWalk(object);
  }
  if (!ticket.spec.detached) ticket.session.heldCount--;
}

/** Where a waiting ticket stands: 1 is next; with several objects, where it has to wait longest. */
export function positionOf(ticket: Ticket): number {
  let position = 1;
  for (const place of ticket.places) position = Math.max(position, positionAt(place));
  return position;
}

/** Its position in the queue of one object. */
export const positionAt = (place: Place): number => place.object.tickets.weightBefore(place.node) + 1;

/**
 * When held tickets end: the ticket's own end, or that of the renewal group it belongs to; and the
 * digest over what a session owns. Owns leaseNode, group and the timers of locked tickets.
 */
import { assert } from "../../../src/errors.ts";
import { mixToken } from "../../../src/client/protocol.ts";
import { RenewalGroup, type Session, type Ticket } from "./entities.ts";
import { OrderedNode } from "./ordered-tree.ts";
import type { TableState } from "./state.ts";

/** Starts the lease of a locked ticket whose endMs is set. */
export function startLease(state: TableState, ticket: Ticket): void {
  assert(ticket.state === "locked" && ticket.leaseNode === null, "a lease starts once, when locked");
  if (ticket.spec.detached) {
    state.timers.set(ticket, ticket.endMs);
    return;
  }
  const session = ticket.session;
  const mixed = mixToken(ticket.token);
  session.digestSum = (session.digestSum + mixed) >>> 0;
  session.digestXor = (session.digestXor ^ mixed) >>> 0;
  session.digestCount++;
  enlist(state, ticket);
}

/** Ends it. */
export function stopLease(state: TableState, ticket: Ticket): void {
  assert(ticket.state === "locked", "only a locked ticket has a lease");
  if (ticket.spec.detached) {
    state.timers.remove(ticket);
    return;
  }
  const session = ticket.session;
  const mixed = mixToken(ticket.token);
  session.digestSum = (session.digestSum - mixed) >>> 0;
  session.digestXor = (session.digestXor ^ mixed) >>> 0;
  session.digestCount--;
  delist(state, ticket);
}

/** Gives a locked ticket a new duration from now on. */
export function extendLease(state: TableState, ticket: Ticket, durationMs: number): void {
  if (!ticket.spec.detached) delist(state, ticket);
  ticket.durationMs = durationMs;
  ticket.endMs = state.nowMs + durationMs;
  if (ticket.spec.detached) state.timers.set(ticket, ticket.endMs);
  else enlist(state, ticket);
  state.journal.touch(ticket);
}

/** The session's keep-alive: everything granted up to `seen` runs its whole duration again. */
export function renewLeases(state: TableState, session: Session, seen: number): void {
  session.renewedAtMs = state.nowMs;
  session.renewedSeen = seen;
  for (;;) {
    const node = session.fresh.first();
    if (node === null || node.key > seen) break;
    delist(state, node.value);
    enlist(state, node.value);
    assert(node.value.group !== null, "a keep-alive covers what was granted before it");
  }
  state.journal.touch(session);
}

/** Count and digest of what the session owns among grants up to `seen`. */
export function digestUpTo(session: Session, seen: number): { count: number; digest: readonly [number, number] } {
  let count = session.digestCount;
  let sum = session.digestSum;
  let xor = session.digestXor;
  for (let node = session.fresh.above(seen); node !== null; node = session.fresh.next(node)) {
    const mixed = mixToken(node.value.token);
    sum = (sum - mixed) >>> 0;
    xor = (xor ^ mixed) >>> 0;
    count--;
  }
  return { count, digest: [sum, xor] };
}

/** What the session owns, in no particular order across groups. */
export function* owned(session: Session): Generator<Ticket> {
  for (let node = session.fresh.first(); node !== null; node = session.fresh.next(node)) yield node.value;
  for (const group of session.groups.values()) {
    for (let node = group.tickets.first(); node !== null; node = group.tickets.next(node)) yield node.value;
  }
}

/**
 * Puts a locked ticket where its end is decided. Depends on durable fields alone, so that a restored
 * table comes to the same.
 */
function enlist(state: TableState, ticket: Ticket): void {
  const session = ticket.session;
  const node = new OrderedNode<number, Ticket>(ticket.grantNumber, ticket, 0);
  ticket.leaseNode = node;
  const covered =
    ticket.grantNumber <= session.renewedSeen && ticket.endMs <= session.renewedAtMs + ticket.durationMs;
  if (!covered) {
    session.fresh.insert(node);
    state.timers.set(ticket, ticket.endMs);
    return;
  }
  let group = session.groups.get(ticket.durationMs);
  if (group === undefined) {
    group = new RenewalGroup(session, ticket.durationMs);
    session.groups.set(ticket.durationMs, group);
    state.timers.set(group, group.endMs);
  }
  group.tickets.insert(node);
  ticket.group = group;
}

function delist(state: TableState, ticket: Ticket): void {
  const node = ticket.leaseNode;
  assert(node !== null, "a session's locked ticket is listed");
  ticket.leaseNode = null;
  const group = ticket.group;
  if (group === null) {
    ticket.session.fresh.remove(node);
    state.timers.remove(ticket);
    return;
  }
  ticket.group = null;
  group.tickets.remove(node);
  if (group.tickets.size === 0) {
    state.timers.remove(group);
    ticket.session.groups.delete(group.durationMs);
  }
}

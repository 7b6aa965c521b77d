/**
 * The table as queries see it. Reads only: no query changes anything that a later command could
 * notice, and none costs more than its page.
 */
import type { Place, Session } from "./entities.ts";
import { positionAt } from "./queues.ts";
import type { TableState } from "./state.ts";
import type { LockStatistics, SessionView, TicketView } from "./types.ts";

export type TicketCursor = readonly [object: string, number: number];

/** One page of tickets, ordered by object (UTF-16 code units), then number. */
export function listTickets(
  state: TableState,
  options: { prefix: string; after: TicketCursor | null; limit: number },
): { tickets: TicketView[]; next: TicketCursor | null } {
  const { prefix, after, limit } = options;
  const tickets: TicketView[] = [];
  const from = after !== null && after[0] > prefix ? after[0] : prefix;
  const names = state.objectNames;
  for (let name = names.atLeast(from); name !== null && name.key.startsWith(prefix); name = names.next(name)) {
    const queue = name.value.tickets;
    let node = after !== null && name.key === after[0] ? queue.above(after[1]) : queue.first();
    for (; node !== null; node = queue.next(node)) {
      const last = tickets.at(-1);
      if (tickets.length >= limit && last !== undefined) return { tickets, next: [last.object, last.number] };
      tickets.push(viewOf(node.value));
    }
  }
  return { tickets, next: null };
}

/** A ticket at one of its objects. */
export function viewOf(place: Place): TicketView {
  const { ticket, object } = place;
  const { spec, state } = ticket;
  const deadline = ticket.waitDeadlineMs;
  const waiting = state === "waiting";
  const endMs = state === "locked" ? ticket.leaseEndMs : ticket.endMs;
  return {
    object: object.name,
    ticket: ticket.text,
    number: ticket.number,
    state,
    mode: spec.mode,
    ...(spec.mode === "semaphore" ? { permits: spec.permits, count: spec.count } : {}),
    holder: ticket.holder,
    session: ticket.session.id,
    detached: spec.detached,
    sinceMs: ticket.sinceMs,
    ...(waiting ? { position: positionAt(place) } : { token: ticket.token, expiresMs: endMs }),
    ...(waiting ? {} : { freeAtMs: state === "locked" ? endMs + spec.unlockDurationMs : ticket.freeAtMs }),
    ...(waiting && deadline !== null ? { waitDeadlineMs: deadline } : {}),
    ...(ticket.value === null ? {} : { value: ticket.value }),
  };
}

/** One page of sessions, ordered by id; it may be short, or empty, before the end. */
export function listSessions(
  state: TableState,
  options: { after: string | null; limit: number; nowMs?: number },
): { sessions: SessionView[]; next: string | null } {
  const sessions: SessionView[] = [];
  const nowMs = options.nowMs ?? state.nowMs;
  const ids = state.sessionIds;
  let node = options.after === null ? ids.first() : ids.above(options.after);
  let last: string | null = null;
  // those that are passed over count, too: what a page costs must not depend on how many there are
  for (let looked = 0; node !== null; node = ids.next(node), looked++) {
    if (looked >= options.limit && last !== null) return { sessions, next: last };
    last = node.value.id;
    if (!isOver(node.value, nowMs)) sessions.push(sessionView(node.value));
  }
  return { sessions, next: null };
}

/** Nobody is behind it any more: it is kept for the detached locks that were asked for in it, which it does not own. */
function isOver(session: Session, nowMs: number): boolean {
  if (session.requests.size === 0 || session.heldCount > 0 || session.waiting.size > 0) return false;
  return session.ending !== null || (!session.connected && session.silentAtMs <= nowMs);
}

export function statistics(state: TableState): LockStatistics {
  return {
    objects: state.objects.size,
    tickets: state.handles.size,
    held: state.tokens.size,
    waiting: state.handles.size - state.tokens.size,
    sessions: state.sessions.size,
    lastToken: state.meta.lastToken,
    lastNumber: state.meta.lastNumber,
  };
}

function sessionView(session: Session): SessionView {
  return {
    session: session.id,
    holder: session.holder,
    generation: session.generation,
    connected: session.connected,
    heardMs: session.heardMs,
    graceMs: session.graceMs,
    held: session.heldCount,
    waiting: session.waiting.size,
  };
}

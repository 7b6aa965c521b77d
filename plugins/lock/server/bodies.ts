/**
 * The table's views and answers as bodies of the wire: absolute engine times become relative ones,
 * handles are left out of everything but the grant itself. Pure functions. They return plain object types,
 * which unlike interfaces are a Body, and `satisfies` says which body of the protocol each one is.
 */
import type {
  BlockerBody, EventBody, HolderBody, LockedBody, SessionBody, SessionTicket, TicketBody, WhyBody,
} from "../../../src/client/protocol.ts";
import type { Blocker, Grant, Holder, Instant, LockEvent, OwnTicket, SessionView, TicketView, WhyView } from "../core/types.ts";

export function holderBody(holder: Holder, session: string) {
  const { name, host, pid, program, address, commandLine } = holder;
  const body = { name, host, pid, program, address, session };
  return (commandLine === undefined ? body : { ...body, commandLine }) satisfies HolderBody;
}

export const lockedBody = (grant: Grant) =>
  ({
    request: grant.request,
    objects: grant.objects,
    handle: grant.handle,
    token: grant.token,
    left: grant.leftMs,
    duration: grant.durationMs,
    unlockDuration: grant.unlockDurationMs,
    processed: grant.message,
    grant: grant.grantNumber,
  }) satisfies LockedBody;

export const blockerBody = (blocker: Blocker, at: Instant) =>
  ({
    object: blocker.object,
    holder: holderBody(blocker.holder, blocker.session),
    ...(blocker.token === null ? {} : { token: blocker.token }),
    sinceAgo: at.nowMs - blocker.sinceMs,
    state: blocker.state,
  }) satisfies BlockerBody;

export const sessionTicket = (ticket: OwnTicket) =>
  ({
    request: ticket.request,
    objects: ticket.objects,
    state: ticket.state,
    ...(ticket.grant === undefined ? {} : { grant: lockedBody(ticket.grant) }),
  }) satisfies SessionTicket;

export function ticketBody(view: TicketView, at: Instant) {
  return {
    object: view.object,
    ticket: view.ticket,
    state: view.state,
    mode: view.mode,
    ...(view.permits === undefined ? {} : { permits: view.permits }),
    ...(view.count === undefined ? {} : { count: view.count }),
    holder: holderBody(view.holder, view.session),
    detached: view.detached,
    ...(view.token === undefined ? {} : { token: view.token }),
    sinceAgo: at.nowMs - view.sinceMs,
    ...(view.expiresMs === undefined ? {} : { expiresIn: view.expiresMs - at.nowMs }),
    ...(view.freeAtMs === undefined ? {} : { freeIn: view.freeAtMs - at.nowMs }),
    ...(view.waitDeadlineMs === undefined ? {} : { waitLeft: view.waitDeadlineMs - at.nowMs }),
    ...(view.position === undefined ? {} : { position: view.position }),
    ...(view.value === undefined ? {} : { value: view.value }),
  } satisfies TicketBody;
}

/** Bounds of what is told of one object. */
export const WHY_WAITERS_MAX = 1000;
export const WHY_EVENTS_MAX = 10;

/** `sees`: whether the one who asks may know of an object that the deadlock leads over. */
export function whyBody(object: string, why: WhyView, context: { at: Instant; sees(object: string): boolean; events: readonly LockEvent[] }) {
  const { at, sees, events } = context;
  return {
    object,
    holders: why.holders.map((view) => ticketBody(view, at)),
    waiters: why.waiters.map((view) => ticketBody(view, at)),
    waitersTotal: why.waitersTotal,
    ...(why.delayUntilMs === null ? {} : { delayLeft: Math.max(0, why.delayUntilMs - at.nowMs) }),
    cycle: why.cycle.filter((edge) => sees(edge.object)).map((edge) => ({
      waiter: ticketBody(edge.waiter, at).holder,
      object: edge.object,
      holder: ticketBody(edge.holder, at).holder,
    })),
    events: events.map(eventBody),
  } satisfies WhyBody;
}

export const eventBody = (event: LockEvent) =>
  ({
    id: event.id,
    time: event.wallMs,
    event: event.event,
    object: event.object,
    ticket: event.ticket,
    mode: event.mode,
    holder: holderBody(event.holder, event.session),
    ...(event.token === undefined ? {} : { token: event.token }),
    ...(event.waitedMs === undefined ? {} : { waited: event.waitedMs }),
    ...(event.heldMs === undefined ? {} : { held: event.heldMs }),
    ...(event.reason === undefined ? {} : { reason: event.reason }),
    ...(event.value === undefined ? {} : { value: event.value }),
  }) satisfies EventBody;

export const sessionBody = (view: SessionView, at: Instant) =>
  ({
    session: view.session,
    holder: holderBody(view.holder, view.session),
    generation: view.generation,
    connected: view.connected,
    heardAgo: at.nowMs - view.heardMs,
    grace: view.graceMs,
    held: view.held,
    waiting: view.waiting,
  }) satisfies SessionBody;

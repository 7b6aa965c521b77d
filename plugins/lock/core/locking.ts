/**
 * The commands about single locks: lock, cancel, unlock, and release by force. Owns what makes a
 * request a duplicate, a repetition, or too much, and that each has one answer.
 */
import { assert } from "../../../src/errors.ts";
import { breakCycles } from "./deadlock.ts";
import { declareDead, expire, fail, force, type ForceOrder, free } from "./ending.ts";
import { type Agent, type Session, Ticket } from "./entities.ts";
import { grant, grantOf, isOpenTo } from "./granting.ts";
import { blockersOf, describe, forceNote, lossText, obstacle, quote } from "./messages.ts";
import { attach, makeReady, positionOf, startWaiting } from "./queues.ts";
import { unknownHandle } from "./renewing.ts";
import { endText, leftMs, refuse, unknownSession } from "./sessions.ts";
import type { TableState } from "./state.ts";
import type { LockAnswer, LockCommand, LockSpec } from "./types.ts";

type Command<K extends LockCommand["kind"]> = Extract<LockCommand, { kind: K }>;

/** Holders named when a release does not name the right token. */
const HOLDERS_NAMED_MAX = 8;

export function lock(state: TableState, command: Command<"lock">): LockAnswer {
  const session = state.sessions.get(command.session);
  if (session === undefined) return unknownSession(command.session);
  // as if it were gone already: its client opens another session, instead of asking this one again
  if (session.ending !== null) return refuse("notfound", endText(session));
  if (!session.connected) return refuse("unavailable", "the session is not connected");
  state.hear(session, command.message);
  const former = session.requests.get(command.request);
  if (former !== undefined) return repeat(state, former);
  const failed = session.failed?.get(command.request);
  if (failed !== undefined) return refuse(failed.code, failed.message);
  const { spec } = command;
  const refusal = check(state, session, spec, command.handle);
  if (refusal !== null) return refusal;
  state.journal.touch(state.meta);
  const number = ++state.meta.lastNumber;
  const agents = agentsOf(state, session, spec);
  const ticket = new Ticket(number, session, command.request, spec, command.handle, agents, state.nowMs);
  if (spec.objects.every((name) => isOpen(state, name, spec))) {
    attach(state, ticket);
    grant(state, ticket);
    return { kind: "locked", grant: grantOf(ticket, ticket.durationMs) };
  }
  if (spec.waitMs === 0) return notNow(state, ticket);
  return wait(state, ticket);
}

export function cancel(state: TableState, command: Command<"cancel">): LockAnswer {
  const session = state.sessions.get(command.session);
  if (session === undefined) return unknownSession(command.session);
  state.hear(session, command.message);
  const ticket = session.requests.get(command.request);
  if (ticket === undefined) return refuse("notheld", "no lock is held or waited for by this request");
  return leave(state, ticket, true);
}

export function unlock(state: TableState, command: Command<"unlock">): LockAnswer {
  const ticket = state.handles.get(command.handle);
  if (ticket === undefined) return unknownHandle(state, command.handle);
  return leave(state, ticket, command.by === undefined || command.by === ticket.session.id);
}

export function release(state: TableState, command: Command<"release">): LockAnswer {
  const ticket = state.tokens.get(command.token);
  if (ticket === undefined || !ticket.spec.objects.includes(command.object)) {
    return refuse("notfound", noSuchHolder(state, command.object, command.token));
  }
  if (ticket.state === "locked" && ticket.leaseEndMs <= state.nowMs) expire(state, ticket);
  const holder = ticket.holder;
  const order: ForceOrder = { reason: "forced", note: forceNote(command), dead: command.dead === true };
  if (ticket.state === "locked") force(state, ticket, order);
  else if (order.dead) declareDead(state, ticket, order);
  return { kind: "releasing", holder, session: ticket.session.id, freeMs: Math.max(0, ticket.freeAtMs - state.nowMs) };
}

/** Answers a request that was seen before with what became of it. */
function repeat(state: TableState, ticket: Ticket): LockAnswer {
  if (ticket.state === "waiting") return { kind: "waiting", position: positionOf(ticket) };
  if (ticket.state === "locked" && ticket.leaseEndMs <= state.nowMs) expire(state, ticket);
  if (ticket.state === "locked") return { kind: "locked", grant: grantOf(ticket, leftMs(state, ticket)) };
  return refuse("lost", `the lock was granted and lost: ${lossText(ticket.lossReason)}`);
}

function check(state: TableState, session: Session, spec: LockSpec, handle: string): LockAnswer | null {
  const { limits } = state;
  const { objects } = spec;
  assert(objects.length > 0, "a request names an object");
  for (let index = 1; index < objects.length; index++) {
    const former = objects[index - 1];
    const name = objects[index];
    assert(former !== undefined && name !== undefined && former < name, "objects are sorted and distinct");
  }
  if (objects.length > limits.objectsPerTicketMax) {
    return overflow("objects in one request", "objectsPerTicketMax", limits.objectsPerTicketMax);
  }
  if (spec.count > spec.permits) {
    return refuse("invalid", `count ${spec.count} is over the ${spec.permits} permits of the semaphore`);
  }
  if (state.handles.has(handle)) return refuse("invalid", "the handle is in use");
  for (const name of objects) {
    const own = session.byObject.get(name);
    if (own !== undefined) {
      const what = own.state === "waiting" ? "waits for" : "holds";
      return refuse("duplicate", `the same session ${what} ${quote(name)} already (request ${quote(own.request)})`);
    }
    const object = state.objects.get(name);
    if (spec.mode === "semaphore" && object !== undefined && object.semaphoreTickets > 0 && object.permits !== spec.permits) {
      return refuse("invalid", `limit mismatch: ${quote(name)} is a semaphore of ${object.permits} permits, not ${spec.permits}`);
    }
  }
  if (state.handles.size >= limits.ticketsMax) return overflow("tickets", "ticketsMax", limits.ticketsMax);
  if (session.requests.size >= limits.ticketsPerSessionMax) {
    return overflow("tickets of one session", "ticketsPerSessionMax", limits.ticketsPerSessionMax);
  }
  const newObjects = objects.reduce((sum, name) => sum + (state.objects.has(name) ? 0 : 1), 0);
  if (state.objects.size + newObjects > limits.objectsMax) return overflow("objects", "objectsMax", limits.objectsMax);
  return null;
}

const overflow = (what: string, name: string, limit: number): LockAnswer =>
  refuse("overflow", `the limit of ${limit} ${what} (${name}) is reached`);

function isOpen(state: TableState, name: string, spec: LockSpec): boolean {
  const object = state.objects.get(name);
  return object === undefined || isOpenTo(object, spec);
}

/** The sessions that a request acts for: those of the held parents that it names, else its own. */
function agentsOf(state: TableState, session: Session, spec: LockSpec): Agent[] {
  const agents = new Set<Agent>();
  for (const handle of spec.parents) {
    const parent = state.handles.get(handle);
    if (parent === undefined || parent.state === "waiting") continue;
    for (const agent of parent.agents) agents.add(agent);
  }
  return agents.size === 0 ? [state.agent(session.id)] : [...agents];
}

/** The answer to a request that does not want to wait. */
function notNow(state: TableState, ticket: Ticket): LockAnswer {
  for (const agent of ticket.agents) state.releaseAgent(agent);
  const { spec, session, number } = ticket;
  const blockers = blockersOf(state, spec, null);
  state.recordFor("failed", number, session, spec, { waitedMs: 0, reason: "timedout" });
  const message = `not free now: ${obstacle(state, spec, blockers)}`;
  return { kind: "refused", code: "timedout", message, blockers };
}

function wait(state: TableState, ticket: Ticket): LockAnswer {
  const limit = state.limits.waitersPerObjectMax;
  const { spec } = ticket;
  const full = spec.objects.find((name) => (state.objects.get(name)?.waiters ?? 0) >= limit);
  if (full !== undefined) {
    for (const agent of ticket.agents) state.releaseAgent(agent);
    return overflow(`waiters for ${quote(full)}`, "waitersPerObjectMax", limit);
  }
  attach(state, ticket);
  startWaiting(state, ticket);
  makeReady(state, ticket);
  const effects = state.effects.length;
  state.record("waiting", ticket, {});
  breakCycles(state, ticket);
  if (ticket.gone) {
    // the request itself gave way: that is the answer, not something told later
    const told = state.effects[effects];
    assert(told?.kind === "lockfailed" && told.request === ticket.request, "a victim is told");
    state.effects.splice(effects, 1);
    return { kind: "refused", code: told.code, message: told.message };
  }
  if (ticket.waitDeadlineMs !== null) state.timers.set(ticket, ticket.waitDeadlineMs);
  state.journal.touch(ticket);
  ticket.reportedPosition = positionOf(ticket);
  return { kind: "waiting", position: ticket.reportedPosition };
}

/** The wait of a ticket is over. */
export function timeOut(state: TableState, ticket: Ticket): void {
  const { spec } = ticket;
  const blockers = blockersOf(state, spec, ticket);
  const position = positionOf(ticket);
  // how long it was wanted only the client knows: this wait may be the rest of a longer one
  const message = `not obtained in time: ${obstacle(state, spec, blockers)}; position ${position} in the queue`;
  fail(state, ticket, { code: "timedout", message, event: "failed", blockers, position });
}

/** A session gives up a ticket in whatever state it is. `ownWish`: it asked for it itself. */
function leave(state: TableState, ticket: Ticket, ownWish: boolean): LockAnswer {
  if (ticket.state === "waiting") {
    fail(state, ticket, { code: "cancelled", message: "the request was withdrawn", event: "cancelled" });
    return { kind: "unlocked", token: null, held: false };
  }
  if (ticket.state === "locked" && ticket.leaseEndMs <= state.nowMs) expire(state, ticket);
  const { token, state: former, session, request } = ticket;
  free(state, ticket, "released", former === "unlocking" ? ticket.lossReason : undefined);
  if (!ownWish && !ticket.spec.detached) {
    state.effects.push({ kind: "unlocked", session: session.id, request, token, reason: "lost" });
  }
  if (former === "locked") return { kind: "unlocked", token, held: true };
  return refuse("lost", `the lock was lost: ${lossText(ticket.lossReason)}; it was released now`);
}

function noSuchHolder(state: TableState, name: string, token: number): string {
  const holders: string[] = [];
  let place = state.objects.get(name)?.firstHolder ?? null;
  for (; place !== null && holders.length < HOLDERS_NAMED_MAX; place = place.nextHolder) {
    holders.push(`token ${place.ticket.token} by ${describe(place.ticket.holder)}`);
  }
  const now = holders.length === 0 ? "nobody holds it" : `it is held with ${holders.join(", ")}`;
  return `${quote(name)} is not held with token ${token}: ${now}`;
}

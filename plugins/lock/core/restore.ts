/**
 * Builds the state of a table from its records, and lists the records of a state. What one writes the
 * other reads to the same table, to the last counter, whenever no scheduled work is left.
 */
import type { RecordChange } from "../../../src/store/types.ts";
import { Delay, type Entity, FailedRequest, LostLock, Session, Ticket } from "./entities.ts";
import { isEligible } from "./granting.ts";
import { startLease } from "./leases.ts";
import { attach, disown, makeReady, reserve, startHolding, startWaiting, unreserveAll } from "./queues.ts";
import { corrupt } from "./record-fields.ts";
import { type SessionRecord, type TicketRecord, decode, encode, keyOf } from "./records.ts";
import { TableState } from "./state.ts";
import type { LockLimits } from "./types.ts";

/** The changes of durable records since the last drain. */
export const drain = (state: TableState): RecordChange[] => state.journal.drain(keyOf, encode);

/** Every record that the state needs, encoded anew. */
export function* recordsOf(state: TableState): Generator<[key: string, value: Uint8Array]> {
  for (const entity of entitiesOf(state)) yield [keyOf(entity), encode(entity)];
}

/** Throws LockdError `corrupt`, naming the key, when a record cannot be read or contradicts another. */
export function restore(records: Iterable<[string, Uint8Array]>, limits: LockLimits): TableState {
  const state = new TableState(limits);
  const tickets: TicketRecord[] = [];
  const sessions: SessionRecord[] = [];
  const delays: { object: string; untilMs: number }[] = [];
  const lost: LostLock[] = [];
  const failed: FailedRequest[] = [];
  for (const [key, value] of records) {
    const record = decode(key, value);
    switch (record.kind) {
      case "ticket":
        tickets.push(record.ticket);
        break;
      case "session":
        sessions.push(record.session);
        break;
      case "delay":
        delays.push(record);
        break;
      case "lost": {
        const { number, handle, token, reason, order } = record.lost;
        lost.push(new LostLock(number, handle, token, reason, order));
        break;
      }
      case "failed": {
        const { number, session, request, code, message, order } = record.failed;
        failed.push(new FailedRequest(number, session, request, code, message, order));
        break;
      }
      case "meta":
        Object.assign(state.meta, record.meta);
    }
  }
  for (const record of sessions) restoreSession(state, record);
  for (const record of delays) restoreDelay(state, record);
  for (const record of tickets.sort((a, b) => a.number - b.number)) restoreTicket(state, record);
  for (const entry of lost.sort((a, b) => a.order - b.order)) {
    entry.stored = true;
    state.lost.adopt(entry);
  }
  for (const entry of failed.sort((a, b) => a.order - b.order)) {
    const session = state.sessions.get(entry.session);
    if (session === undefined) throw corrupt(keyOf(entry), "its session has no record");
    entry.stored = true;
    session.failed ??= new Map();
    session.failed.set(entry.request, entry);
  }
  settleQueues(state);
  for (const session of state.sessions.values()) state.watch(session);
  return state;
}

function* entitiesOf(state: TableState): Generator<Entity> {
  yield state.meta;
  for (const session of state.sessions.values()) {
    yield session;
    yield* session.requests.values();
    yield* session.failed?.values() ?? [];
  }
  for (const object of state.objects.values()) if (object.delay !== null) yield object.delay;
  yield* state.lost.values();
}

function restoreSession(state: TableState, record: SessionRecord): void {
  const session = new Session(record.id, record.secretHash, record.holder);
  session.generation = record.generation;
  session.graceMs = record.graceMs;
  session.connected = record.connected;
  session.ending = record.ending;
  session.endReason = record.endReason;
  session.heardMs = record.heardMs;
  session.message = record.message;
  session.lastGrant = record.lastGrant;
  session.renewedAtMs = record.renewedAtMs;
  session.renewedSeen = record.renewedSeen;
  session.stored = true;
  state.addSession(session);
}

function restoreDelay(state: TableState, record: { object: string; untilMs: number }): void {
  const object = state.addObject(record.object);
  object.delay = new Delay(object, record.untilMs);
  object.delay.stored = true;
  state.timers.set(object.delay, record.untilMs);
}

function restoreTicket(state: TableState, record: TicketRecord): void {
  const key = `t/${record.number}`;
  const session = state.sessions.get(record.session);
  if (session === undefined) throw corrupt(key, `its session ${JSON.stringify(record.session)} has no record`);
  if (session.requests.has(record.request)) throw corrupt(key, "another ticket has the same request");
  if (state.handles.has(record.handle)) throw corrupt(key, "another ticket has the same handle");
  if (record.number > state.meta.lastNumber) throw corrupt(key, "its number is above the counter");
  const agents = (record.agents ?? [session.id]).map((id) => state.agent(id));
  const { number, request, spec, handle, enteredMs } = record;
  const ticket = new Ticket(number, session, request, spec, handle, agents, enteredMs);
  ticket.stored = true;
  ticket.sinceMs = record.sinceMs;
  attach(state, ticket);
  if (record.held === undefined) {
    startWaiting(state, ticket);
    if (session.connected && session.ending === null) makeReady(state, ticket);
    if (ticket.waitDeadlineMs !== null) state.timers.set(ticket, ticket.waitDeadlineMs);
    return;
  }
  const held = record.held;
  if (held.token > state.meta.lastToken || held.token === 0) throw corrupt(key, "its token is not one that was given");
  if (state.tokens.has(held.token)) throw corrupt(key, "another ticket has the same token");
  ticket.token = held.token;
  ticket.grantNumber = held.grantNumber;
  ticket.grantedMs = held.grantedMs;
  ticket.message = held.message;
  ticket.endMs = held.endMs;
  ticket.freeAtMs = held.freeAtMs;
  ticket.lossReason = held.lossReason;
  state.tokens.set(ticket.token, ticket);
  startHolding(ticket);
  if (record.state === "locked") {
    ticket.state = "locked";
    startLease(state, ticket);
  } else {
    ticket.state = "unlocking";
    for (const name of spec.objects) disown(ticket, name);
    state.timers.set(ticket, ticket.freeAtMs);
    if (held.unheard) session.unheard.add(ticket);
  }
}

/**
 * Marks who is eligible where, which no record says, and leaves walks only for objects where a grant
 * was due: a table at rest is restored to one at rest.
 */
function settleQueues(state: TableState): void {
  for (let object = state.walks.shift(); object !== undefined; object = state.walks.shift()) {
    object.walkScheduled = false;
    for (;;) {
      const node = object.tickets.weightedAbove(object.frontier);
      if (node === null || !isEligible(node.value)) break;
      reserve(node.value);
    }
  }
  for (const object of state.objects.values()) {
    for (let node = object.tickets.weightedAt(0); node !== null && node.key <= object.frontier; ) {
      if (node.value.ticket.places.every((place) => place.reserved)) {
        unreserveAll(object);
        state.scheduleWalk(object);
        break;
      }
      node = object.tickets.weightedAbove(node.key);
    }
  }
}

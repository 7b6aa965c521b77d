/**
 * How tickets end: released, run out and timed out, forced, taken back, or failed while waiting. Owns
 * the grace between the end of the duration and the moment when the lock goes on, the lock-delay
 * after an abnormal loss, and what is remembered of both kinds of loss.
 */
import { assert } from "../../../src/errors.ts";
import { Delay, FailedRequest, LostLock, type Session, type Ticket } from "./entities.ts";
import { stopLease } from "./leases.ts";
import { detach, disown, stopHolding, stopWaiting, unreserveAll } from "./queues.ts";
import type { TableState } from "./state.ts";
import type { Blocker, LockEventKind, LockFailure, LossReason } from "./types.ts";

/** Failed waits that are remembered for retries, for each session. */
const FAILED_MAX = 16;

/** Taking a lock by force: which way, and what the history keeps of who did it and why. */
export interface ForceOrder {
  reason: "forced" | "kicked";
  note: string;
  /** it is stated that the holder does nothing any more */
  dead: boolean;
}

/** The lock is free at once; nobody is told. `event` says how it looks in the history. */
export function free(state: TableState, ticket: Ticket, event: LockEventKind, reason?: string): void {
  assert(ticket.state !== "waiting", "only a held ticket is freed");
  if (ticket.state === "locked") stopLease(state, ticket);
  ticket.session.unheard.delete(ticket);
  state.record(event, ticket, {
    heldMs: state.nowMs - ticket.grantedMs,
    ...(reason === undefined ? {} : { reason }),
  });
  stopHolding(state, ticket);
  state.tokens.delete(ticket.token);
  remove(state, ticket);
}

/** The session says by its claim that it does not know of this lock: free at once, and it is told. */
export function takeBack(state: TableState, ticket: Ticket): void {
  ticket.lossReason = "lost";
  rememberLoss(state, ticket);
  tell(state, ticket, "unlocked");
  free(state, ticket, "lost");
}

/**
 * Starts the grace: the holder is told to leave and everybody else is still kept out. It is lost to
 * its holder from here on, and a new request of the session for the object is no duplicate.
 */
function startGrace(
  state: TableState,
  ticket: Ticket,
  options: { reason: LossReason; fromMs: number; event: "expiring" | "forced" | "kicked"; note?: string },
): void {
  stopLease(state, ticket);
  ticket.state = "unlocking";
  ticket.sinceMs = state.nowMs;
  ticket.endMs = options.fromMs;
  ticket.lossReason = options.reason;
  for (const name of ticket.spec.objects) disown(ticket, name);
  setFreeAt(state, ticket, options.fromMs + ticket.spec.unlockDurationMs);
  state.record(options.event, ticket, {
    heldMs: state.nowMs - ticket.grantedMs,
    ...(options.note === undefined ? {} : { reason: options.note }),
  });
  tell(state, ticket, "unlocking");
}

/** The duration is over. The grace counts from then, however late this is noticed. */
export function expire(state: TableState, ticket: Ticket): void {
  startGrace(state, ticket, { reason: "timedout", fromMs: ticket.leaseEndMs, event: "expiring" });
}

/**
 * Takes a lock from its holder, who cannot renew it from here on. Being told is not having heard: a holder
 * that stands still or is cut off relies on its duration, so the grace counts from the end of that, until
 * its session confirms. With a detached lock nobody listens, and the dead do not confirm: it counts from now.
 */
export function force(state: TableState, ticket: Ticket, order: ForceOrder): void {
  const { reason, note, dead } = order;
  const endMs = ticket.leaseEndMs;
  const mayRely = !dead && !ticket.spec.detached && endMs > state.nowMs;
  startGrace(state, ticket, { reason, fromMs: mayRely ? endMs : Math.min(endMs, state.nowMs), event: reason, note });
  if (mayRely) ticket.session.unheard.add(ticket);
}

/** Who forced a lock out, or somebody else, states only now that its holder is dead. */
export function declareDead(state: TableState, ticket: Ticket, { reason, note }: ForceOrder): void {
  if (!ticket.session.unheard.has(ticket)) return;
  confirmLoss(state, ticket);
  state.record(reason, ticket, { heldMs: state.nowMs - ticket.grantedMs, reason: note });
}

/** The holder of a lock that was forced out is known to have stopped relying on it: the grace counts from now. */
export function confirmLoss(state: TableState, ticket: Ticket): void {
  assert(ticket.state === "unlocking", "only what was taken is confirmed");
  ticket.session.unheard.delete(ticket);
  // the end of its duration may have come before
  ticket.endMs = Math.min(ticket.endMs, state.nowMs);
  setFreeAt(state, ticket, ticket.endMs + ticket.spec.unlockDurationMs);
}

/** After a reboot nobody knows how much of a grace, or of the duration before it, is over: it starts anew. */
export function restartGrace(state: TableState, ticket: Ticket): void {
  assert(ticket.state === "unlocking", "only a grace starts anew");
  const unheard = ticket.session.unheard.has(ticket);
  if (unheard) ticket.endMs = state.nowMs + ticket.durationMs;
  setFreeAt(state, ticket, (unheard ? ticket.endMs : state.nowMs) + ticket.spec.unlockDurationMs);
}

/** The grace is over: the lock goes on, after its lock-delay. */
export function finishGrace(state: TableState, ticket: Ticket): void {
  assert(ticket.state === "unlocking", "a grace ends once");
  if (ticket.spec.lockDelayMs > 0) {
    for (const { object } of ticket.places) delayObject(state, object, ticket.freeAtMs + ticket.spec.lockDelayMs);
  }
  rememberLoss(state, ticket);
  tell(state, ticket, "unlocked");
  free(state, ticket, "expired", ticket.lossReason);
}

/** Ends a waiting ticket without a grant and tells its session. */
export function fail(
  state: TableState,
  ticket: Ticket,
  failure: {
    code: LockFailure;
    message: string;
    event: LockEventKind;
    blockers?: readonly Blocker[];
    position?: number;
  },
): void {
  assert(ticket.state === "waiting", "only a waiting ticket fails");
  const { code, message, event, blockers, position } = failure;
  state.effects.push({
    kind: "lockfailed",
    session: ticket.session.id,
    request: ticket.request,
    code,
    message,
    ...(blockers === undefined ? {} : { blockers }),
    ...(position === undefined ? {} : { position }),
  });
  state.record(event, ticket, { waitedMs: state.nowMs - ticket.enteredMs, reason: code });
  if (code !== "cancelled") rememberFailure(state, ticket, code, message);
  state.timers.remove(ticket);
  stopWaiting(state, ticket);
  remove(state, ticket);
}

/** The lock-delay of an object is over. */
export function finishDelay(state: TableState, delay: Delay): void {
  const object = delay.object;
  object.delay = null;
  state.timers.remove(delay);
  state.journal.drop(delay);
  if (object.waiting.tickets > 0) state.scheduleWalk(object);
  state.releaseObject(object);
}

/** Forgets a session as soon as nothing needs it. */
export function settleSession(state: TableState, session: Session): void {
  if (session.requests.size > 0) return;
  if (session.ending !== null) state.forgetSession(session);
  else state.watch(session);
}

function setFreeAt(state: TableState, ticket: Ticket, freeAtMs: number): void {
  ticket.freeAtMs = freeAtMs;
  state.timers.set(ticket, freeAtMs);
  state.journal.touch(ticket);
}

function remove(state: TableState, ticket: Ticket): void {
  state.timers.remove(ticket);
  detach(state, ticket);
  state.journal.drop(ticket);
  settleSession(state, ticket.session);
}

function tell(state: TableState, ticket: Ticket, kind: "unlocking" | "unlocked"): void {
  const to = { session: ticket.session.id, request: ticket.request, token: ticket.token, reason: ticket.lossReason };
  if (kind === "unlocked") state.effects.push({ kind, ...to });
  else {
    // who hears of a force at all has its unlock duration from then
    const leftMs = Math.min(ticket.spec.unlockDurationMs, ticket.freeAtMs - state.nowMs);
    state.effects.push({ kind, ...to, leftMs: Math.max(0, leftMs) });
  }
}

function rememberLoss(state: TableState, ticket: Ticket): void {
  // the event that follows has this id, so the order is unique and survives a restart
  const order = state.meta.lastEventId + 1;
  state.lost.add(new LostLock(ticket.number, ticket.handle, ticket.token, ticket.lossReason, order));
}

function rememberFailure(state: TableState, ticket: Ticket, code: LockFailure, message: string): void {
  const session = ticket.session;
  const order = state.meta.lastEventId;
  const failed = new FailedRequest(ticket.number, session.id, ticket.request, code, message, order);
  session.failed ??= new Map();
  const former = session.failed.get(ticket.request);
  if (former !== undefined) {
    session.failed.delete(ticket.request);
    state.journal.drop(former);
  }
  session.failed.set(ticket.request, failed);
  state.journal.touch(failed);
  for (const oldest of session.failed.values()) {
    if (session.failed.size <= FAILED_MAX) break;
    session.failed.delete(oldest.request);
    state.journal.drop(oldest);
  }
}

function delayObject(state: TableState, object: Delay["object"], untilMs: number): void {
  if (untilMs <= state.nowMs) return;
  if (object.delay === null) {
    object.delay = new Delay(object, untilMs);
    unreserveAll(object);
  } else if (untilMs > object.delay.untilMs) {
    object.delay.untilMs = untilMs;
  }
  state.timers.set(object.delay, object.delay.untilMs);
  state.journal.touch(object.delay);
}

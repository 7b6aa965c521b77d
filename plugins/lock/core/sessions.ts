/**
 * The life of sessions: opened, taken over, disconnected, closed, kicked, silent, forgotten; and what
 * that means for their tickets. Large sessions are worked through in slices (the sweep).
 */
import { Session, type Ticket } from "./entities.ts";
import { breakCycles } from "./deadlock.ts";
import { declareDead, fail, force, type ForceOrder, settleSession } from "./ending.ts";
import { grantOf } from "./granting.ts";
import { duration, forceNote, quote } from "./messages.ts";
import { makeReady, passOver } from "./queues.ts";
import type { TableState } from "./state.ts";
import type { LockAnswer, LockCommand, OwnTicket } from "./types.ts";

type Command<K extends LockCommand["kind"]> = Extract<LockCommand, { kind: K }>;
type Refusal = Extract<LockAnswer, { kind: "refused" }>;

export function open(state: TableState, command: Command<"open">): LockAnswer {
  let session = state.sessions.get(command.session);
  const resumed = session !== undefined;
  if (session === undefined) {
    if (state.sessions.size >= state.limits.sessionsMax) {
      return refuse("overflow", `the limit of ${state.limits.sessionsMax} sessions (sessionsMax) is reached`);
    }
    session = new Session(command.session, command.secretHash, command.holder);
    state.addSession(session);
  } else if (session.secretHash !== command.secretHash) {
    return refuse("denied", "the session belongs to another client");
  } else if (session.kicked) {
    return refuse("denied", endText(session));
  } else if (command.generation <= session.generation) {
    return refuse("denied", `generation ${command.generation} is stale: the session is at ${session.generation}`);
  }
  session.generation = command.generation;
  session.graceMs = command.graceMs;
  session.holder = command.holder;
  session.profile = null;
  session.connected = true;
  session.ending = null;
  state.hear(session, 0);
  // the timer may stand at the end of a former, longer grace
  state.timers.remove(session);
  state.watch(session);
  if (session.waiting.size > 0) state.scheduleSweep(session);
  return { kind: "opened", tickets: ownTickets(state, session), resumed };
}

export function disconnect(state: TableState, command: Command<"disconnect">): LockAnswer {
  const session = state.sessions.get(command.session);
  // a connection that was replaced meanwhile says nothing about the session
  if (session === undefined || session.generation !== command.generation || !session.connected) return { kind: "done" };
  markDisconnected(state, session);
  return { kind: "done" };
}

export function close(state: TableState, command: Command<"close">): LockAnswer {
  const session = state.sessions.get(command.session);
  if (session === undefined) return unknownSession(command.session);
  if (session.ending === null) session.ending = "closed";
  markDisconnected(state, session);
  return { kind: "done" };
}

export function kick(state: TableState, command: Command<"kick">): LockAnswer {
  const session = state.sessions.get(command.session);
  if (session === undefined) return unknownSession(command.session);
  const tickets = session.waiting.size + session.heldCount;
  if (session.ending !== "kicked-dead") session.ending = command.dead === true ? "kicked-dead" : "kicked";
  session.endReason = forceNote(command);
  markDisconnected(state, session);
  return { kind: "kicked", tickets };
}

/** After recovery nobody is connected; after a reboot the leases start anew. Looks at every ticket. */
export function restartSessions(state: TableState): void {
  for (const session of state.sessions.values()) {
    session.heardMs = state.nowMs;
    markDisconnected(state, session);
  }
}

/**
 * The grace is over: the session loses its waiting tickets, or is forgotten if it has none at all.
 * Returns how much work that was; the sweep counts its own.
 */
export function endSilence(state: TableState, session: Session): 0 | 1 {
  state.timers.remove(session);
  if (session.waiting.size > 0) {
    state.scheduleSweep(session);
    return 0;
  }
  if (session.connected || session.requests.size > 0) return 0;
  state.forgetSession(session);
  return 1;
}

/** Brings up to `ticketsMax` tickets of a session in line with its state; fewer: it is done. */
export function sweep(state: TableState, session: Session, ticketsMax: number): number {
  const tickets = session.kicked ? session.requests : session.waiting;
  session.sweepRound ??= tickets.values();
  for (let done = 0; done < ticketsMax; done++) {
    const { value: ticket, done: over } = session.sweepRound.next();
    if (over === true || ticket === undefined) {
      session.sweepRound = null;
      return done;
    }
    align(state, session, ticket);
  }
  return ticketsMax;
}

/** A session's tickets as it sees them after a take-over, in the order of its requests. */
export function ownTickets(state: TableState, session: Session): OwnTicket[] {
  return Array.from(session.requests.values(), (ticket) => ({
    request: ticket.request,
    objects: ticket.spec.objects,
    state: ticket.state,
    ...(ticket.state === "waiting" ? {} : { grant: grantOf(ticket, leftMs(state, ticket)) }),
  }));
}

/** The rest of a held ticket's duration; 0 in the grace. */
export const leftMs = (state: TableState, ticket: Ticket): number =>
  ticket.state === "locked" ? Math.max(0, ticket.leaseEndMs - state.nowMs) : 0;

export const refuse = (code: Refusal["code"], message: string): Refusal => ({ kind: "refused", code, message });

export const unknownSession = (session: string): Refusal =>
  refuse("notfound", `session ${quote(session)} is not known: it ended, or its grace was over`);

export const endText = (session: Session): string =>
  session.kicked ? `the session was kicked ${session.endReason}` : "the session was closed";

function markDisconnected(state: TableState, session: Session): void {
  session.connected = false;
  state.journal.touch(session);
  // of a kick that a crash has cut short the rest is done after it
  const affected = session.kicked ? session.requests.size : session.waiting.size;
  if (affected > 0) state.scheduleSweep(session);
  settleSession(state, session);
}

function align(state: TableState, session: Session, ticket: Ticket): void {
  if (ticket.state === "waiting") {
    if (session.kicked) {
      // not `lost`, upon which a client asks again: whoever kicks a session wants its requests to end
      fail(state, ticket, { code: "cancelled", message: endText(session), event: "kicked" });
    } else if (session.ending === "closed") {
      fail(state, ticket, { code: "cancelled", message: endText(session), event: "cancelled" });
    } else if (session.silentAtMs <= state.nowMs) {
      const message = `the session was not heard of for its grace of ${duration(session.graceMs)}`;
      fail(state, ticket, { code: "lost", message, event: "failed" });
    } else if (!session.connected) {
      passOver(state, ticket);
    } else if (!ticket.ready) {
      makeReady(state, ticket);
      breakCycles(state, ticket);
    }
  } else if (session.kicked && !ticket.spec.detached) {
    const order: ForceOrder = { reason: "kicked", note: session.endReason, dead: session.ending === "kicked-dead" };
    if (ticket.state === "locked") force(state, ticket, order);
    else if (order.dead) declareDead(state, ticket, order);
  }
}

/**
 * Renewals: the keep-alive of a whole session, which costs the same for any number of locks, and that
 * of one lock by its handle. What a session does not know of is taken back here.
 */
import type { Session, Ticket } from "./entities.ts";
import { expire, takeBack } from "./ending.ts";
import { digestUpTo, extendLease, owned, renewLeases } from "./leases.ts";
import { lossText } from "./messages.ts";
import { endText, leftMs, refuse, unknownSession } from "./sessions.ts";
import type { TableState } from "./state.ts";
import type { LockAnswer, LockCommand, LossReason } from "./types.ts";

type Command<K extends LockCommand["kind"]> = Extract<LockCommand, { kind: K }>;

export function renew(state: TableState, command: Command<"renew">): LockAnswer {
  const session = state.sessions.get(command.session);
  if (session === undefined) return unknownSession(command.session);
  if (session.ending !== null) return refuse("lost", endText(session));
  const { seen, held } = command;
  if (seen > session.lastGrant || seen < session.renewedSeen) {
    return refuse(
      "invalid",
      `seen ${seen} is not between the last renewal's ${session.renewedSeen} and the last grant ${session.lastGrant}`,
    );
  }
  state.hear(session, command.message);
  if (!("tokens" in held)) {
    const own = digestUpTo(session, seen);
    if (own.count !== held.count || own.digest[0] !== held.digest[0] || own.digest[1] !== held.digest[1]) {
      return { kind: "renewed", message: session.message, lost: [], mismatch: true };
    }
    renewLeases(state, session, seen);
    return { kind: "renewed", message: session.message, lost: [], mismatch: false };
  }
  const claimed = new Set(held.tokens);
  const unclaimed: Ticket[] = [];
  for (const ticket of owned(session)) {
    if (ticket.grantNumber <= seen && !claimed.has(ticket.token)) unclaimed.push(ticket);
  }
  unclaimed.sort((a, b) => a.grantNumber - b.grantNumber);
  for (const ticket of unclaimed) takeBack(state, ticket);
  renewLeases(state, session, seen);
  const lost: { token: number; reason: LossReason }[] = [];
  for (const token of claimed) {
    const ticket = state.tokens.get(token);
    if (ticket === undefined || ticket.session !== session || ticket.state !== "locked") {
      lost.push({ token, reason: lossOf(state, session, token) });
    } else if (ticket.spec.detached || ticket.grantNumber > seen) {
      extendLease(state, ticket, ticket.durationMs);
    }
  }
  return { kind: "renewed", message: session.message, lost, mismatch: false };
}

export function renewHandle(state: TableState, command: Command<"renewHandle">): LockAnswer {
  const ticket = state.handles.get(command.handle);
  if (ticket === undefined) return unknownHandle(state, command.handle);
  if (ticket.state === "waiting") return refuse("notheld", "the lock was not granted yet");
  if (ticket.state === "locked" && ticket.leaseEndMs <= state.nowMs) expire(state, ticket);
  if (ticket.state !== "locked") return refuse("lost", `the lock was lost: ${lossText(ticket.lossReason)}`);
  extendLease(state, ticket, command.durationMs ?? ticket.durationMs);
  return {
    kind: "renewedHandle",
    token: ticket.token,
    leftMs: leftMs(state, ticket),
    durationMs: ticket.durationMs,
    unlockDurationMs: ticket.spec.unlockDurationMs,
  };
}

/** The answer to a handle that names no ticket: `lost` while that is remembered, else `notheld`. */
export function unknownHandle(state: TableState, handle: string): LockAnswer {
  const lost = state.lost.byHandle(handle);
  if (lost === undefined) return refuse("notheld", "no lock is held or waited for by this handle");
  return refuse("lost", `the lock was lost: ${lossText(lost.reason)}`);
}

function lossOf(state: TableState, session: Session, token: number): LossReason {
  const ticket = state.tokens.get(token);
  if (ticket !== undefined && ticket.session === session) return ticket.lossReason;
  return state.lost.byToken(token)?.reason ?? "lost";
}

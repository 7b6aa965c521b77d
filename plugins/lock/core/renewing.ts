/**
 * Renewals: the keep-alive of a whole session, which costs the same for any number of locks, and that
 * of one lock by its handle. What a session does not know of is taken back here, and here it confirms
 * that it heard what was taken from it by force: by not claiming it any more.
 */
import type { Session, Ticket } from "./entities.ts";
import { confirmLoss, expire, takeBack } from "./ending.ts";
import { digestUpTo, extendLease, owned, renewLeases } from "./leases.ts";
import { duration, lossText } from "./messages.ts";
import { endText, leftMs, refuse, unknownSession } from "./sessions.ts";
import type { TableState } from "./state.ts";
import type { LockAnswer, LockCommand, LossReason } from "./types.ts";

/** Losses that one keep-alive confirms, so that no step takes long; the next one confirms the rest. */
const CONFIRMED_MAX = 10_000;

type Command<K extends LockCommand["kind"]> = Extract<LockCommand, { kind: K }>;

export function renew(state: TableState, command: Command<"renew">): LockAnswer {
  const session = state.sessions.get(command.session);
  if (session === undefined) return unknownSession(command.session);
  const { seen, held } = command;
  const inOrder = seen <= session.lastGrant && seen >= session.renewedSeen;
  if (session.ending !== null) {
    // nothing is renewed, but what it does not claim it does not rely on either
    if (inOrder) confirmLosses(state, session, command);
    return refuse("lost", endText(session));
  }
  if (!inOrder) {
    return refuse(
      "invalid",
      `seen ${seen} is not between the last renewal's ${session.renewedSeen} and the last grant ${session.lastGrant}`,
    );
  }
  state.hear(session, command.message);
  confirmLosses(state, session, command);
  if (!("tokens" in held)) {
    if (!agrees(session, seen, held)) return { kind: "renewed", message: session.message, lost: [], mismatch: true };
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

/**
 * What was forced out and is not among the tokens that the session claims: it heard. A digest says so when
 * it is that of what the session owns, which the forced ones are not part of.
 */
function confirmLosses(state: TableState, session: Session, { seen, held }: Command<"renew">): void {
  if (session.unheard.size === 0) return;
  const claimed = new Set("tokens" in held ? held.tokens : []);
  if (!("tokens" in held) && !agrees(session, seen, held)) return;
  let left = CONFIRMED_MAX;
  for (const ticket of session.unheard) {
    // a grant that it does not know of yet it may still come to rely on
    if (ticket.grantNumber > seen || claimed.has(ticket.token)) continue;
    if (left-- === 0) break;
    confirmLoss(state, ticket);
  }
}

function agrees(session: Session, seen: number, claim: { count: number; digest: readonly [number, number] }): boolean {
  const { count, digest } = digestUpTo(session, seen);
  return count === claim.count && digest[0] === claim.digest[0] && digest[1] === claim.digest[1];
}

export function renewHandle(state: TableState, command: Command<"renewHandle">): LockAnswer {
  const ticket = state.handles.get(command.handle);
  if (ticket === undefined) return unknownHandle(state, command.handle);
  if (ticket.state === "waiting") return refuse("notheld", "the lock was not granted yet");
  if (ticket.state === "locked" && ticket.leaseEndMs <= state.nowMs) expire(state, ticket);
  if (ticket.state !== "locked") return refuse("lost", `the lock was lost: ${lossText(ticket.lossReason)}`);
  const { durationMs } = command;
  if (durationMs !== null && durationMs < ticket.durationMs && !ticket.spec.detached) {
    // the session does not hear of it, and would rely on the lock for longer than it lasts
    const own = duration(ticket.durationMs);
    return refuse("invalid", `the lock belongs to a session that counts on ${own}: its duration cannot be shortened to ${duration(durationMs)}`);
  }
  extendLease(state, ticket, command.durationMs ?? ticket.durationMs);
  const { value } = command;
  if (value !== undefined && value !== ticket.value) {
    ticket.value = value;
    state.record("value", ticket, { value });
  }
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

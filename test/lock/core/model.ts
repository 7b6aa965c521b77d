/**
 * The lock table once more, as simple as it can be said: arrays, full scans, no bounds on work. It is
 * the rules of the service in code, to compare the real table with. Tokens and grant numbers are not
 * predicted but adopted from the table, and only their order is checked.
 */
import { tokenDigest } from "../../../src/client/protocol.ts";
import type {
  Grant,
  LockAnswer,
  LockCommand,
  LockEventKind,
  LockFailure,
  LockLimits,
  LockSpec,
  LossReason,
} from "../../../plugins/lock/core/types.ts";

const FAILED_MAX = 16;

interface ModelSession {
  id: string;
  secretHash: string;
  generation: number;
  graceMs: number;
  connected: boolean;
  ending: "closed" | "kicked" | null;
  heardMs: number;
  message: number;
  lastGrant: number;
  renewedAtMs: number;
  renewedSeen: number;
  failed: { request: string; code: LockFailure }[];
}

interface ModelTicket {
  number: number;
  session: ModelSession;
  request: string;
  handle: string;
  spec: LockSpec;
  agents: string[];
  state: "waiting" | "locked" | "unlocking";
  enteredMs: number;
  durationMs: number;
  value: string | null;
  endMs: number;
  freeAtMs: number;
  reason: LossReason;
  /** forced out, and its session did not say yet that it heard */
  unheard: boolean;
  message: number;
  token: number;
  grantNumber: number;
}

/** What is compared of an answer: its kind and what the rules determine. */
export type Outcome = string;

type Of<K extends LockCommand["kind"]> = Extract<LockCommand, { kind: K }>;

export class Model {
  nowMs = 0;
  lastNumber = 0;
  sessions: ModelSession[] = [];
  tickets: ModelTicket[] = [];
  delays: { object: string; untilMs: number }[] = [];
  lost: { handle: string; token: number; reason: LossReason }[] = [];
  /** what the table must have said since `take` */
  effects: Outcome[] = [];
  events: Outcome[] = [];
  grantedNow: ModelTicket[] = [];

  constructor(readonly limits: LockLimits) {}

  /** Time passes: each deadline in order, and after each whatever it allows. */
  passTo(nowMs: number): void {
    this.nowMs = nowMs;
    for (;;) {
      const due = this.#deadlines().filter((deadline) => deadline.atMs <= nowMs);
      due.sort((a, b) => a.atMs - b.atMs || a.rank - b.rank || (a.key < b.key ? -1 : 1));
      const first = due[0];
      if (first === undefined) {
        this.#forgetSessions();
        return;
      }
      first.act();
      this.#grantAll();
      this.#forgetSessions();
    }
  }

  apply(command: LockCommand): Outcome {
    const outcome = this.#command(command);
    this.#grantAll();
    this.#forgetSessions();
    this.passTo(this.nowMs);
    return outcome;
  }

  /** The table says which token a ticket got; the model must have granted it just now. */
  adopt(grant: Grant): boolean {
    const ticket = this.grantedNow.find((each) => each.session.id === grant.session && each.request === grant.request);
    if (ticket === undefined) return false;
    this.grantedNow = this.grantedNow.filter((each) => each !== ticket);
    ticket.token = grant.token;
    ticket.grantNumber = grant.grantNumber;
    ticket.session.lastGrant = Math.max(ticket.session.lastGrant, grant.grantNumber);
    return true;
  }

  /** One line a ticket and object, as the listing must show it. */
  listing(): string[] {
    const rows = this.tickets.flatMap((ticket) => ticket.spec.objects.map((object) => ({ object, ticket })));
    rows.sort((a, b) => (a.object < b.object ? -1 : a.object > b.object ? 1 : a.ticket.number - b.ticket.number));
    return rows.map(({ object, ticket }) => {
      const place =
        ticket.state === "waiting"
          ? `position ${1 + this.#ahead(object, ticket).length} until ${this.#waitDeadline(ticket)}`
          : `token ${ticket.token} end ${ticket.state === "locked" ? this.#end(ticket) : ticket.endMs} free ${ticket.state === "locked" ? this.#end(ticket) + ticket.spec.unlockDurationMs : ticket.freeAtMs}`;
      return `${object} ${ticket.number} ${ticket.session.id} ${ticket.state} ${place} ${ticket.value}`;
    });
  }

  /** One line a session. */
  sessionList(): string[] {
    return this.sessions
      .filter((session) => {
        const over = session.ending !== null || (!session.connected && this.nowMs >= session.heardMs + session.graceMs);
        return !over || this.#of(session).length === 0 || this.#owned(session).length > 0;
      })
      .map((session) => {
        const own = this.#owned(session);
        const waiting = own.filter((ticket) => ticket.state === "waiting").length;
        return `${session.id} ${session.generation} ${session.connected} ${session.heardMs} ${own.length - waiting} ${waiting}`;
      })
      .sort();
  }

  #deadlines(): { atMs: number; rank: number; key: number | string; act: () => void }[] {
    const all: { atMs: number; rank: number; key: number | string; act: () => void }[] = [];
    for (const delay of this.delays) {
      const act = () => {
        this.delays = this.delays.filter((each) => each !== delay);
      };
      all.push({ atMs: delay.untilMs, rank: 0, key: delay.object, act });
    }
    for (const ticket of this.tickets) {
      const at = { rank: 1, key: ticket.number };
      if (ticket.state === "waiting") {
        const atMs = this.#waitDeadline(ticket);
        if (atMs !== null) all.push({ ...at, atMs, act: () => this.#fail(ticket, "timedout", "failed") });
      } else if (ticket.state === "locked") {
        const atMs = this.#end(ticket);
        all.push({ ...at, atMs, act: () => this.#startGrace(ticket, "timedout", atMs, "expiring") });
      } else {
        all.push({ ...at, atMs: ticket.freeAtMs, act: () => this.#finishGrace(ticket) });
      }
    }
    for (const session of this.sessions) {
      const waiting = this.#of(session).filter((ticket) => ticket.state === "waiting");
      if (waiting.length === 0) continue;
      const act = () => {
        for (const ticket of waiting) this.#fail(ticket, "lost", "failed");
      };
      all.push({ atMs: session.heardMs + session.graceMs, rank: 3, key: session.id, act });
    }
    return all;
  }

  #waitDeadline(ticket: ModelTicket): number | null {
    return ticket.spec.waitMs === null ? null : ticket.enteredMs + ticket.spec.waitMs;
  }

  #end(ticket: ModelTicket): number {
    const renewed = !ticket.spec.detached && ticket.token > 0 && ticket.grantNumber <= ticket.session.renewedSeen;
    return renewed ? Math.max(ticket.endMs, ticket.session.renewedAtMs + ticket.durationMs) : ticket.endMs;
  }

  #of(session: ModelSession): ModelTicket[] {
    return this.tickets.filter((ticket) => ticket.session === session);
  }

  #isPresent(ticket: ModelTicket): boolean {
    return ticket.session.connected && ticket.session.ending === null;
  }

  #at(object: string): ModelTicket[] {
    return this.tickets.filter((ticket) => ticket.spec.objects.includes(object));
  }

  #ahead(object: string, ticket: ModelTicket): ModelTicket[] {
    return this.#at(object).filter(
      (each) => each.state === "waiting" && this.#isPresent(each) && each.number < ticket.number,
    );
  }

  /** A ticket is eligible when it, who holds, and who waits before it all go together at every object. */
  #isEligible(ticket: ModelTicket): boolean {
    return ticket.spec.objects.every((object) => {
      if (this.delays.some((delay) => delay.object === object)) return false;
      const holders = this.#at(object).filter((each) => each.state !== "waiting");
      return goTogether([...holders, ...this.#ahead(object, ticket), ticket].map((each) => each.spec));
    });
  }

  #grantAll(): void {
    for (;;) {
      const next = this.tickets.find(
        (ticket) => ticket.state === "waiting" && this.#isPresent(ticket) && this.#isEligible(ticket),
      );
      if (next === undefined) return;
      this.#grant(next);
      this.effects.push(`locked ${next.session.id} ${next.request} ${next.message}`);
    }
  }

  #grant(ticket: ModelTicket): void {
    ticket.state = "locked";
    ticket.endMs = this.nowMs + ticket.durationMs;
    ticket.message = ticket.session.message;
    this.grantedNow.push(ticket);
    this.#event("granted", ticket);
  }

  #event(event: LockEventKind, ticket: Pick<ModelTicket, "spec" | "number">): void {
    for (const object of ticket.spec.objects) this.events.push(`${event} ${object} ${ticket.number}`);
  }

  #remove(ticket: ModelTicket): void {
    this.tickets = this.tickets.filter((each) => each !== ticket);
  }

  #fail(ticket: ModelTicket, code: LockFailure, event: LockEventKind): void {
    this.effects.push(`lockfailed ${ticket.session.id} ${ticket.request} ${code}`);
    this.#event(event, ticket);
    const failed = ticket.session.failed;
    if (code !== "cancelled") failed.push({ request: ticket.request, code });
    if (failed.length > FAILED_MAX) failed.shift();
    this.#remove(ticket);
  }

  #startGrace(ticket: ModelTicket, reason: LossReason, fromMs: number, event: LockEventKind): void {
    ticket.state = "unlocking";
    ticket.reason = reason;
    ticket.endMs = fromMs;
    ticket.freeAtMs = fromMs + ticket.spec.unlockDurationMs;
    const leftMs = Math.min(ticket.spec.unlockDurationMs, Math.max(0, ticket.freeAtMs - this.nowMs));
    this.effects.push(`unlocking ${ticket.session.id} ${ticket.request} ${ticket.token} ${reason} ${leftMs}`);
    this.#event(event, ticket);
  }

  /** Who cannot have heard may rely on the lease, unless nobody does. */
  #force(ticket: ModelTicket, reason: "forced" | "kicked", dead: boolean): void {
    if (ticket.state === "locked") {
      ticket.unheard = !dead && !ticket.spec.detached;
      this.#startGrace(ticket, reason, ticket.unheard ? this.#end(ticket) : this.nowMs, reason);
    } else if (ticket.state === "unlocking" && ticket.unheard && dead) {
      this.#confirm(ticket);
      this.#event(reason, ticket);
    }
  }

  #confirm(ticket: ModelTicket): void {
    ticket.unheard = false;
    ticket.endMs = Math.min(ticket.endMs, this.nowMs);
    ticket.freeAtMs = ticket.endMs + ticket.spec.unlockDurationMs;
  }

  #remember(ticket: ModelTicket): void {
    this.lost.push({ handle: ticket.handle, token: ticket.token, reason: ticket.reason });
    if (this.lost.length > this.limits.lostMax) this.lost.shift();
    this.effects.push(`unlocked ${ticket.session.id} ${ticket.request} ${ticket.token} ${ticket.reason}`);
  }

  #finishGrace(ticket: ModelTicket): void {
    const untilMs = ticket.freeAtMs + ticket.spec.lockDelayMs;
    if (ticket.spec.lockDelayMs > 0 && untilMs > this.nowMs) {
      for (const object of ticket.spec.objects) {
        const former = this.delays.find((delay) => delay.object === object);
        if (former === undefined) this.delays.push({ object, untilMs });
        else former.untilMs = Math.max(former.untilMs, untilMs);
      }
    }
    this.#remember(ticket);
    this.#event("expired", ticket);
    this.#remove(ticket);
  }

  /** Once granted, a detached ticket belongs to whoever has its handle. */
  #owned(session: ModelSession): ModelTicket[] {
    return this.#of(session).filter((ticket) => ticket.state === "waiting" || !ticket.spec.detached);
  }

  #forgetSessions(): void {
    this.sessions = this.sessions.filter((session) => {
      if (this.#of(session).length > 0) return true;
      if (session.ending !== null) return false;
      return session.connected || this.nowMs < session.heardMs + session.graceMs;
    });
  }

  #command(command: LockCommand): Outcome {
    switch (command.kind) {
      case "open":
        return this.#open(command);
      case "disconnect": {
        const session = this.sessions.find((each) => each.id === command.session);
        if (session?.generation === command.generation) session.connected = false;
        return "done";
      }
      case "tick":
        return "done";
      case "restart":
        return this.#restart(command);
      case "unlock":
        return this.#unlock(command);
      case "renewHandle":
        return this.#renewHandle(command);
      case "release":
        return this.#release(command);
      default: {
        const session = this.sessions.find((each) => each.id === command.session);
        if (session === undefined) return "refused notfound";
        return this.#ofSession(session, command);
      }
    }
  }

  #ofSession(session: ModelSession, command: Of<"close" | "kick" | "lock" | "cancel" | "renew">): Outcome {
    if (command.kind === "close") {
      session.ending ??= "closed";
      session.connected = false;
      const kicked = session.ending === "kicked";
      for (const ticket of this.#of(session)) {
        if (ticket.state !== "waiting") continue;
        if (kicked) this.#fail(ticket, "cancelled", "kicked");
        else this.#fail(ticket, "cancelled", "cancelled");
      }
      return "done";
    }
    if (command.kind === "kick") {
      session.ending = "kicked";
      session.connected = false;
      const tickets = this.#owned(session);
      for (const ticket of tickets) {
        if (ticket.state === "waiting") this.#fail(ticket, "cancelled", "kicked");
        else this.#force(ticket, "kicked", command.dead === true);
      }
      return `kicked ${tickets.length}`;
    }
    if (command.kind === "cancel") {
      this.#hear(session, command.message);
      const ticket = this.#of(session).find((each) => each.request === command.request);
      return ticket === undefined ? "refused notheld" : this.#leave(ticket, true);
    }
    if (command.kind === "renew") return this.#renew(session, command);
    return session.ending === null ? this.#lock(session, command) : "refused notfound";
  }

  #hear(session: ModelSession, message: number): void {
    session.heardMs = this.nowMs;
    session.message = Math.max(session.message, message);
  }

  #open(command: Of<"open">): Outcome {
    let session = this.sessions.find((each) => each.id === command.session);
    const resumed = session !== undefined;
    if (session === undefined) {
      if (this.sessions.length >= this.limits.sessionsMax) return "refused overflow";
      session = {
        id: command.session,
        secretHash: command.secretHash,
        generation: 0,
        graceMs: 0,
        connected: true,
        ending: null,
        heardMs: 0,
        message: 0,
        lastGrant: 0,
        renewedAtMs: 0,
        renewedSeen: 0,
        failed: [],
      };
      this.sessions.push(session);
    } else if (session.secretHash !== command.secretHash || session.ending === "kicked") {
      return "refused denied";
    } else if (command.generation <= session.generation) {
      return "refused denied";
    }
    const { generation, graceMs } = command;
    Object.assign(session, { generation, graceMs, connected: true, ending: null, heardMs: this.nowMs });
    const own = this.#of(session).map((ticket) => `${ticket.request}:${ticket.state}`);
    return `opened ${resumed} ${own.join(",")}`;
  }

  #restart(command: Of<"restart">): Outcome {
    for (const session of this.sessions) {
      session.connected = false;
      session.heardMs = this.nowMs;
    }
    for (const ticket of command.rebooted ? this.tickets : []) {
      if (ticket.state === "locked") ticket.endMs = this.nowMs + ticket.durationMs;
      if (ticket.state !== "unlocking") continue;
      if (ticket.unheard) ticket.endMs = this.nowMs + ticket.durationMs;
      ticket.freeAtMs = (ticket.unheard ? ticket.endMs : this.nowMs) + ticket.spec.unlockDurationMs;
    }
    return "done";
  }

  #lock(session: ModelSession, command: Of<"lock">): Outcome {
    if (!session.connected) return "refused unavailable";
    this.#hear(session, command.message);
    const { spec, request, handle } = command;
    const former = this.#of(session).find((ticket) => ticket.request === request);
    if (former !== undefined) {
      if (former.state === "waiting") return `waiting ${this.#position(former)}`;
      if (former.state === "unlocking") return "refused lost";
      return `locked ${request} ${this.#end(former) - this.nowMs} ${former.message}`;
    }
    const failed = session.failed.findLast((each) => each.request === request);
    if (failed !== undefined) return `refused ${failed.code}`;
    const refused = this.#check(session, spec);
    if (refused !== null) return refused;
    const held = spec.parents.flatMap((parent) =>
      this.tickets.filter((each) => each.handle === parent && each.state !== "waiting").flatMap((each) => each.agents),
    );
    const ticket: ModelTicket = {
      number: ++this.lastNumber,
      session,
      request,
      handle,
      spec,
      agents: held.length === 0 ? [session.id] : [...new Set(held)],
      state: "waiting",
      enteredMs: this.nowMs,
      durationMs: spec.durationMs,
      value: spec.value,
      endMs: 0,
      freeAtMs: 0,
      reason: "timedout",
      unheard: false,
      message: 0,
      token: 0,
      grantNumber: 0,
    };
    this.tickets.push(ticket);
    if (this.#isEligible(ticket)) {
      this.#grant(ticket);
      return `locked ${request} ${ticket.durationMs} ${ticket.message}`;
    }
    if (spec.waitMs === 0) {
      this.#event("failed", ticket);
      this.#remove(ticket);
      return "refused timedout";
    }
    for (const object of spec.objects) {
      const waiters = this.#at(object).filter((each) => each.state === "waiting").length - 1;
      if (waiters < this.limits.waitersPerObjectMax) continue;
      this.#remove(ticket);
      return "refused overflow";
    }
    this.#event("waiting", ticket);
    if (spec.detectDeadlock && this.isDeadlocked(ticket)) {
      this.#event("failed", ticket);
      session.failed.push({ request, code: "deadlock" });
      if (session.failed.length > FAILED_MAX) session.failed.shift();
      this.#remove(ticket);
      return "refused deadlock";
    }
    return `waiting ${this.#position(ticket)}`;
  }

  /** Whether an agent that the ticket acts for waits, over any number of steps, for itself. */
  isDeadlocked(start: ModelTicket): boolean {
    const reached = new Set<string>();
    const visit = (ticket: ModelTicket): void => {
      for (const agent of this.#blockers(ticket).flatMap((blocker) => blocker.agents)) {
        if (reached.has(agent)) continue;
        reached.add(agent);
        this.tickets
          .filter((each) => each.state === "waiting" && this.#isPresent(each) && each.agents.includes(agent))
          .forEach(visit);
      }
    };
    visit(start);
    return start.agents.some((agent) => reached.has(agent));
  }

  #blockers(ticket: ModelTicket): ModelTicket[] {
    return ticket.spec.objects.flatMap((object) => [
      ...this.#at(object).filter((each) => each.state === "locked" && !goTogether([each.spec, ticket.spec])),
      ...this.#ahead(object, ticket).filter((each) => !goTogether([each.spec, ticket.spec])),
    ]);
  }

  #check(session: ModelSession, spec: LockSpec): Outcome | null {
    const { limits } = this;
    if (spec.objects.length > limits.objectsPerTicketMax) return "refused overflow";
    if (spec.count > spec.permits) return "refused invalid";
    for (const object of spec.objects) {
      const others = this.#at(object);
      if (others.some((each) => each.session === session && each.state !== "unlocking")) return "refused duplicate";
      const permits = others.find((each) => each.spec.mode === "semaphore")?.spec.permits;
      if (spec.mode === "semaphore" && permits !== undefined && permits !== spec.permits) return "refused invalid";
    }
    if (this.tickets.length >= limits.ticketsMax) return "refused overflow";
    if (this.#of(session).length >= limits.ticketsPerSessionMax) return "refused overflow";
    return null;
  }

  #position(ticket: ModelTicket): number {
    return 1 + Math.max(...ticket.spec.objects.map((object) => this.#ahead(object, ticket).length));
  }

  #unlock(command: Of<"unlock">): Outcome {
    const ticket = this.tickets.find((each) => each.handle === command.handle);
    if (ticket === undefined) return this.#unknownHandle(command.handle);
    return this.#leave(ticket, command.by === undefined || command.by === ticket.session.id);
  }

  #unknownHandle(handle: string): Outcome {
    return this.lost.some((each) => each.handle === handle) ? "refused lost" : "refused notheld";
  }

  #leave(ticket: ModelTicket, ownWish: boolean): Outcome {
    if (ticket.state === "waiting") {
      this.#fail(ticket, "cancelled", "cancelled");
      return "unlocked null false";
    }
    this.#event("released", ticket);
    this.#remove(ticket);
    if (!ownWish && !ticket.spec.detached) {
      this.effects.push(`unlocked ${ticket.session.id} ${ticket.request} ${ticket.token} lost`);
    }
    return ticket.state === "locked" ? `unlocked ${ticket.token} true` : "refused lost";
  }

  #renew(session: ModelSession, command: Of<"renew">): Outcome {
    const { seen, held } = command;
    const inOrder = seen <= session.lastGrant && seen >= session.renewedSeen;
    if (session.ending === null) {
      if (!inOrder) return "refused invalid";
      this.#hear(session, command.message);
    }
    const own = this.#of(session).filter((ticket) => ticket.state === "locked" && !ticket.spec.detached);
    const known = own.filter((ticket) => ticket.grantNumber <= seen);
    const [sum, xor] = tokenDigest(known.map((ticket) => ticket.token));
    const agreed = "tokens" in held || (known.length === held.count && sum === held.digest[0] && xor === held.digest[1]);
    for (const ticket of inOrder && agreed ? this.#of(session) : []) {
      const claimed = "tokens" in held && held.tokens.includes(ticket.token);
      if (ticket.unheard && ticket.grantNumber <= seen && !claimed) this.#confirm(ticket);
    }
    if (session.ending !== null) return "refused lost";
    if (!agreed) return `renewed ${session.message}  true`;
    if (!("tokens" in held)) {
      session.renewedAtMs = this.nowMs;
      session.renewedSeen = seen;
      return `renewed ${session.message}  false`;
    }
    for (const ticket of known.filter((each) => !held.tokens.includes(each.token))) {
      ticket.reason = "lost";
      this.#remember(ticket);
      this.#event("lost", ticket);
      this.#remove(ticket);
    }
    session.renewedAtMs = this.nowMs;
    session.renewedSeen = seen;
    const lost: string[] = [];
    for (const token of new Set(held.tokens)) {
      const ticket = this.#of(session).find((each) => each.token === token && each.state !== "waiting");
      if (ticket?.state === "locked") ticket.endMs = this.nowMs + ticket.durationMs;
      else lost.push(`${token}:${ticket?.reason ?? this.lost.find((each) => each.token === token)?.reason ?? "lost"}`);
    }
    return `renewed ${session.message} ${lost.join(",")} false`;
  }

  #renewHandle(command: Of<"renewHandle">): Outcome {
    const ticket = this.tickets.find((each) => each.handle === command.handle);
    if (ticket === undefined) return this.#unknownHandle(command.handle);
    if (ticket.state === "waiting") return "refused notheld";
    if (ticket.state === "unlocking") return "refused lost";
    if (!ticket.spec.detached && command.durationMs !== null && command.durationMs < ticket.durationMs) return "refused invalid";
    ticket.durationMs = command.durationMs ?? ticket.durationMs;
    ticket.endMs = this.nowMs + ticket.durationMs;
    if (command.value !== undefined && command.value !== ticket.value) {
      ticket.value = command.value;
      this.#event("value", ticket);
    }
    return `renewedHandle ${ticket.token} ${ticket.durationMs} ${ticket.durationMs}`;
  }

  #release(command: Of<"release">): Outcome {
    const ticket = this.#at(command.object).find((each) => each.state !== "waiting" && each.token === command.token);
    if (ticket === undefined) return "refused notfound";
    this.#force(ticket, "forced", command.dead === true);
    return `releasing ${ticket.session.id} ${Math.max(0, ticket.freeAtMs - this.nowMs)}`;
  }
}

/** Whether all of these may hold one object at the same time. */
export function goTogether(specs: readonly LockSpec[]): boolean {
  if (specs.length <= 1) return true;
  if (specs.every((spec) => spec.mode === "shared")) return true;
  if (!specs.every((spec) => spec.mode === "semaphore")) return false;
  const permits = Math.min(...specs.map((spec) => spec.permits));
  return specs.reduce((sum, spec) => sum + spec.count, 0) <= permits;
}

/** A real answer in the words of the model. */
export function outcomeOf(answer: LockAnswer): Outcome {
  switch (answer.kind) {
    case "opened":
      return `opened ${answer.resumed} ${answer.tickets.map((own) => `${own.request}:${own.state}`).join(",")}`;
    case "locked":
      return `locked ${answer.grant.request} ${answer.grant.leftMs} ${answer.grant.message}`;
    case "waiting":
      return `waiting ${answer.position}`;
    case "unlocked":
      return `unlocked ${answer.token} ${answer.held}`;
    case "renewed":
      return `renewed ${answer.message} ${answer.lost.map((each) => `${each.token}:${each.reason}`).join(",")} ${answer.mismatch}`;
    case "renewedHandle":
      return `renewedHandle ${answer.token} ${answer.leftMs} ${answer.durationMs}`;
    case "releasing":
      return `releasing ${answer.holder.name} ${answer.freeMs}`;
    case "kicked":
      return `kicked ${answer.tickets}`;
    case "done":
      return "done";
    case "refused":
      return `refused ${answer.code}`;
  }
}

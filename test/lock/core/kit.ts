/**
 * A small world for tests of the lock table: sessions with names, locks with defaults, time that moves
 * when told, and everything that the table said, in order. Knows the rules no better than a client.
 */
import { LockTable } from "../../../plugins/lock/core/table.ts";
import type {
  Grant,
  HeldClaim,
  Holder,
  LockAnswer,
  LockCommand,
  LockEffect,
  LockEvent,
  LockLimits,
  LockSpec,
  StepResult,
  TicketView,
} from "../../../plugins/lock/core/types.ts";
import { tokenDigest } from "../../../src/client/protocol.ts";

export const LIMITS: LockLimits = {
  objectsMax: 1000,
  ticketsMax: 10_000,
  ticketsPerSessionMax: 1000,
  waitersPerObjectMax: 1000,
  objectsPerTicketMax: 64,
  sessionsMax: 1000,
  lostMax: 100,
  workPerStepMax: 100,
};

export const holderOf = (session: string): Holder => ({
  name: session,
  host: `${session}.example`,
  pid: 100 + session.length,
  program: "job",
  address: "192.0.2.1:5000",
});

export const specOf = (options: Partial<LockSpec> = {}): LockSpec => ({
  objects: ["x"],
  mode: "exclusive",
  permits: 1,
  count: 1,
  waitMs: null,
  durationMs: 10_000,
  unlockDurationMs: 5_000,
  lockDelayMs: 0,
  value: null,
  detached: false,
  detectDeadlock: false,
  reportQueue: false,
  parents: [],
  ...options,
});

export class World {
  table: LockTable;
  nowMs = 1_000_000;
  readonly stored = new Map<string, Uint8Array>();
  readonly events: LockEvent[] = [];
  /** effects of the last step, its ticks included */
  effects: LockEffect[] = [];
  lastHandle = "";
  #messages = 0;
  #handles = 0;

  constructor(readonly limits: LockLimits = LIMITS) {
    this.table = new LockTable(limits);
  }

  /** One command at the present time, and ticks until nothing is due. */
  step(command: LockCommand): LockAnswer {
    const { answer } = this.single(command);
    const effects = this.effects;
    this.settle();
    this.effects = [...effects, ...this.effects];
    return answer;
  }

  /** One command, and nothing else. */
  single(command: LockCommand): StepResult {
    const result = this.table.step(command, { nowMs: this.nowMs, wallMs: this.nowMs + 1e12 });
    this.effects = [...result.effects];
    this.store();
    return result;
  }

  /** Ticks until nothing is due. */
  settle(): void {
    const effects: LockEffect[] = [];
    for (let ticks = 0; this.isDue(); ticks++) {
      if (ticks > 1_000_000) throw new Error("the table never comes to rest");
      this.single({ kind: "tick" });
      effects.push(...this.effects);
    }
    this.effects = effects;
  }

  isDue(): boolean {
    const deadlineMs = this.table.nextDeadlineMs();
    return deadlineMs !== null && deadlineMs <= this.nowMs;
  }

  /** Moves time and lets the table do what is due then; returns what it said. */
  advance(ms: number): LockEffect[] {
    this.nowMs += ms;
    this.settle();
    return this.effects;
  }

  store(): void {
    for (const { key, value } of this.table.drainChanges()) {
      if (value === null) this.stored.delete(key);
      else this.stored.set(key, value.slice());
    }
    this.events.push(...this.table.drainEvents());
  }

  /** Goes on with a table made from the records alone. */
  recover(): void {
    this.table = LockTable.restore(this.stored, this.limits);
  }

  open(...sessions: string[]): void {
    for (const session of sessions) this.openWith(session);
  }

  openWith(session: string, options: { generation?: number; secretHash?: string; graceMs?: number } = {}): LockAnswer {
    const { generation = 1, secretHash = `secret of ${session}`, graceMs = 86_400_000 } = options;
    return this.step({ kind: "open", session, secretHash, generation, graceMs, holder: holderOf(session) });
  }

  /** Locks "x", or what the options say; the request id is the session's name unless given. */
  lock(session: string, options: Partial<LockSpec> & { request?: string } = {}): LockAnswer {
    const { request = session, ...spec } = options;
    this.lastHandle = `handle ${++this.#handles}`;
    return this.step({
      kind: "lock",
      session,
      request,
      spec: specOf(spec),
      handle: this.lastHandle,
      message: ++this.#messages,
    });
  }

  /** The same, and the lock must be granted at once. */
  hold(session: string, options: Partial<LockSpec> & { request?: string } = {}): Grant {
    const answer = this.lock(session, options);
    if (answer.kind !== "locked") throw new Error(`${session} was not granted: ${JSON.stringify(answer)}`);
    return answer.grant;
  }

  /** The same, and the request must wait; returns its handle. */
  wait(session: string, options: Partial<LockSpec> & { request?: string } = {}): string {
    const answer = this.lock(session, options);
    if (answer.kind !== "waiting") throw new Error(`${session} does not wait: ${JSON.stringify(answer)}`);
    return this.lastHandle;
  }

  unlock(handle: string, by?: string): LockAnswer {
    return this.step({ kind: "unlock", handle, ...(by === undefined ? {} : { by }) });
  }

  cancel(session: string, request = session): LockAnswer {
    return this.step({ kind: "cancel", session, request, message: ++this.#messages });
  }

  renew(session: string, seen: number, held: HeldClaim): LockAnswer {
    return this.step({ kind: "renew", session, seen, held, message: ++this.#messages });
  }

  /** A keep-alive that claims exactly these grants, by digest. */
  keepAlive(session: string, grants: readonly Grant[]): LockAnswer {
    const seen = Math.max(0, ...grants.map((grant) => grant.grantNumber));
    const digest = tokenDigest(grants.map((grant) => grant.token));
    return this.renew(session, seen, { count: grants.length, digest });
  }

  get messages(): number {
    return this.#messages;
  }

  tickets(prefix = ""): TicketView[] {
    return this.table.list({ prefix, after: null, limit: 100_000 }).tickets;
  }

  /** Names of the sessions at an object by state, in ticket order. */
  sessionsIn(state: TicketView["state"], object = "x"): string[] {
    return this.tickets(object)
      .filter((ticket) => ticket.object === object && ticket.state === state)
      .map((ticket) => ticket.session);
  }

  holders(object = "x"): string[] {
    return this.sessionsIn("locked", object);
  }

  waiters(object = "x"): string[] {
    return this.sessionsIn("waiting", object);
  }

  /** Sessions that the last step granted something to, in order. */
  granted(): string[] {
    return this.effects.flatMap((effect) => (effect.kind === "locked" ? [effect.grant.session] : []));
  }

  eventsOf(session: string): string[] {
    return this.events.filter((event) => event.session === session).map((event) => event.event);
  }
}

/** The refusal in an answer; throws when it is none. */
export function refusal(answer: LockAnswer): Extract<LockAnswer, { kind: "refused" }> {
  if (answer.kind !== "refused") throw new Error(`expected a refusal, got ${JSON.stringify(answer)}`);
  return answer;
}

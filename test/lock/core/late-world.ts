/**
 * The lock table and real client sessions with a wire between them that holds frames back, swallows them
 * or breaks, and processes that stand still. Each holder is the worst that is allowed: it works until
 * its own deadline, or the moment it hears of the loss, and then for its whole unlock duration.
 */
import { Session } from "../../../src/client/session.ts";
import type { Ticket } from "../../../src/client/ticket.ts";
import { LockdError } from "../../../src/errors.ts";
import type { Body, Frame } from "../../../src/wire/types.ts";
import type { LockAnswer, LockCommand, LockEffect } from "../../../plugins/lock/core/types.ts";
import { lockedBody, sessionTicket } from "../../../plugins/lock/server/bodies.ts";
import { parseLock, parseRenew, parseSession, parseUnlock } from "../../../plugins/lock/server/requests.ts";
import { LIMITS, World, holderOf } from "./kit.ts";

/** flowing: at once. held back: until it flows again. swallowed: lost, and nobody is told. */
export type Wire = "flowing" | "held back" | "swallowed";

export const DURATIONS_MS = [500, 2_000, 8_000] as const;
export const UNLOCK_DURATIONS_MS = [500, 1_500] as const;
const HELD_MS_MAX = Math.max(...DURATIONS_MS) + Math.max(...UNLOCK_DURATIONS_MS);

/** One command under a lock, from its grant to the last moment at which it may do anything. */
class Section {
  readonly object: string;
  lostMs = Number.POSITIVE_INFINITY;
  releasedMs = Number.POSITIVE_INFINITY;

  constructor(
    readonly ticket: Ticket,
    readonly token: number,
    readonly unlockMs: number,
    public deadlineMs: number,
  ) {
    this.object = ticket.body.objects[0] ?? "";
  }

  worksAt(nowMs: number): boolean {
    return nowMs < Math.min(this.releasedMs, Math.min(this.lostMs, this.deadlineMs) + this.unlockMs);
  }
}

export class LateClient {
  readonly session: Session;
  wire: Wire = "flowing";
  stopped = false;
  connected = false;
  /** the session that the server knows on this connection */
  bound = "";
  readonly toServer: Frame[] = [];
  readonly toClient: Frame[] = [];
  /** frame ids of LOCKs that were not answered, by request */
  readonly pending = new Map<string, number>();
  #frameId = 0;
  #identities = 0;

  constructor(readonly name: string) {
    this.session = new Session(
      {
        nextFrameId: () => ++this.#frameId,
        send: (type, id, body) => void this.#put(this.toServer, { type, id, body: structuredClone(body) }),
        reconnect: () => {
          this.broken = true;
        },
        newIdentity: () => ({ session: `${name}${++this.#identities}`.padEnd(22, "_"), secret: new Uint8Array(16) }),
        random: () => 0.5,
        unreachable: () => null,
        idle: () => undefined,
      },
      { graceMs: 3_000 },
    );
  }

  /** the session wants another connection */
  broken = false;

  push(type: string, id: number, body: Body): void {
    this.#put(this.toClient, { type, id, body });
  }

  #put(queue: Frame[], frame: Frame): void {
    if (this.wire !== "swallowed") queue.push(frame);
  }
}

export class LateWorld {
  readonly world = new World(LIMITS);
  readonly clients = ["a", "b", "c"].map((name) => new LateClient(name));
  readonly sections: Section[] = [];
  /** what went on, for whoever reads a failure; and how often the rare things happened */
  readonly log: string[] = [];
  readonly seen = new Map<string, number>();
  /** tokens whose holders were stated to be dead, and that was believed: no promise is made about them */
  readonly #dead = new Set<number>();
  #handles = 0;

  constructor() {
    for (const client of this.clients) this.connect(client);
  }

  note(what: string): void {
    this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
  }

  // What happens to clients and wires.

  connect(client: LateClient): void {
    if (client.connected || client.stopped) return;
    client.connected = true;
    client.broken = false;
    client.session.connected(this.world.nowMs);
    this.pump();
  }

  /** The connection ends on both sides; what was on its way is lost. */
  break(client: LateClient): void {
    if (!client.connected || client.stopped) return;
    client.connected = false;
    this.#unbind(client);
    client.session.disconnected();
  }

  lock(client: LateClient, object: string, duration: number, unlockDuration: number): void {
    if (client.stopped) return;
    const none = {
      mode: undefined, permits: undefined, count: undefined, lockDelay: undefined, value: undefined, detached: undefined,
      detectDeadlock: undefined, queue: undefined, parents: undefined, commandLine: undefined,
    };
    client.session.lock(
      { ...none, objects: [object], duration, unlockDuration },
      null,
      { granted: (ticket) => this.#granted(ticket), failed: () => undefined, queued: () => undefined },
      this.world.nowMs,
    );
    this.pump();
  }

  release(client: LateClient): void {
    const section = this.sections.findLast((one) => client.session === this.#ownerOf(one) && one.ticket.phase === "held");
    if (client.stopped || section === undefined) return;
    section.releasedMs = this.world.nowMs;
    client.session.release(section.ticket, this.world.nowMs);
    this.pump();
  }

  // What an administrator does.

  force(pick: number, options: { kick: boolean; dead: boolean }): void {
    const held = this.world.tickets().filter((ticket) => ticket.state !== "waiting");
    const { object, token = 0, session } = held[pick % Math.max(1, held.length)] ?? { object: "", session: "" };
    if (object === "") return;
    const { kick, dead } = options;
    for (const one of held) if (dead && (kick ? one.session === session : one.token === token)) this.#dead.add(one.token ?? 0);
    const target = this.sections.find((one) => one.token === token);
    if (!dead && target?.worksAt(this.world.nowMs) === true) this.note(this.#isDeaf(target) ? "a deaf holder is forced" : "a holder that hears is forced");
    const command = { reason: "", by: "admin", dead };
    this.#command(kick ? { kind: "kick", session, ...command } : { kind: "release", object, token, ...command });
    this.pump();
  }

  /** The server is killed and starts again from its records. */
  restart(): void {
    this.world.recover();
    for (const client of this.clients) {
      this.#unbind(client, false);
      if (client.connected && !client.stopped) {
        client.connected = false;
        client.session.disconnected();
      } else client.broken = client.connected;
    }
    this.#command({ kind: "restart", rebooted: false });
  }

  advance(ms: number): void {
    for (let left = ms; left > 0; left -= 100) {
      this.#effects(this.world.advance(Math.min(100, left)));
      this.pump();
    }
  }

  /** Delivers what flows, and lets clients act, until all is quiet. */
  pump(): void {
    for (let busy = true; busy; ) {
      busy = false;
      for (const client of this.clients) {
        if (client.broken && !client.stopped) this.break(client);
        if (!client.connected) {
          if (!client.stopped && client.wire === "flowing") this.connect(client);
          continue;
        }
        if (!client.stopped && client.session.dueMs <= this.world.nowMs) {
          client.session.tick(this.world.nowMs);
          busy = true;
        }
        if (client.wire !== "flowing") continue;
        const asked = client.toServer.shift();
        if (asked !== undefined) this.#serve(client, asked);
        const told = client.stopped ? undefined : client.toClient.shift();
        if (told !== undefined) client.session.frame(told, this.world.nowMs);
        busy ||= asked !== undefined || told !== undefined;
      }
    }
    this.#check();
  }

  // The judge.

  #granted(ticket: Ticket): void {
    const { grant } = ticket;
    if (grant === null) throw new Error("granted without a grant");
    const section = new Section(ticket, grant.token, grant.unlockDuration, ticket.deadlineMs);
    this.sections.push(section);
    ticket.holder = {
      lost: () => {
        section.lostMs = this.world.nowMs;
      },
      renewed: (deadlineMs) => {
        section.deadlineMs = deadlineMs;
      },
      released: () => undefined,
    };
    this.#check();
  }

  #check(): void {
    const working = this.sections.filter((section) => !this.#dead.has(section.token) && section.worksAt(this.world.nowMs));
    for (const section of working) {
      const other = working.find((one) => one !== section && one.object === section.object);
      if (other !== undefined) throw new Error(`tokens ${other.token} and ${section.token} work on ${section.object} at ${this.world.nowMs}`);
    }
    for (const ticket of this.world.tickets()) {
      if (ticket.state === "waiting") continue;
      // and a vanished client keeps nobody out for longer than its duration and its unlock duration
      const freeInMs = (ticket.freeAtMs ?? 0) - this.world.nowMs;
      if (freeInMs > HELD_MS_MAX) throw new Error(`${ticket.object} is kept for ${freeInMs} ms more`);
      const other = working.find((one) => one.object === ticket.object && one.token !== ticket.token);
      if (other !== undefined) throw new Error(`${ticket.object} has token ${ticket.token} while ${other.token} works at ${this.world.nowMs}`);
    }
  }

  #ownerOf(section: Section): Session | undefined {
    return this.clients.find((client) => client.session.id === this.#sessionOf(section.token))?.session;
  }

  #sessionOf(token: number): string | undefined {
    return this.world.tickets().find((ticket) => ticket.token === token)?.session;
  }

  #isDeaf(section: Section): boolean {
    const owner = this.clients.find((client) => client.session === this.#ownerOf(section));
    return owner === undefined || owner.stopped || owner.wire !== "flowing" || !owner.connected;
  }

  // The server's side of the wire.

  #unbind(client: LateClient, told = true): void {
    const session = client.bound;
    client.bound = "";
    client.toServer.length = client.toClient.length = 0;
    client.pending.clear();
    const generation = this.world.table.sessions({ after: null, limit: 100 }).sessions.find((one) => one.session === session)?.generation;
    if (told && generation !== undefined) this.#command({ kind: "disconnect", session, generation });
  }

  #command(command: LockCommand): LockAnswer {
    const answer = this.world.step(command);
    if (this.log.length < 2_000) this.log.push(`${this.world.nowMs} ${JSON.stringify(command)}`);
    this.#effects(this.world.effects);
    return answer;
  }

  #serve(client: LateClient, { type, id, body }: Frame): void {
    const session = client.bound;
    const unlock = type === "UNLOCK" ? parseUnlock(body) : null;
    if (type === "SESSION") {
      const asked = parseSession(body);
      const { generation, graceMs } = asked;
      const answer = this.#command({ kind: "open", session: asked.session, secretHash: "", generation, graceMs, holder: holderOf(client.name) });
      if (answer.kind !== "opened") return this.#refuse(client, id, answer);
      client.bound = asked.session;
      client.push("SESSION", id, { session: asked.session, generation, grace: graceMs, resumed: answer.resumed, tickets: answer.tickets.map(sessionTicket) });
    } else if (session === "") client.push("ERROR", id, { code: "invalid", message: "no session", retryable: false });
    else if (type === "LOCK") {
      const { request, spec } = parseLock(body);
      client.pending.set(request, id);
      const answer = this.#command({ kind: "lock", session, request, spec, handle: `h${++this.#handles}`, message: id });
      if (answer.kind === "waiting") return;
      client.pending.delete(request);
      if (answer.kind === "locked") client.push("LOCKED", id, lockedBody(answer.grant));
      else if (answer.kind === "refused") client.push("LOCKFAILED", id, { request, code: answer.code, message: answer.message });
    } else if (type === "RENEW") {
      const renew = parseRenew(body);
      if (renew.kind !== "session") throw new Error("the client library renews by session");
      const answer = this.#command({ kind: "renew", session, seen: renew.seen, held: renew.held, message: id });
      if (answer.kind !== "renewed") return this.#refuse(client, id, answer);
      client.push("RENEWED", id, { processed: answer.message, lost: answer.lost, mismatch: answer.mismatch });
    } else if (unlock !== null) {
      const answer = this.#command(
        unlock.kind === "handle" ? { kind: "unlock", handle: unlock.handle, by: session } : { kind: "cancel", session, request: unlock.request, message: id },
      );
      if (answer.kind !== "unlocked") return this.#refuse(client, id, answer);
      client.push("UNLOCKED", id, { token: answer.token, held: answer.held });
    } else throw new LockdError("protocol", `${type} is not served here`);
  }

  #refuse(client: LateClient, id: number, answer: LockAnswer): void {
    if (answer.kind !== "refused") throw new Error(`answered ${answer.kind}`);
    client.push("ERROR", id, { code: answer.code, message: answer.message, retryable: false });
  }

  #effects(effects: readonly LockEffect[]): void {
    for (const effect of effects) {
      const session = effect.kind === "locked" ? effect.grant.session : effect.session;
      const request = effect.kind === "locked" ? effect.grant.request : effect.request;
      const client = this.clients.find((one) => one.bound === session);
      if (client === undefined) continue;
      const id = client.pending.get(request) ?? 0;
      if (effect.kind === "locked") client.push("LOCKED", id, lockedBody(effect.grant));
      else if (effect.kind === "lockfailed") client.push("LOCKFAILED", id, { request, code: effect.code, message: effect.message });
      else if (effect.kind === "unlocking") client.push("UNLOCKING", 0, { request, token: effect.token, left: effect.leftMs, reason: effect.reason });
      else if (effect.kind === "unlocked") client.push("UNLOCKED", 0, { request, token: effect.token, reason: effect.reason });
      if (effect.kind === "locked" || effect.kind === "lockfailed") client.pending.delete(request);
    }
    this.#check();
  }
}

/**
 * The whole state of the table: indexes, timers, the journal, what is scheduled, and the output of
 * the current step. Owns how these are kept consistent with each other for sessions and objects as
 * such; the rules of locking are in the modules around it.
 */
import { assert } from "../../../src/errors.ts";
import {
  Agent,
  type Entity,
  LockObject,
  Meta,
  type Session,
  type Ticket,
  type Timer,
  ticketText,
} from "./entities.ts";
import { Fifo } from "./fifo.ts";
import { Journal } from "./journal.ts";
import { LostMemory } from "./lost-memory.ts";
import { OrderedTree } from "./ordered-tree.ts";
import { TimerHeap } from "./timer-heap.ts";
import type { LockEffect, LockEvent, LockEventKind, LockLimits, LockSpec } from "./types.ts";

export class TableState {
  nowMs = Number.NEGATIVE_INFINITY;
  wallMs = 0;

  readonly objects = new Map<string, LockObject>();
  readonly objectNames = new OrderedTree<string, LockObject>();
  readonly sessions = new Map<string, Session>();
  readonly sessionIds = new OrderedTree<string, Session>();
  readonly handles = new Map<string, Ticket>();
  /** tickets that are held, up to the end of the grace */
  readonly tokens = new Map<number, Ticket>();
  readonly agents = new Map<string, Agent>();

  readonly timers = new TimerHeap<Timer>();
  readonly journal = new Journal<Entity>();
  readonly meta = new Meta();
  readonly lost: LostMemory;

  /** sessions whose tickets must be brought in line with their state */
  readonly sweeps = new Fifo<Session>();
  /** objects whose queue may have become grantable; the urgent ones by the current command */
  readonly walks = new Fifo<LockObject>();
  readonly urgentWalks = new Fifo<LockObject>();
  /** objects whose waiters may have changed their position */
  readonly reports = new Fifo<LockObject>();
  /** a command is being applied: what it frees is handed on before older work */
  applying = false;

  effects: LockEffect[] = [];
  events: LockEvent[] = [];

  constructor(readonly limits: LockLimits) {
    this.lost = new LostMemory(limits.lostMax, this.journal);
  }

  /** Work that is due regardless of time. */
  get hasScheduled(): boolean {
    return this.sweeps.size + this.urgentWalks.size + this.walks.size + this.reports.size > 0;
  }

  addObject(name: string): LockObject {
    const object = new LockObject(name);
    this.objects.set(name, object);
    this.objectNames.insert(object.nameNode);
    return object;
  }

  /** Forgets an object that nothing refers to any more. */
  releaseObject(object: LockObject): void {
    if (object.tickets.size > 0 || object.delay !== null || this.objects.get(object.name) !== object) return;
    this.objects.delete(object.name);
    this.objectNames.remove(object.nameNode);
  }

  addSession(session: Session): void {
    assert(!this.sessions.has(session.id), "session ids are distinct");
    this.sessions.set(session.id, session);
    this.sessionIds.insert(session.idNode);
  }

  forgetSession(session: Session): void {
    assert(session.requests.size === 0, "a session outlives its tickets");
    if (session.gone) return;
    this.sessions.delete(session.id);
    this.sessionIds.remove(session.idNode);
    this.timers.remove(session);
    for (const failed of session.failed?.values() ?? []) this.journal.drop(failed);
    this.journal.drop(session);
  }

  agent(id: string): Agent {
    let agent = this.agents.get(id);
    if (agent === undefined) {
      agent = new Agent(id);
      this.agents.set(id, agent);
    }
    return agent;
  }

  /** Drops an agent that no ticket acts for. */
  releaseAgent(agent: Agent): void {
    if (agent.tickets === 0) this.agents.delete(agent.id);
  }

  scheduleWalk(object: LockObject): void {
    if (this.applying) {
      this.urgentWalks.push(object);
    } else if (!object.walkScheduled) {
      object.walkScheduled = true;
      this.walks.push(object);
    }
  }

  scheduleSweep(session: Session): void {
    session.sweepRound = null;
    if (session.sweepScheduled) return;
    session.sweepScheduled = true;
    this.sweeps.push(session);
  }

  scheduleReport(object: LockObject): void {
    if (object.reporters === 0) return;
    if (object.reportScheduled) {
      object.reportAgain = true;
      return;
    }
    object.reportScheduled = true;
    object.reportRank = 0;
    this.reports.push(object);
  }

  /** The session was heard of just now. */
  hear(session: Session, message: number): void {
    session.heardMs = this.nowMs;
    if (message > session.message) session.message = message;
    this.journal.touch(session);
  }

  /** Makes sure that the end of the session's grace is noticed, if it means anything. */
  watch(session: Session): void {
    const matters = session.waiting.size > 0 || (!session.connected && session.requests.size === 0);
    if (matters && session.timerIndex < 0) this.timers.set(session, session.silentAtMs);
  }

  /** Records one event for each object of a ticket. */
  record(event: LockEventKind, ticket: Ticket, extra: { waitedMs?: number; heldMs?: number; reason?: string; value?: string }): void {
    this.recordFor(event, ticket.number, ticket.session, ticket.spec, {
      ...(ticket.token === 0 ? {} : { token: ticket.token }),
      ...extra,
    });
  }

  /** The same for a request that never became a ticket. */
  recordFor(
    event: LockEventKind,
    number: number,
    session: Session,
    spec: LockSpec,
    extra: { token?: number; waitedMs?: number; heldMs?: number; reason?: string; value?: string },
  ): void {
    const line = spec.commandLine;
    const holder = line === undefined ? session.holder : { ...session.holder, commandLine: line };
    const ticket = ticketText(number, session.id);
    this.journal.touch(this.meta);
    for (const object of spec.objects) {
      this.events.push({
        id: ++this.meta.lastEventId,
        wallMs: this.wallMs,
        event,
        object,
        ticket,
        mode: spec.mode,
        session: session.id,
        holder,
        ...extra,
      });
    }
  }
}

/** A session without a network: the test is the server, the clock and the program. */
import type { LockLostError } from "../../src/client/errors.ts";
import type { LockedBody } from "../../src/client/protocol.ts";
import { Session } from "../../src/client/session.ts";
import type { LockBody, Ticket } from "../../src/client/ticket.ts";
import { LockdError } from "../../src/errors.ts";
import type { Body, Frame } from "../../src/wire/types.ts";

export type Told =
  | { kind: "granted"; deadlineMs: number }
  | { kind: "failed"; error: LockdError }
  | { kind: "queued"; position: number }
  | { kind: "lost"; error: LockLostError }
  | { kind: "renewed"; deadlineMs: number }
  | { kind: "released"; error: LockdError | null };

export interface Asked {
  ticket: Ticket;
  told: Told[];
}

export class SessionBench {
  nowMs = 1_000_000;
  /** all frames sent, oldest first */
  readonly sent: Frame[] = [];
  readonly reconnects: LockdError[] = [];
  readonly session: Session;
  connectedNow = false;
  unreachable: LockdError | null = null;
  idleCount = 0;
  #frameId = 0;
  #identity = 0;
  #token = 100;
  #grant = 0;

  constructor(graceMs = 6000) {
    this.session = new Session(
      {
        nextFrameId: () => (this.#frameId += 1),
        send: (type, id, body) => {
          if (!this.connectedNow) throw new Error(`${type} was sent without a connection`);
          this.sent.push({ type, id, body: structuredClone(body) });
        },
        reconnect: (reason) => {
          this.reconnects.push(reason);
          this.disconnect();
        },
        newIdentity: () => ({ session: `session-${(this.#identity += 1)}`, secret: new Uint8Array(16) }),
        random: () => 0.5,
        unreachable: () => this.unreachable,
        idle: () => {
          this.idleCount += 1;
        },
      },
      { graceMs },
    );
  }

  connect(): this {
    this.connectedNow = true;
    this.session.connected(this.nowMs);
    return this;
  }

  disconnect(): void {
    if (!this.connectedNow) return;
    this.connectedNow = false;
    this.session.disconnected();
  }

  /** Lets time pass in steps in which everything that is due happens, as the real timer does. */
  advance(ms: number): void {
    const endMs = this.nowMs + ms;
    while (this.session.dueMs <= endMs) {
      this.nowMs = Math.max(this.nowMs, this.session.dueMs);
      this.session.tick(this.nowMs);
    }
    this.nowMs = endMs;
  }

  /** The process stands still, then the clock is looked at. */
  pause(ms: number): void {
    this.nowMs += ms;
    this.session.tick(this.nowMs);
  }

  /** A request of the program. */
  lock(waitMs: number | null = null, spec: Partial<LockBody> = {}): Asked {
    const told: Told[] = [];
    const ticket = this.session.lock(
      {
        objects: ["x"], mode: undefined, permits: undefined, count: undefined, duration: undefined, unlockDuration: undefined,
        lockDelay: undefined, value: undefined, detached: undefined, detectDeadlock: undefined, queue: undefined,
        parents: undefined, commandLine: undefined, ...spec,
      },
      waitMs,
      {
        granted: (granted) => {
          told.push({ kind: "granted", deadlineMs: granted.deadlineMs });
          granted.holder = {
            lost: (error) => void told.push({ kind: "lost", error }),
            renewed: (deadlineMs) => void told.push({ kind: "renewed", deadlineMs }),
            released: (error) => void told.push({ kind: "released", error }),
          };
        },
        failed: (error) => void told.push({ kind: "failed", error }),
        queued: (position) => void told.push({ kind: "queued", position }),
      },
      this.nowMs,
    );
    return { ticket, told };
  }

  /** A request that was granted at once; needs an open session. */
  held(duration = 10_000, spec: Partial<LockBody> = {}): Asked & { grant: LockedBody } {
    const asked = this.lock(null, { duration, ...spec });
    if (this.session.dueMs === Number.POSITIVE_INFINITY) throw new Error("nothing is due: not connected?");
    this.answerSession();
    const grant = this.grant(asked, { duration, left: duration });
    this.receive("LOCKED", asked.ticket.lockId, { ...grant });
    return { ...asked, grant };
  }

  /** The body of a LOCKED for a request, with the next token and grant number. */
  grant(asked: Asked, changes: Partial<LockedBody> = {}): LockedBody {
    this.#token += 1;
    this.#grant += 1;
    return {
      request: asked.ticket.body.request,
      objects: asked.ticket.body.objects,
      handle: `handle-${this.#token}`,
      token: this.#token,
      left: 10_000,
      duration: 10_000,
      unlockDuration: 5_000,
      processed: this.#frameId,
      grant: this.#grant,
      ...changes,
    };
  }

  receive(type: string, id: number, body: Body): void {
    // what a chunk from the network does first
    if (this.session.dueMs <= this.nowMs) this.session.tick(this.nowMs);
    this.session.frame({ type, id, body }, this.nowMs);
  }

  /** Answers the last SESSION if it was not answered yet. */
  answerSession(tickets: readonly Body[] = [], resumed = tickets.length > 0): void {
    const open = this.of("SESSION").at(-1);
    if (open === undefined || this.#answered.has(open.id)) return;
    this.#answered.add(open.id);
    const { session, generation, grace } = open.body;
    this.receive("SESSION", open.id, { session, generation, grace, resumed, tickets });
  }
  readonly #answered = new Set<number>();

  /** Answers the last RENEW as sent: nothing lost. */
  answerRenew(changes: Body = {}): void {
    const renew = this.last("RENEW");
    this.receive("RENEWED", renew.id, { processed: renew.id, lost: [], mismatch: false, ...changes });
  }

  of(type: string): Frame[] {
    return this.sent.filter((frame) => frame.type === type);
  }

  last(type: string): Frame {
    const frame = this.of(type).at(-1);
    if (frame === undefined) throw new Error(`no ${type} was sent`);
    return frame;
  }

  /** Types of the frames sent since the last call. */
  news(): string[] {
    const types = this.sent.slice(this.#read).map((frame) => frame.type);
    this.#read = this.sent.length;
    return types;
  }
  #read = 0;
}

export const kinds = (asked: Asked): string[] => asked.told.map((told) => told.kind);

/** The last thing that was told, if it is of this kind. */
export function lastTold<K extends Told["kind"]>(asked: Asked, kind: K): Extract<Told, { kind: K }> {
  const told = asked.told.at(-1);
  if (told?.kind !== kind) throw new Error(`told ${kinds(asked).join(", ") || "nothing"}, not ${kind} last`);
  return told as Extract<Told, { kind: K }>;
}

export const error = (code: string, changes: Body = {}): Body => ({ code, message: `it is ${code}`, retryable: false, ...changes });

export const lockdError = (message: string): LockdError => new LockdError("unavailable", message);

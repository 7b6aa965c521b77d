/**
 * The world of the tests of the lock server: a store whose commits a test lands or fails by hand,
 * connections that remember what they were sent, an engine on a clock that moves when told.
 */
import { LocalEngine } from "../../../plugins/lock/server/local-engine.ts";
import { LockMetrics } from "../../../plugins/lock/server/lock-metrics.ts";
import type { AnswerListener, EngineListener } from "../../../plugins/lock/engine.ts";
import type { LockAnswer, LockCommand, LockEffect, LockEvent, LockLimits, LockSpec } from "../../../plugins/lock/core/types.ts";
import { FakeClock } from "../../../src/clock/fake.ts";
import { type ErrorCode, LockdError } from "../../../src/errors.ts";
import { MetricsRegistry } from "../../../src/observe/metrics.ts";
import type { Namespace, StoreBatch, StreamAppend } from "../../../src/store/types.ts";
import type { Body, Connection, Frame, PeerIdentity } from "../../../src/wire/types.ts";
import { memoryLogger } from "../../net/kit.ts";
import { holderOf, LIMITS, specOf } from "../core/kit.ts";

/** The turn of the event loop in which batches are closed, and all that follows from it at once. */
export async function turn(): Promise<void> {
  for (let turns = 0; turns < 3; turns++) await new Promise<void>((resolve) => void setImmediate(resolve));
}

interface Commit {
  batch: StoreBatch;
  land(): Promise<void>;
  fail(code: ErrorCode): Promise<void>;
}

/** A store in memory. What is committed is durable when the test says so, or at once with `immediate`. */
export class FakeNamespace implements Namespace {
  immediate = false;
  readonly stored = new Map<string, Uint8Array>();
  chunks: StreamAppend[] = [];
  /** every batch that was handed over */
  readonly batches: StoreBatch[] = [];
  /** those that are under way */
  readonly underWay: Commit[] = [];

  constructor(options: { immediate?: boolean } = {}) {
    this.immediate = options.immediate ?? false;
  }

  /** What a process finds that starts on this store after a crash. */
  copy(): FakeNamespace {
    const copy = new FakeNamespace({ immediate: this.immediate });
    for (const [key, value] of this.stored) copy.stored.set(key, value.slice());
    copy.chunks = [...this.chunks];
    return copy;
  }

  records(): Iterable<[string, Uint8Array]> {
    return [...this.stored];
  }

  stream(_name: string, fromId = 0): Iterable<StreamAppend> {
    return this.chunks.filter((chunk) => chunk.lastId >= fromId);
  }

  commit(batch: StoreBatch): Promise<void> {
    this.batches.push(batch);
    if (this.immediate) {
      this.#apply(batch);
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const done = (): void => void this.underWay.splice(this.underWay.indexOf(commit), 1);
      const commit: Commit = {
        batch,
        land: () => {
          done();
          this.#apply(batch);
          resolve();
          return turn();
        },
        fail: (code) => {
          done();
          reject(new LockdError(code, `write to store: ${code}`));
          return turn();
        },
      };
      this.underWay.push(commit);
    });
  }

  /** The only commit that is under way. */
  get one(): Commit {
    const [commit, ...others] = this.underWay;
    if (commit === undefined || others.length > 0) throw new Error(`${this.underWay.length} commits are under way, not one`);
    return commit;
  }

  /** Lands commits until none is under way. */
  async landAll(): Promise<void> {
    for (let rounds = 0; this.underWay.length > 0; rounds++) {
      if (rounds > 1000) throw new Error("commits without end");
      await this.one.land();
    }
  }

  #apply({ changes, appends = [], trims = [] }: StoreBatch): void {
    for (const { key, value } of changes) {
      if (value === null) this.stored.delete(key);
      else this.stored.set(key, value.slice());
    }
    for (const append of appends) {
      const last = this.chunks.at(-1);
      if (last !== undefined && append.firstId !== last.lastId + 1) throw new Error(`the stream goes from ${last.lastId} to ${append.firstId}`);
      this.chunks.push(append);
    }
    for (const { throughId } of trims) this.chunks = this.chunks.filter((chunk) => chunk.lastId > throughId);
  }
}

/** What the engine told, in order, as short texts; whole values beside it. */
export class Listener implements EngineListener {
  readonly told: string[] = [];
  readonly effects: LockEffect[] = [];
  readonly heard: LockEvent[] = [];
  throwAt: string | null = null;

  effect(effect: LockEffect): void {
    this.effects.push(effect);
    this.tell(`${effect.kind} ${effect.kind === "locked" ? effect.grant.request : effect.request}`);
  }

  events(events: readonly LockEvent[]): void {
    this.heard.push(...events);
    this.tell(`events ${events.map((event) => event.event).join(" ")}`);
  }

  reset(reason: string): void {
    this.tell(`reset: ${reason}`);
  }

  tell(text: string): void {
    this.told.push(text);
    if (text === this.throwAt) throw new Error("a listener that fails");
  }

  /** What was told since the last call. */
  take(): string[] {
    return this.told.splice(0);
  }
}

export interface EngineWorld {
  engine: LocalEngine;
  clock: FakeClock;
  namespace: FakeNamespace;
  listener: Listener;
  logger: ReturnType<typeof memoryLogger>;
  failures: Error[];
  /** submits, and notes `NAME: KIND` when it is answered and `NAME applied` when it was applied */
  submit(name: string, command: LockCommand, deadlineMs?: number | null): Asked;
  lock(session: string, spec?: Partial<LockSpec>, deadlineMs?: number | null): Asked;
  open(session: string, generation?: number): Asked;
}

export interface Asked {
  answer: LockAnswer | null;
  applied: LockAnswer | null;
}

export interface EngineOptions {
  namespace?: FakeNamespace;
  clock?: FakeClock;
  bootId?: string;
  historyMax?: number;
  limits?: Partial<LockLimits>;
}

/** An engine that is not started; its store is empty unless given. */
export function engineWorld(options: EngineOptions = {}): EngineWorld {
  const clock = options.clock ?? new FakeClock();
  const namespace = options.namespace ?? new FakeNamespace();
  const logger = memoryLogger();
  const failures: Error[] = [];
  const listener = new Listener();
  const engine = new LocalEngine({
    namespace,
    clock,
    timers: clock,
    logger,
    limits: { ...LIMITS, ...options.limits },
    bootId: options.bootId ?? "boot 1",
    historyMax: options.historyMax ?? 1000,
    fail: (error) => void failures.push(error),
  });
  let handles = 0;
  const submit = (name: string, command: LockCommand, deadlineMs: number | null = null): Asked => {
    const asked: Asked = { answer: null, applied: null };
    const done: AnswerListener = (answer) => {
      asked.answer = answer;
      listener.tell(`${name}: ${answer.kind}`);
    };
    engine.submit(command, deadlineMs, done, (answer) => {
      asked.applied = answer;
    });
    return asked;
  };
  return {
    engine, clock, namespace, listener, logger, failures, submit,
    lock: (session, spec = {}, deadlineMs = null) =>
      submit(`lock ${session}`, {
        kind: "lock", session, request: session, spec: specOf(spec), handle: `handle ${++handles} of ${session}`, message: handles,
      }, deadlineMs),
    open: (session, generation = 1) =>
      submit(`open ${session}`, {
        kind: "open", session, secretHash: `secret of ${session}`, generation, graceMs: 60_000, holder: holderOf(session),
      }),
  };
}

/** The same, started, with these sessions open and nothing left to tell. */
export async function startedEngine(sessions: readonly string[] = [], options: EngineOptions = {}): Promise<EngineWorld> {
  const world = engineWorld(options);
  await world.engine.start(world.listener);
  for (const session of sessions) world.open(session);
  await turn();
  await world.namespace.landAll();
  world.listener.take();
  return world;
}

/** nobody asks who a client is */
const UNASKED = { principal: { name: "", by: "nothing" } } as const;

const IDENTITY: PeerIdentity = {
  ...UNASKED,
  role: "client", name: "ann", host: "desk", pid: 77, program: "job", software: "1", features: [], address: "192.0.2.7:1234",
};

/** A connection in memory. */
export class FakeConnection implements Connection {
  static #count = 0;
  readonly id = ++FakeConnection.#count;
  readonly identity: PeerIdentity;
  closed = false;
  readonly frames: Frame[] = [];
  /** listeners for the end that are waiting */
  readonly closeListeners: (() => void)[] = [];
  /** called before a frame is kept; may throw as a real connection does */
  onSend: (frame: Frame) => void = () => undefined;

  constructor(identity: Partial<PeerIdentity> = {}) {
    this.identity = { ...IDENTITY, ...identity };
  }

  send(type: string, id: number, body: Body): void {
    if (this.closed) return;
    this.onSend({ type, id, body });
    this.frames.push({ type, id, body });
  }

  closeWith(code: string, message: string): void {
    this.send("ERROR", 0, { code, message, retryable: false });
    this.closed = true;
  }

  onClose(listener: () => void): void {
    this.closeListeners.push(listener);
  }

  /** The client is gone. */
  async end(): Promise<void> {
    this.closed = true;
    await Promise.resolve();
    for (const listener of this.closeListeners.splice(0)) listener();
    await turn();
  }

  /** What was sent since the last call, as `TYPE id`. */
  take(): string[] {
    return this.frames.splice(0).map(({ type, id, body }) => `${type} ${id}${body["code"] === undefined ? "" : ` ${String(body["code"])}`}`);
  }

  /** The newest frame of a type. */
  last(type: string): Body {
    const frame = this.frames.findLast((one) => one.type === type);
    if (frame === undefined) throw new Error(`no ${type} was sent, but ${this.frames.map((one) => one.type).join(", ")}`);
    return frame.body;
  }
}

export const fakeMetrics = (): LockMetrics => new LockMetrics(new MetricsRegistry(), () => ({
  objects: 0, tickets: 0, held: 0, waiting: 0, sessions: 0, lastToken: 0, lastNumber: 0,
}));

/**
 * Elections: an exclusive lock whose holder, the leader, tells others a value, may change it while it
 * leads, and is watched. An election has the name of its object. Knows no socket: it asks through the
 * functions that it is given.
 */
import type { Timers } from "../clock/clock.ts";
import { LockdError } from "../errors.ts";
import type { Body, Frame } from "../wire/types.ts";
import { unlessAborted } from "./abort.ts";
import type { LockLostError } from "./errors.ts";
import type { Lock } from "./lock.ts";
import type { LockOptions } from "./lock-options.ts";
import type { HolderBody, WhyBody } from "./protocol.ts";
import { ConnectionBrokenError, type FrameSink } from "./requests.ts";

/** Between tries at a server that is there but not ready. */
const PAUSE_MS = 200;

/** As for a lock; `wait`: without end unless given. */
export type CampaignOptions = Pick<
  LockOptions,
  "wait" | "duration" | "unlockDuration" | "lockDelay" | "value" | "detectDeadlock" | "parents" | "commandLine" | "signal" | "onQueue"
>;

/** The leader of an election as everybody sees it. */
export interface Leader {
  /** what it proclaimed; null: nothing */
  value: string | null;
  holder: HolderBody;
  /** fencing token of its leadership, larger than that of every earlier one */
  token: number;
  /** how long it had led when the server answered, milliseconds */
  sinceAgo: number;
}

export interface Podium {
  /** sends the value; rejects as a renewal by handle does */
  show(value: string): Promise<unknown>;
  /** resolves when another try makes sense, or when the signal aborts */
  retry(signal: AbortSignal): Promise<void>;
}

/** An election that was won. Lasts until `resign`, or until `signal` aborts. */
export class Leadership implements AsyncDisposable {
  readonly name: string;
  /** what the leadership rests on: token, deadline, loss */
  readonly lock: Lock;
  readonly #podium: Podium;
  /** one at a time, so that what is repeated over another connection never comes after a newer one */
  #last: Promise<unknown> = Promise.resolve();

  constructor(name: string, lock: Lock, podium: Podium) {
    this.name = name;
    this.lock = lock;
    this.#podium = podium;
  }

  /** Fencing token: larger than that of every earlier leader of this election. */
  get token(): number {
    return this.lock.token;
  }

  /** Aborts when the leadership is lost, before anybody else can lead. Its reason is a LockLostError. */
  get signal(): AbortSignal {
    return this.lock.signal;
  }

  get lost(): LockLostError | null {
    return this.lock.lost;
  }

  /**
   * Changes the value that others see; resolves when the server has it on disk, and waits for a server as long
   * as this is the leader. Rejects with `lost` or `notheld` when it is not any more: the value of another
   * leader is never touched.
   */
  async proclaim(value: string): Promise<void> {
    const turn = this.#last.then(() => this.#show(value));
    this.#last = turn.catch(() => undefined);
    await turn;
  }

  async #show(value: string): Promise<void> {
    for (;;) {
      if (this.lock.lost !== null) throw this.lock.lost;
      try {
        await unlessAborted(this.#podium.show(value), this.lock.signal, "proclaim");
        return;
      } catch (error) {
        if (this.lock.lost !== null) throw this.lock.lost;
        if (!isNotReady(error)) throw error;
        await this.#podium.retry(this.lock.signal);
      }
    }
  }

  /** Lets the next candidate lead. As `release` of a lock. */
  resign(): Promise<void> {
    return this.lock.release();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.resign();
  }
}

/** Who leads, by an answer to WHY: whoever is told to leave does not lead any more. */
export function leaderOf({ holders }: WhyBody): Leader | null {
  const leader = holders.find(({ mode, state }) => mode === "exclusive" && state === "locked");
  if (leader?.token === undefined) return null;
  const { value, holder, token, sinceAgo } = leader;
  return { value: value ?? null, holder, token, sinceAgo };
}

export interface LeaderSource {
  /** asks EVENTS; `sink` gets the EVENT frames that follow its answer */
  follow(body: Body, sink: FrameSink): Promise<unknown>;
  forget(sink: FrameSink): void;
  leader(): Promise<Leader | null>;
  /** resolves when another try makes sense; rejects when none does */
  retry(signal: AbortSignal | undefined): Promise<void>;
  timers: Pick<Timers, "after">;
}

/**
 * Yields the leader there is, null when there is none, and again after each change of leader or value,
 * over broken connections and restarts of the server. Of changes that come faster than they are read
 * the newest is told, never an older one after it. Ends quietly when the signal aborts.
 */
export async function* observeLeader(source: LeaderSource, name: string, signal: AbortSignal | undefined): AsyncGenerator<Leader | null, void, undefined> {
  let told: Leader | null | undefined;
  const aborted = (): boolean => signal?.aborted === true;
  while (!aborted()) {
    const bell = new Bell(name);
    try {
      // follow first and look then, so that nothing happens in between unheard
      await source.follow({ prefix: name, follow: true, limit: 1 }, bell);
      do {
        bell.silence();
        const leader = await source.leader();
        if (aborted()) return;
        if (told === undefined || leader?.token !== told?.token || leader?.value !== told?.value) {
          told = leader;
          yield leader;
        }
      } while (await bell.rings(signal));
    } catch (error) {
      if (!(error instanceof ConnectionBrokenError)) {
        if (!isNotReady(error)) throw error;
        await pause(source.timers, PAUSE_MS, signal);
      }
    } finally {
      source.forget(bell);
    }
    if (!aborted()) await source.retry(signal);
  }
}

/** Not done, or not known to be done: to ask again does no harm here. */
const isNotReady = (error: unknown): boolean =>
  error instanceof LockdError && (error.code === "unavailable" || error.code === "unknown");

/** Another try at a server, after the time for one that is there but not ready. What fails shows by that try. */
export async function retryLater(connect: () => Promise<void>, timers: Pick<Timers, "after">, signal: AbortSignal): Promise<void> {
  await connect().catch(() => undefined);
  await pause(timers, PAUSE_MS, signal);
}

/** Resolves after this time, or when the signal aborts. */
function pause(timers: LeaderSource["timers"], ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      timer.cancel();
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = timers.after(ms, finish);
    signal?.addEventListener("abort", finish);
    if (signal?.aborted === true) finish();
  });
}

/** Remembers that something happened to the election, not what: any number of events costs the same. */
class Bell implements FrameSink {
  readonly #name: string;
  #rang = false;
  #ended = false;
  #wake: (() => void) | null = null;

  constructor(name: string) {
    this.#name = name;
  }

  frame({ type, body }: Frame): void {
    if (type === "ERROR") this.#ended = true;
    else if (body["object"] === this.#name) this.#rang = true;
    else return;
    this.#wake?.();
  }

  closed(_reason: LockdError): void {
    this.#ended = true;
    this.#wake?.();
  }

  silence(): void {
    this.#rang = false;
  }

  /** True when something happened; false when nothing more is heard on this connection, or the signal aborted. */
  async rings(signal: AbortSignal | undefined): Promise<boolean> {
    for (;;) {
      if (signal?.aborted === true || this.#ended) return false;
      if (this.#rang) return true;
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#wake = null;
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        this.#wake = wake;
        signal?.addEventListener("abort", wake);
      });
    }
  }
}

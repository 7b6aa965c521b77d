/**
 * The history as an async iterator: pages first, then what happens, over broken connections without a
 * gap or a repetition. Knows no socket: it asks through the functions that it is given.
 */
import { LockdError } from "../errors.ts";
import type { Body, Frame } from "../wire/types.ts";
import { errorOf } from "./answers.ts";
import type { EventBody, EventsBody } from "./protocol.ts";
import { ConnectionBrokenError, type FrameSink } from "./requests.ts";
import { parseEvent, parseEvents } from "./schemas.ts";

const PAGE = 1000;
/** Events that wait for a slow reader; beyond that the stream is taken up again after the last one read. */
const QUEUE_MAX = 10_000;

export interface EventOptions {
  /** only objects whose name starts with it */
  prefix?: string | undefined;
  /** first id wanted, 0 or 1: all that are kept; without it a follower gets only new events, others all */
  from?: number | undefined;
  /** goes on with what happens, until the signal aborts or the loop is left */
  follow?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

export interface EventSource {
  /** asks EVENTS; `sink` gets the EVENT frames that follow its answer */
  ask(body: Body, sink: FrameSink | null): Promise<Body>;
  forget(sink: FrameSink): void;
  /** resolves when another try makes sense; rejects when none does */
  retry(signal: AbortSignal | undefined): Promise<void>;
}

/**
 * Yields events in order. Throws `notfound` when events that belong to the stream are not kept any
 * more, and what EventSource throws; ends quietly when the signal aborts.
 */
export async function* streamEvents(source: EventSource, options: EventOptions): AsyncGenerator<EventBody, void, undefined> {
  const { prefix, signal } = options;
  const follow = options.follow === true;
  let from = options.from;
  // a follower that wants the oldest kept must be told which that is: absent, `from` means new ones only
  if (follow && from !== undefined && from <= 1) from = (await askPage(source, { prefix, limit: 1 }, null, signal))?.oldest;
  while (signal?.aborted !== true) {
    const queue = follow ? new EventQueue() : null;
    try {
      const page = await askPage(source, { prefix, from, limit: PAGE, ...(follow ? { follow } : {}) }, queue, signal);
      if (page === null) return;
      for (const event of page.events) {
        yield event;
        from = event.id + 1;
      }
      // behind a full page there may be more, before anything that was pushed
      if (page.events.length >= PAGE) continue;
      if (queue === null) return;
      from = Math.max(from ?? 0, page.next);
      for (let event = await queue.next(signal); event !== null; event = await queue.next(signal)) {
        if (event.id < from) continue;
        yield event;
        from = event.id + 1;
      }
      if (queue.broken !== null) await source.retry(signal);
    } finally {
      if (queue !== null) source.forget(queue);
    }
  }
}

/** One page, whatever connections break meanwhile; null when the signal aborted. */
async function askPage(
  source: EventSource,
  body: { prefix: string | undefined; from?: number | undefined; limit: number; follow?: true },
  sink: EventQueue | null,
  signal: AbortSignal | undefined,
): Promise<EventsBody | null> {
  const { from } = body;
  while (signal?.aborted !== true) {
    try {
      const page = parseEvents(await source.ask(body, sink));
      if (from !== undefined && from > 1 && page.oldest > from) {
        throw new LockdError("notfound", `read events from ${from}: the oldest that is kept is ${page.oldest}`, {
          hint: `begin with ${page.oldest}, or leave the start away`,
        });
      }
      if (from !== undefined && from > page.next) {
        throw new LockdError("notfound", `read events from ${from}: the history of this server ends before ${page.next}`);
      }
      return page;
    } catch (error) {
      if (!(error instanceof ConnectionBrokenError)) throw error;
      await source.retry(signal);
    }
  }
  return null;
}

/** What was pushed and not read yet. */
class EventQueue implements FrameSink {
  #events: EventBody[] = [];
  #position = 0;
  #ended = false;
  #wake: (() => void) | null = null;
  /** the connection is gone; null while it is there, or when the reader was too slow */
  broken: LockdError | null = null;

  frame(frame: Frame): void {
    if (this.#ended) return;
    if (frame.type === "EVENT") {
      if (this.#events.length - this.#position < QUEUE_MAX) this.#events.push(parseEvent(frame.body));
      else this.#ended = true;
    } else if (frame.type === "ERROR") this.closed(errorOf(frame.body, "the server"));
    this.#wake?.();
  }

  closed(reason: LockdError): void {
    this.#ended = true;
    this.broken = reason;
    this.#wake?.();
  }

  /** The next event; null when no more come from this connection, or the signal aborted. */
  async next(signal: AbortSignal | undefined): Promise<EventBody | null> {
    for (;;) {
      if (signal?.aborted === true) return null;
      const event = this.#events[this.#position];
      if (event !== undefined) {
        this.#position += 1;
        if (this.#position * 2 > this.#events.length) {
          this.#events = this.#events.slice(this.#position);
          this.#position = 0;
        }
        return event;
      }
      if (this.#ended) return null;
      await this.#woken(signal);
    }
  }

  #woken(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#wake = null;
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      this.#wake = wake;
      signal?.addEventListener("abort", wake);
    });
  }
}

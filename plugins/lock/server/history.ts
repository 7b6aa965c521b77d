/**
 * The bounded history of lock events: the newest `eventsMax` in memory, in a ring, and their
 * encoding for the store's event stream. Knows no connection and no store.
 */
import { decode } from "cbor-x/decode";
import { Encoder } from "cbor-x/encode";
import { assert, LockdError } from "../../../src/errors.ts";
import type { Holder, LockEvent, LockEventKind, LockMode } from "../core/types.ts";

/** Name of the store's stream that keeps the history. */
export const EVENT_STREAM = "events";

const encoder = new Encoder({ useRecords: false, tagUint8Array: false });

const KINDS: readonly LockEventKind[] = [
  "waiting", "granted", "released", "expiring", "expired", "forced", "kicked", "failed", "cancelled", "lost",
  "value",
];
const MODES: readonly LockMode[] = ["exclusive", "shared", "semaphore"];

export class History {
  readonly #eventsMax: number;
  #events: LockEvent[] = [];
  /** index in #events of the oldest kept event; the array is cut when half of it is dead */
  #first = 0;
  #nextId = 1;

  constructor(eventsMax: number) {
    this.#eventsMax = eventsMax;
  }

  /** Id that the next event will have. */
  get nextId(): number {
    return this.#nextId;
  }

  /** Id of the oldest event kept; equal to nextId when there is none. */
  get oldestId(): number {
    return this.#events[this.#first]?.id ?? this.#nextId;
  }

  /** Ids go on from `nextId` even when the events before it are not kept. */
  startAt(nextId: number): void {
    assert(nextId >= this.#nextId, "event ids never go back");
    this.#nextId = nextId;
  }

  add(event: LockEvent): void {
    assert(event.id >= this.#nextId, "event ids rise");
    this.#nextId = event.id + 1;
    this.#events.push(event);
    if (this.#events.length - this.#first > this.#eventsMax) this.#first += 1;
    if (this.#first > this.#eventsMax) {
      this.#events = this.#events.slice(this.#first);
      this.#first = 0;
    }
  }

  /**
   * Up to `limit` events with ids from `fromId` on whose object starts with `prefix` and may be seen, and
   * where to go on.
   */
  page(fromId: number, prefix: string, limit: number, sees: (object: string) => boolean = () => true): { events: LockEvent[]; nextId: number } {
    const found: LockEvent[] = [];
    let index = this.#indexOf(fromId);
    for (; index < this.#events.length && found.length < limit; index += 1) {
      const event = this.#events[index];
      if (event !== undefined && event.object.startsWith(prefix) && sees(event.object)) found.push(event);
    }
    return { events: found, nextId: this.#events[index]?.id ?? this.#nextId };
  }

  /** The newest `limit` events of one object, oldest first. */
  ofObject(object: string, limit: number): LockEvent[] {
    const found: LockEvent[] = [];
    for (let index = this.#events.length - 1; index >= this.#first && found.length < limit; index -= 1) {
      const event = this.#events[index];
      if (event !== undefined && event.object === object) found.push(event);
    }
    return found.reverse();
  }

  /** Binary search: ids rise in the array, though not always by one after a restart. */
  #indexOf(fromId: number): number {
    let low = this.#first;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const event = this.#events[middle];
      if (event !== undefined && event.id < fromId) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Events as one CBOR array of arrays: a chunk of the store's stream. */
export function encodeEvents(events: readonly LockEvent[]): Uint8Array {
  return encoder.encode(
    events.map((event) => [
      event.id,
      event.wallMs,
      KINDS.indexOf(event.event),
      event.object,
      event.ticket,
      MODES.indexOf(event.mode),
      event.session,
      holderFields(event.holder),
      event.token ?? null,
      event.waitedMs ?? null,
      event.heldMs ?? null,
      event.reason ?? null,
      ...(event.value === undefined ? [] : [event.value]),
    ]),
  );
}

function holderFields(holder: Holder): readonly unknown[] {
  return [holder.name, holder.host, holder.pid, holder.program, holder.address, holder.commandLine ?? null];
}

/** The inverse of encodeEvents. Throws `corrupt` when the bytes are not such a chunk. */
export function decodeEvents(data: Uint8Array): LockEvent[] {
  let rows: unknown;
  try {
    rows = decode(data);
  } catch {
    throw corrupt();
  }
  if (!Array.isArray(rows)) throw corrupt();
  return rows.map(decodeEvent);
}

const corrupt = (): LockdError =>
  new LockdError("corrupt", "read lock history: a chunk of the event stream is malformed", {
    hint: "restore the data directory from a backup, or remove it to start anew",
  });

function decodeEvent(row: unknown): LockEvent {
  if (!Array.isArray(row) || row.length < 12) throw corrupt();
  const [id, wallMs, kindIndex, object, ticket, modeIndex, session, holder, token, waitedMs, heldMs, reason, value]: unknown[] = row;
  const event = typeof kindIndex === "number" ? KINDS[kindIndex] : undefined;
  const mode = typeof modeIndex === "number" ? MODES[modeIndex] : undefined;
  if (event === undefined || mode === undefined) throw corrupt();
  return {
    id: integer(id),
    wallMs: number(wallMs),
    event,
    object: text(object),
    ticket: text(ticket),
    mode,
    session: text(session),
    holder: decodeHolder(holder),
    ...(token === null ? {} : { token: integer(token) }),
    ...(waitedMs === null ? {} : { waitedMs: number(waitedMs) }),
    ...(heldMs === null ? {} : { heldMs: number(heldMs) }),
    ...(reason === null ? {} : { reason: text(reason) }),
    ...(value === undefined ? {} : { value: text(value) }),
  };
}

function decodeHolder(row: unknown): Holder {
  if (!Array.isArray(row) || row.length < 6) throw corrupt();
  const [name, host, pid, program, address, commandLine]: unknown[] = row;
  const holder = { name: text(name), host: text(host), pid: integer(pid), program: text(program), address: text(address) };
  return commandLine === null ? holder : { ...holder, commandLine: text(commandLine) };
}

function text(value: unknown): string {
  if (typeof value !== "string") throw corrupt();
  return value;
}

function number(value: unknown): number {
  if (typeof value !== "number" || !Number.isFinite(value)) throw corrupt();
  return value;
}

function integer(value: unknown): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value)) throw corrupt();
  return value;
}

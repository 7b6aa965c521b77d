/**
 * The timeline on which a single node counts leases: milliseconds that go on over restarts of the
 * process (boot-time clock and boot id are stored) and never go back over a reboot. A restart within
 * one boot neither shortens nor lengthens a lease. Knows no table.
 */
import { decode } from "cbor-x/decode";
import { Encoder } from "cbor-x/encode";
import type { Clock } from "../../../src/clock/clock.ts";
import { LockdError } from "../../../src/errors.ts";
import type { RecordChange } from "../../../src/store/types.ts";

const encoder = new Encoder({ useRecords: false, tagUint8Array: false });

export class EngineTimeline {
  static readonly RECORD_KEY = "timeline";

  readonly #bootId: string;
  /** timeline minus boot-time clock, whole milliseconds */
  readonly #offsetMs: number;
  readonly #clock: Clock;
  /** the record that it goes on from */
  readonly #stored: Uint8Array | null;
  #lastMs: number;

  private constructor(bootId: string, offsetMs: number, lastMs: number, clock: Clock, stored: Uint8Array | null) {
    this.#bootId = bootId;
    this.#offsetMs = offsetMs;
    this.#lastMs = lastMs;
    this.#clock = clock;
    this.#stored = stored;
  }

  static fresh(bootId: string, clock: Clock): EngineTimeline {
    return new EngineTimeline(bootId, 0, 0, clock, null);
  }

  /** Goes on from the record of the last durable batch; after a reboot just behind it. */
  static resume(record: Uint8Array, bootId: string, clock: Clock): { timeline: EngineTimeline; rebooted: boolean } {
    const stored = parse(record);
    const rebooted = stored.bootId !== bootId;
    const boot = Math.floor(clock.bootMs());
    // the boot-time clock of a container that was moved may lag: the timeline does not go back for it
    const offsetMs = rebooted ? stored.lastMs + 1 - boot : Math.max(stored.offsetMs, stored.lastMs - boot);
    return { timeline: new EngineTimeline(bootId, offsetMs, stored.lastMs, clock, record), rebooted };
  }

  nowMs(): number {
    this.#lastMs = Math.max(this.#lastMs, Math.floor(this.#clock.bootMs()) + this.#offsetMs);
    return this.#lastMs;
  }

  /** Goes into every batch: no state is stored without the time at which it was true. */
  record(): RecordChange {
    return { key: EngineTimeline.RECORD_KEY, value: encoder.encode([this.#bootId, this.#offsetMs, this.#lastMs]) };
  }

  /** The record as it was when this timeline was taken up: to write it again changes nothing. */
  storedRecord(): RecordChange {
    return this.#stored === null ? this.record() : { key: EngineTimeline.RECORD_KEY, value: this.#stored };
  }
}

function parse(record: Uint8Array): { bootId: string; offsetMs: number; lastMs: number } {
  let value: unknown;
  try {
    value = decode(record);
  } catch {
    value = null;
  }
  if (Array.isArray(value)) {
    const [bootId, offsetMs, lastMs]: unknown[] = value;
    if (typeof bootId === "string" && isMilliseconds(offsetMs) && isMilliseconds(lastMs) && lastMs >= 0) return { bootId, offsetMs, lastMs };
  }
  throw new LockdError("corrupt", "read lock state: the timeline record is malformed", {
    hint: "restore the data directory from a backup, or remove it to start anew",
  });
}

const isMilliseconds = (value: unknown): value is number => typeof value === "number" && Number.isSafeInteger(value);

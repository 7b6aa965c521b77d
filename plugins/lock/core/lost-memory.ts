/**
 * Remembers the latest lost locks, so that an owner who comes back hears `lost` and why, instead of
 * `notheld`. Bounded: the oldest are forgotten first. Knows no tickets.
 */
import { LostLock } from "./entities.ts";
import type { Journal } from "./journal.ts";
import type { Entity } from "./entities.ts";

export class LostMemory {
  /** in the order of the losses */
  readonly #byHandle = new Map<string, LostLock>();
  readonly #byToken = new Map<number, LostLock>();

  constructor(
    readonly entriesMax: number,
    readonly journal: Journal<Entity>,
  ) {}

  /** Remembers a loss that is new to the journal. */
  add(lost: LostLock): void {
    this.adopt(lost);
    this.journal.touch(lost);
    for (const oldest of this.#byHandle.values()) {
      if (this.#byHandle.size <= this.entriesMax) break;
      this.#byHandle.delete(oldest.handle);
      this.#byToken.delete(oldest.token);
      this.journal.drop(oldest);
    }
  }

  /** Takes over a loss that storage knows already; to be called in their order. */
  adopt(lost: LostLock): void {
    this.#byHandle.set(lost.handle, lost);
    this.#byToken.set(lost.token, lost);
  }

  byHandle(handle: string): LostLock | undefined {
    return this.#byHandle.get(handle);
  }

  byToken(token: number): LostLock | undefined {
    return this.#byToken.get(token);
  }

  values(): Iterable<LostLock> {
    return this.#byHandle.values();
  }
}

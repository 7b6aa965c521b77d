/**
 * What a set of tickets takes of one object, as sums, and the one rule of which tickets go together.
 * Owns compatibility; knows nothing of order or time.
 */
import type { LockSpec } from "./types.ts";

/** The sums over a set of tickets at one object; O(1) to change and to ask. */
export class Load {
  tickets = 0;
  shared = 0;
  semaphores = 0;
  /** permits taken by the semaphore tickets */
  permitsTaken = 0;

  add(spec: LockSpec): void {
    this.#change(spec, 1);
  }

  remove(spec: LockSpec): void {
    this.#change(spec, -1);
  }

  clear(): void {
    this.tickets = this.shared = this.semaphores = this.permitsTaken = 0;
  }

  #change(spec: LockSpec, by: 1 | -1): void {
    this.tickets += by;
    if (spec.mode === "shared") this.shared += by;
    if (spec.mode === "semaphore") {
      this.semaphores += by;
      this.permitsTaken += by * spec.count;
    }
  }
}

/** The empty set. */
export const NOTHING: Readonly<Load> = new Load();

/** Whether a ticket may hold the object together with all tickets of both sets. */
export function fits(spec: LockSpec, held: Readonly<Load>, ahead: Readonly<Load>): boolean {
  switch (spec.mode) {
    case "exclusive":
      return held.tickets === 0 && ahead.tickets === 0;
    case "shared":
      return held.shared === held.tickets && ahead.shared === ahead.tickets;
    case "semaphore":
      return (
        held.semaphores === held.tickets &&
        ahead.semaphores === ahead.tickets &&
        held.permitsTaken + ahead.permitsTaken + spec.count <= spec.permits
      );
  }
}

/** Whether these two alone can never hold the object at the same time. */
export function excludes(a: LockSpec, b: LockSpec): boolean {
  if (a.mode !== b.mode || a.mode === "exclusive") return true;
  return a.mode === "semaphore" && a.count + b.count > a.permits;
}

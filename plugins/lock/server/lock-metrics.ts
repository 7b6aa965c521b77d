/** The lock service's metrics. Counted when an answer is revealed, so they never run ahead of the disk. */
import type { Counter, Histogram, Metrics } from "../../../src/observe/types.ts";
import type { LockEvent, LockStatistics } from "../core/types.ts";

const WAIT_BOUNDS_SECONDS = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600];

export class LockMetrics {
  readonly #metrics: Metrics;
  readonly #granted: Counter;
  readonly #released: Counter;
  readonly #waited: Histogram;
  readonly #held: Histogram;
  readonly #failed = new Map<string, Counter>();
  readonly #lost = new Map<string, Counter>();

  constructor(metrics: Metrics, statistics: () => LockStatistics) {
    this.#metrics = metrics;
    this.#granted = metrics.counter("lockd_lock_grants_total", "Tickets granted");
    this.#released = metrics.counter("lockd_lock_releases_total", "Objects released by their holder");
    this.#waited = metrics.histogram("lockd_lock_wait_seconds", "Time from request to grant", WAIT_BOUNDS_SECONDS);
    this.#held = metrics.histogram("lockd_lock_held_seconds", "Time from grant to the end of the lock", WAIT_BOUNDS_SECONDS);
    metrics.gaugeFrom("lockd_lock_tickets", "Tickets that hold or wait", () => statistics().held, { state: "held" });
    metrics.gaugeFrom("lockd_lock_tickets", "Tickets that hold or wait", () => statistics().waiting, { state: "waiting" });
    metrics.gaugeFrom("lockd_lock_objects", "Objects that have tickets", () => statistics().objects);
    metrics.gaugeFrom("lockd_lock_sessions", "Sessions", () => statistics().sessions);
  }

  granted(): void {
    this.#granted.add();
  }

  failed(code: string): void {
    this.#labelled(this.#failed, "lockd_lock_failures_total", "Requests refused or timed out", "code", code).add();
  }

  lost(reason: string): void {
    this.#labelled(this.#lost, "lockd_lock_losses_total", "Locks taken back from their holder", "reason", reason).add();
  }

  events(events: readonly LockEvent[]): void {
    for (const event of events) {
      if (event.event === "granted" && event.waitedMs !== undefined) this.#waited.observe(event.waitedMs / 1000);
      if (event.event === "released") this.#released.add();
      if (event.heldMs !== undefined) this.#held.observe(event.heldMs / 1000);
    }
  }

  #labelled(known: Map<string, Counter>, name: string, help: string, label: string, value: string): Counter {
    let counter = known.get(value);
    if (counter === undefined) {
      counter = this.#metrics.counter(name, help, { [label]: value });
      known.set(value, counter);
    }
    return counter;
  }
}

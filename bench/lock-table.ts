/**
 * Benchmark of the lock table alone, without network or disk: the cost of a lock and unlock with their
 * records, and the longest step with 100,000 holders and waiters. Knows nothing of servers.
 * Run: bun bench/lock-table.ts
 */
import { LockTable } from "../plugins/lock/core/table.ts";
import type { LockCommand, LockLimits, LockMode, LockSpec, StepResult } from "../plugins/lock/core/types.ts";

const LIMITS: LockLimits = {
  objectsMax: 1_000_000,
  ticketsMax: 1_000_000,
  ticketsPerSessionMax: 1_000_000,
  waitersPerObjectMax: 1_000_000,
  objectsPerTicketMax: 64,
  sessionsMax: 1_000_000,
  lostMax: 10_000,
  workPerStepMax: 200,
};
const BATCH = 64;
const CROWD = 100_000;
/** steps above this are counted: on a quiet machine they are the garbage collector's */
const SLOW_MS = 5;

class Bench {
  readonly table = new LockTable(LIMITS);
  nowMs = 0;
  slowestMs = 0;
  steps = 0;
  slow = 0;
  handles = 0;

  step(command: LockCommand): StepResult {
    const start = performance.now();
    const result = this.table.step(command, { nowMs: this.nowMs, wallMs: 0 });
    this.#note(performance.now() - start);
    return result;
  }

  drain(): void {
    const start = performance.now();
    this.table.drainChanges();
    this.table.drainEvents();
    this.#note(performance.now() - start);
  }

  #note(ms: number): void {
    this.steps++;
    if (ms > SLOW_MS) this.slow++;
    this.slowestMs = Math.max(this.slowestMs, ms);
  }

  open(session: string): void {
    const holder = { name: session, host: "host", pid: 1, program: "bench", address: "127.0.0.1:1" };
    this.step({ kind: "open", session, secretHash: "hash", generation: 1, graceMs: 60_000, holder });
  }

  lock(session: string, object: string, options: Partial<LockSpec> & { mode?: LockMode } = {}): string {
    const handle = `handle-${++this.handles}`;
    const spec: LockSpec = {
      objects: [object],
      mode: "exclusive",
      permits: 1,
      count: 1,
      waitMs: null,
      durationMs: 10_000,
      unlockDurationMs: 5_000,
      lockDelayMs: 0,
      value: null,
      detached: false,
      detectDeadlock: true,
      reportQueue: false,
      parents: [],
      ...options,
    };
    this.step({ kind: "lock", session, request: `r${this.handles}`, spec, handle, message: this.handles });
    return handle;
  }

  ticks(): number {
    let ticks = 0;
    for (;;) {
      ticks++;
      const { more } = this.step({ kind: "tick" });
      this.drain();
      if (!more) return ticks;
    }
  }
}

function cycles(sessions: number, count: number): number {
  const bench = new Bench();
  for (let index = 0; index < sessions; index++) bench.open(`session-${index}`);
  const start = performance.now();
  for (let done = 0; done < count; done += BATCH / 2) {
    const handles: string[] = [];
    for (let index = 0; index < BATCH / 2; index++) {
      handles.push(bench.lock(`session-${(done + index) % sessions}`, `object-${(done + index) % 1000}`));
    }
    bench.drain();
    for (const handle of handles) bench.step({ kind: "unlock", handle });
    bench.drain();
  }
  return ((performance.now() - start) * 1000) / count;
}

function report(name: string, bench: Bench, run: () => void, operations: number): void {
  bench.slowestMs = bench.slow = bench.steps = 0;
  const start = performance.now();
  run();
  const totalMs = performance.now() - start;
  console.log(
    `${name.padEnd(44)} ${((totalMs * 1000) / operations).toFixed(1).padStart(8)} us each, slowest step ${bench.slowestMs.toFixed(2)} ms, ${bench.slow} of ${bench.steps} over ${SLOW_MS} ms`,
  );
}

cycles(1, 20_000);
console.log(`lock + unlock, one session            ${cycles(1, 200_000).toFixed(2)} us`);
console.log(`lock + unlock, 64 sessions            ${cycles(64, 200_000).toFixed(2)} us`);

const held = new Bench();
held.open("owner");
const memory = process.memoryUsage.rss();
report("hold 100,000 objects", held, () => {
  for (let index = 0; index < CROWD; index++) {
    held.lock("owner", `held-${index}`, { durationMs: 10_000 });
    if (index % BATCH === 0) held.drain();
  }
}, CROWD);
Bun.gc(true);
console.log(`memory per held ticket: ${Math.round((process.memoryUsage.rss() - memory) / CROWD)} bytes`);
held.open("writer");
held.lock("writer", "crowded");
report("100,000 wait for one object", held, () => {
  for (let index = 0; index < CROWD; index++) {
    held.open(`reader-${index}`);
    held.lock(`reader-${index}`, "crowded", { mode: "shared" });
    if (index % BATCH === 0) held.drain();
  }
}, CROWD);
report("writer leaves, 100,000 readers are granted", held, () => {
  held.step({ kind: "unlock", handle: `handle-${CROWD + 1}` });
  held.ticks();
}, CROWD);
held.nowMs = 10_000;
report("200,000 leases end at once", held, () => held.ticks(), 2 * CROWD);
held.nowMs = 15_000;
report("200,000 graces end at once", held, () => held.ticks(), 2 * CROWD);
console.log(held.table.statistics());

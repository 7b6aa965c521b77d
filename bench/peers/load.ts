/**
 * What all load programs here have in common: concurrent workers that repeat a cycle for a while, and
 * the result as one JSON line. Knows no server.
 */
import { LockdError } from "../../src/errors.ts";
import { quantile } from "../lib/statistics.ts";

export interface CycleResult {
  cycles: number;
  seconds: number;
  p50Ms: number;
  p99Ms: number;
}

export interface HandoffResult {
  waiters: number;
  handoffs: number;
  p50Ms: number;
  p99Ms: number;
}

/** Runs all workers until the time is over; counts the cycles that began and ended within it. */
export async function driveCycles(
  cycles: readonly (() => Promise<void>)[],
  options: { warmupSeconds: number; seconds: number },
): Promise<CycleResult> {
  const beginMs = performance.now() + options.warmupSeconds * 1000;
  const endMs = beginMs + options.seconds * 1000;
  const timesMs: number[] = [];
  await Promise.all(
    cycles.map(async (once) => {
      for (let startMs = performance.now(); startMs < endMs; ) {
        await once();
        const doneMs = performance.now();
        if (startMs >= beginMs && doneMs <= endMs) timesMs.push(doneMs - startMs);
        startMs = doneMs;
      }
    }),
  );
  if (timesMs.length === 0) throw new LockdError("failed", `measure cycles: none ended within ${options.seconds} s`);
  return { cycles: timesMs.length, seconds: options.seconds, p50Ms: quantile(timesMs, 0.5), p99Ms: quantile(timesMs, 0.99) };
}

/** The object a load program printed; `failed` when it is not one with these numbers. */
export function readNumbers<K extends string>(value: unknown, ...names: readonly K[]): Record<K, number> {
  const entries = names.map((name): [K, number] => {
    const found: unknown = typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
    if (typeof found !== "number") throw new LockdError("failed", `read result: ${name} is missing`);
    return [name, found];
  });
  return Object.fromEntries(entries) as Record<K, number>; // every name has its number: checked above
}

/**
 * Order statistics of small samples. Pure functions of numbers; knows no unit and no benchmark.
 */
import { assert } from "../../src/errors.ts";

/** The middle value; of an even count the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/**
 * The value below which the share `q` (0 to 1) of the sample lies, linear between neighbours
 * (Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996, definition 7).
 */
export function quantile(values: readonly number[], q: number): number {
  assert(values.length > 0, "quantile of at least one value");
  assert(q >= 0 && q <= 1, "q is a share");
  const sorted = Float64Array.from(values).sort();
  const place = (sorted.length - 1) * q;
  const below = Math.floor(place);
  const lower = sorted[below];
  const upper = sorted[Math.min(below + 1, sorted.length - 1)];
  assert(lower !== undefined && upper !== undefined, "a place within the sample");
  return lower + (upper - lower) * (place - below);
}

/** What the load programs report of their latencies, in the unit of the sample. */
export interface Spread {
  p50: number;
  p99: number;
  max: number;
}

export function spreadOf(values: readonly number[]): Spread {
  return { p50: median(values), p99: quantile(values, 0.99), max: quantile(values, 1) };
}

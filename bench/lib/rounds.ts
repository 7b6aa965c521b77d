/**
 * Alternating measurement: every round measures each contestant once, and the order turns from round
 * to round, so that a slow minute of the machine hits all of them. Knows no contestant.
 */
import { assert } from "../../src/errors.ts";

export interface Contestant<T> {
  name: string;
  measure(round: number): Promise<T>;
}

/** The samples of each contestant in round order, keyed by its name. */
export async function alternate<T>(contestants: readonly Contestant<T>[], rounds: number): Promise<Map<string, T[]>> {
  assert(rounds >= 1, "at least one round");
  const samples = new Map<string, T[]>(contestants.map((contestant) => [contestant.name, []]));
  assert(samples.size === contestants.length, "contestants have different names");
  for (let round = 0; round < rounds; round++) {
    for (const contestant of turned(contestants, round)) {
      samples.get(contestant.name)?.push(await contestant.measure(round));
    }
  }
  return samples;
}

function turned<T>(items: readonly T[], by: number): T[] {
  const start = items.length === 0 ? 0 : by % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}

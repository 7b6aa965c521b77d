/**
 * A bystander, run as a Worker: takes and releases one unrelated lock without a pause and notes how
 * long each of the two took. Messages in: the name of the phase that begins, or null for the end;
 * out: `ready`, then at the end the spread of every phase.
 */
import { connect } from "../../src/client/client.ts";
import { assert } from "../../src/errors.ts";
import { spreadOf, type Spread } from "../lib/statistics.ts";

declare const self: Worker;

/** Milliseconds of single operations, lock and release apart, by phase. */
export type ProbeResult = Readonly<Record<string, Spread & { operations: number }>>;

const timesMs = new Map<string, number[]>();
let phase: string | null = "start";

self.onmessage = (event: MessageEvent<{ server: string } | { phase: string | null }>) => {
  if ("server" in event.data) void run(event.data.server);
  else phase = event.data.phase;
};

async function run(server: string): Promise<void> {
  const client = await connect({ servers: [server] });
  const timed = async <T>(operation: () => Promise<T>): Promise<T> => {
    const startMs = performance.now();
    const startPhase = phase;
    const result = await operation();
    if (startPhase !== null) samplesOf(startPhase).push(performance.now() - startMs);
    return result;
  };
  const cycle = async (): Promise<void> => {
    const lock = await timed(() => client.lock(["bystander"]));
    await timed(() => lock.release());
  };
  await cycle();
  self.postMessage("ready");
  while (phase !== null) await cycle();
  await client.close();
  const results = [...timesMs].map(([name, times]) => [name, { ...spreadOf(times), operations: times.length }] as const);
  self.postMessage(Object.fromEntries(results) satisfies ProbeResult);
}

function samplesOf(name: string): number[] {
  if (!timesMs.has(name)) timesMs.set(name, []);
  const samples = timesMs.get(name);
  assert(samples !== undefined, "the phase has its list");
  return samples;
}

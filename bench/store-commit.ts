/**
 * Commit latency and throughput of the store, beside a bare write and fdatasync of 4 KiB in the same run.
 * `bun bench/store-commit.ts [DIRECTORY]`; prints a table, last the ratio to the bare write.
 */
import { closeSync, fdatasyncSync, fsyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openStore, type OpenedStore } from "../src/store/store.ts";

const ROUNDS = 5;
const COMMITS = 1_000;
const BARE_BYTES = 4 * 1024 * 1024;
const VALUE = new Uint8Array(150).fill(7);

const quantile = (sorted: readonly number[], share: number): number => sorted[Math.floor((sorted.length - 1) * share)] ?? NaN;
const median = (values: readonly number[]): number => quantile([...values].sort((a, b) => a - b), 0.5);

interface Latency {
  p50Ms: number;
  p99Ms: number;
}

function latencyOf(samplesMs: number[]): Latency {
  samplesMs.sort((a, b) => a - b);
  return { p50Ms: quantile(samplesMs, 0.5), p99Ms: quantile(samplesMs, 0.99) };
}

function bareWrites(directory: string): Latency {
  const path = join(directory, "bare");
  const descriptor = openSync(path, "w");
  writeSync(descriptor, new Uint8Array(BARE_BYTES));
  fsyncSync(descriptor);
  const page = new Uint8Array(4096).fill(1);
  const samplesMs: number[] = [];
  for (let index = 0; index < COMMITS; index++) {
    const startMs = performance.now();
    writeSync(descriptor, page, 0, page.length, (index * page.length) % BARE_BYTES);
    fdatasyncSync(descriptor);
    samplesMs.push(performance.now() - startMs);
  }
  closeSync(descriptor);
  rmSync(path);
  return latencyOf(samplesMs);
}

/** One commit of one change at a time. */
async function singleCommits(store: OpenedStore): Promise<Latency> {
  const namespace = store.namespace("bench");
  const samplesMs: number[] = [];
  for (let index = 0; index < COMMITS; index++) {
    const startMs = performance.now();
    await namespace.commit({ changes: [{ key: `single-${index % 100}`, value: VALUE }] });
    samplesMs.push(performance.now() - startMs);
  }
  return latencyOf(samplesMs);
}

/** `writers` that each commit one change after the other; answers changes a second and the latency of each. */
async function parallelCommits(
  store: OpenedStore,
  writers: number,
  keyOf: (writer: number, index: number) => string,
): Promise<Latency & { changesPerSecond: number; cpuShare: number }> {
  const namespace = store.namespace("bench");
  const each = Math.ceil(100_000 / writers);
  const samplesMs: number[] = [];
  const cpuBefore = process.cpuUsage();
  const startMs = performance.now();
  await Promise.all(
    Array.from({ length: writers }, async (_, writer) => {
      for (let index = 0; index < each; index++) {
        const beginMs = performance.now();
        await namespace.commit({ changes: [{ key: keyOf(writer, index), value: index % 2 === 0 ? VALUE : null }] });
        samplesMs.push(performance.now() - beginMs);
      }
    }),
  );
  const elapsedMs = performance.now() - startMs;
  const cpu = process.cpuUsage(cpuBefore);
  return {
    ...latencyOf(samplesMs),
    changesPerSecond: (writers * each * 1000) / elapsedMs,
    cpuShare: (cpu.user + cpu.system) / 1000 / elapsedMs,
  };
}

const directory = mkdtempSync(join(process.argv[2] ?? tmpdir(), "lockd-bench-"));
try {
  const store = await openStore({ directory: join(directory, "data") });
  const bare: Latency[] = [];
  const single: Latency[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    bare.push(bareWrites(directory));
    single.push(await singleCommits(store));
  }
  const bareP50Ms = median(bare.map((each) => each.p50Ms));
  const singleP50Ms = median(single.map((each) => each.p50Ms));
  const row = (name: string, { p50Ms, p99Ms }: Latency, more = ""): void =>
    console.log(`${name.padEnd(34)} p50 ${p50Ms.toFixed(3).padStart(8)} ms   p99 ${p99Ms.toFixed(3).padStart(8)} ms  ${more}`);
  row("bare 4 KiB write + fdatasync", { p50Ms: bareP50Ms, p99Ms: median(bare.map((each) => each.p99Ms)) });
  row("store, one commit at a time", { p50Ms: singleP50Ms, p99Ms: median(single.map((each) => each.p99Ms)) });
  for (const writers of [16, 256, 2_000]) {
    for (const [name, keyOf] of [
      ["same keys", (writer: number) => `key-${writer}`],
      ["new keys", (writer: number, index: number) => `key-${writer}-${index}`],
    ] as const) {
      const result = await parallelCommits(store, writers, keyOf);
      const more = `${Math.round(result.changesPerSecond)} changes/s, ${result.cpuShare.toFixed(2)} cores`;
      row(`store, ${writers} writers, ${name}`, result, more);
    }
  }
  const { walBytes } = store.stats();
  await store.close();
  const openMs: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const startMs = performance.now();
    const again = await openStore({ directory: join(directory, "data") });
    openMs.push(performance.now() - startMs);
    await again.close();
  }
  console.log(`log ${walBytes} bytes; open ${median(openMs).toFixed(1)} ms`);
  console.log(`ratio of p50 to the bare write: ${(singleP50Ms / bareP50Ms).toFixed(2)}`);
} finally {
  rmSync(directory, { recursive: true, force: true });
}

/** What a killed, stopped or failing process leaves on disk: all that it acknowledged, and no half batch. */
import type { Subprocess } from "bun";
import { afterEach, describe, expect, test } from "bun:test";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { checkStore } from "../../src/store/check.ts";
import { openStore } from "../../src/store/store.ts";
import { cleanUp, later, recordsOf, streamOf, temporaryDirectory } from "./kit.ts";

afterEach(cleanUp);

const COMMITTER = join(import.meta.dir, "programs", "committer.ts");

/** A running committer and the numbers that it acknowledged so far. */
class Committer {
  readonly process: Subprocess<"ignore", "pipe", "inherit">;
  readonly lines: string[] = [];
  readonly #ended: Promise<void>;
  #over = false;
  #wake: () => void = () => undefined;

  constructor(directory: string, before: readonly string[] = []) {
    this.process = Bun.spawn([...before, process.execPath, COMMITTER, directory], { stdin: "ignore", stdout: "pipe", stderr: "inherit" });
    later(() => this.process.kill("SIGKILL"));
    this.#ended = this.#read();
  }

  get acknowledged(): number {
    return this.lines.reduce((most, line) => (/^\d+$/.test(line) ? Math.max(most, Number(line)) : most), 0);
  }

  /** Resolves at that many lines. Fails when the process ends before. */
  async until(lines: number): Promise<void> {
    while (this.lines.length < lines) {
      if (this.#over) throw new Error(`the committer ended after ${this.lines.length} of ${lines} lines: ${this.lines.at(-1)}`);
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.ended();
  }

  async ended(): Promise<void> {
    await this.process.exited;
    await this.#ended;
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of this.process.stdout) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      this.lines.push(...lines);
      this.#wake();
    }
    this.#over = true;
    this.#wake();
  }
}

/** Opens the store, checks that it shows a whole prefix of the batches, and answers how many. */
async function prefixIn(directory: string): Promise<number> {
  checkStore(directory);
  const store = await openStore({ directory });
  try {
    const namespace = store.namespace("lock");
    const records = recordsOf(namespace);
    const ids = streamOf(namespace, "events").map((piece) => Number(piece.split("-")[0]));
    const last = ids.at(-1) ?? 0;
    expect(ids).toEqual(Array.from({ length: last }, (_, index) => index + 1));
    const numberOf = (key: string): number => Number.parseInt(records[key] ?? "0", 10);
    expect([numberOf("first"), numberOf("second")]).toEqual([last, last]);
    for (let n = Math.max(1, last - 499); n <= last; n++) expect(numberOf(`other-${n % 500}`)).toBe(n);
    return last;
  } finally {
    await store.close();
  }
}

/** Deterministic pseudo-random numbers in [0, 1): a failing run can be repeated. */
function* randomNumbers(seed: number): Generator<number, never> {
  let state = seed;
  for (;;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 32;
  }
}

describe("kill -9 at any time", () => {
  test("40 times in a row loses nothing that was acknowledged and shows no half batch", async () => {
    const directory = temporaryDirectory();
    const random = randomNumbers(1);
    let acknowledged = 0;
    for (let round = 0; round < 40; round++) {
      const committer = new Committer(directory);
      // From the very start of the process to some hundred commits; now and then long enough to fold.
      const lines = Math.floor(random.next().value ** 3 * (round % 8 === 7 ? 6_000 : 600));
      await committer.until(lines);
      await committer.kill();
      expect(committer.lines.filter((line) => !/^\d+$/.test(line))).toEqual([]);
      acknowledged = Math.max(acknowledged, committer.acknowledged);
      expect(await prefixIn(directory)).toBeGreaterThanOrEqual(acknowledged);
    }
    expect(acknowledged).toBeGreaterThan(1_000);
  }, 120_000);
});

describe("the files of a running store, copied at any time", () => {
  test("open to a prefix that holds all that was acknowledged before", async () => {
    const directory = temporaryDirectory();
    const random = randomNumbers(2);
    const committer = new Committer(directory);
    for (let round = 0; round < 12; round++) {
      await committer.until(committer.lines.length + 1 + Math.floor(random.next().value * 700));
      committer.process.kill("SIGSTOP");
      await stopped(committer.process.pid);
      const acknowledged = committer.acknowledged;
      const copy = temporaryDirectory();
      for (const name of ["lockd.sqlite", "lockd.sqlite-wal"]) cpSync(join(directory, name), join(copy, name));
      committer.process.kill("SIGCONT");
      expect(await prefixIn(copy)).toBeGreaterThanOrEqual(acknowledged);
    }
    await committer.kill();
  }, 120_000);
});

describe("a failing disk", () => {
  for (const [what, fault] of [
    ["fsync of the log", "fsync:error=EIO:when=120+"],
    ["write to the log", "pwrite64:error=EIO:when=600+"],
  ] as const) {
    test(`that refuses each ${what} ends the store at once and for good; what was acknowledged stands`, async () => {
      const directory = temporaryDirectory();
      const trace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", `trace=${fault.split(":")[0]}`, "-e", `inject=${fault}`];
      const committer = new Committer(directory, trace);
      await committer.ended();
      expect(committer.lines).toContain("failed failed");
      expect(committer.lines.at(-1)).toBe("store failed");
      expect(committer.acknowledged).toBeGreaterThan(0);
      expect(await prefixIn(directory)).toBeGreaterThanOrEqual(committer.acknowledged);
    }, 60_000);
  }
});

/** Resolves when every thread of the process stands still. */
async function stopped(pid: number): Promise<void> {
  for (;;) {
    const status = await Bun.file(`/proc/${pid}/stat`).text();
    if (status.slice(status.lastIndexOf(")") + 2).startsWith("T")) return;
    await Bun.sleep(1);
  }
}

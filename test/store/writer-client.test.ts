/** The writer's worker dies, hangs or refuses: nobody waits for ever, and nobody is told that all is well. */
import { Database } from "bun:sqlite";
import { afterEach, describe, expect, test } from "bun:test";
import { startWorker } from "../../src/store/start-worker.ts";
import { openStore } from "../../src/store/store.ts";
import { WriterClient, type WriterClientOptions } from "../../src/store/writer-client.ts";
import { append, cleanUp, errorOf, later, openedStore, set, temporaryDirectory } from "./kit.ts";

afterEach(cleanUp);

async function client(program: string, options: Partial<WriterClientOptions> = {}) {
  const worker = startWorker(`test/store/programs/${program}.worker.ts`);
  later(() => worker.terminate());
  const writer = new WriterClient({
    worker,
    readStreamEnd: () => null,
    nowMs: () => performance.now(),
    slowAfterMs: 30_000,
    onSlow: () => undefined,
    ...options,
  });
  await writer.open("unused");
  return { worker, writer };
}

const batch = { changes: [set("a", "1")] };

describe("a writer that dies", () => {
  for (const program of ["throwing", "ending"]) {
    test(`by ${program} rejects what is under way, what waits and what comes, and close still returns`, async () => {
      const { writer } = await client(program);
      const first = writer.commit("lock", batch);
      await Promise.resolve();
      const second = writer.commit("lock", batch);
      for (const commit of [first, second]) expect(await errorOf(() => commit)).toMatchObject({ code: "failed", retryable: false });
      expect(await writer.failed).toMatchObject({ code: "failed", message: expect.stringContaining("store writer died") });
      expect(await errorOf(() => writer.commit("lock", batch))).toBe(await writer.failed);
      await writer.close();
    });
  }

  test("before it opened rejects the opening", async () => {
    const worker = startWorker("test/store/programs/none.worker.ts");
    const writer = new WriterClient({ worker, readStreamEnd: () => null, nowMs: () => 0, slowAfterMs: 1_000, onSlow: () => undefined });
    expect(await errorOf(() => writer.open("unused"))).toMatchObject({ code: "failed" });
  });
});

describe("a store that cannot be closed cleanly", () => {
  test("says so through `failed`, and close still returns and frees the directory", async () => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    await store.namespace("lock").commit(batch);
    const other = new Database(store.path);
    other.run("DROP TABLE meta");
    other.close();
    await store.close();
    expect(await store.failed).toMatchObject({ code: "failed", message: expect.stringContaining("close store") });
    expect(await errorOf(() => openStore({ directory }))).toMatchObject({ code: "corrupt" });
  });
});

describe("a disk that hangs", () => {
  test("is reported once and waited for; close waits for it too", async () => {
    const slow = Promise.withResolvers<number>();
    let reports = 0;
    const { worker, writer } = await client("waiting", {
      slowAfterMs: 20,
      onSlow: (elapsedMs) => {
        reports += 1;
        slow.resolve(elapsedMs);
      },
    });
    const commit = writer.commit("lock", batch);
    expect(await slow.promise).toBeGreaterThanOrEqual(19);
    expect(writer.waitingMs).toBeGreaterThan(0);
    expect(writer.failure).toBeNull();
    const order: string[] = [];
    const closed = writer.close().then(() => order.push("closed"));
    void commit.then(() => order.push("committed"));
    expect(await errorOf(() => writer.commit("lock", batch))).toMatchObject({ message: expect.stringContaining("closed") });
    worker.postMessage({ kind: "go" });
    await closed;
    expect(order).toEqual(["committed", "closed"]);
    expect(reports).toBe(1);
    expect(writer.waitingMs).toBe(0);
    expect(writer.stats).toMatchObject({ commits: 1, batches: 1, walBytes: 4096 });
  });

  test("holds back the queue, which is bounded", async () => {
    const { worker, writer } = await client("waiting");
    const large = { changes: [{ key: "large", value: new Uint8Array(40 * 1024 * 1024) }] };
    const commits = Array.from({ length: 10 }, () => writer.commit("lock", large));
    const outcomes: string[] = [];
    for (const commit of commits) {
      void commit.then(
        () => outcomes.push("durable"),
        (error: unknown) => outcomes.push(error instanceof Error && "code" in error ? String(error.code) : "other"),
      );
    }
    await Promise.resolve();
    await Promise.resolve();
    expect(outcomes).toEqual(["overflow", "overflow", "overflow"]);
    for (let left = 7; left > 0; left--) {
      const before = outcomes.length;
      worker.postMessage({ kind: "go" });
      while (outcomes.length === before) await new Promise((resolve) => setImmediate(resolve));
    }
    expect(outcomes.slice(3)).toEqual(Array.from({ length: 7 }, () => "durable"));
  });
});

describe("a group", () => {
  test("takes all that is committed in one turn, and the next all that came while it was under way", async () => {
    const { worker, writer } = await client("waiting");
    const first = [writer.commit("lock", batch), writer.commit("other", batch)];
    await Promise.resolve();
    const second = [writer.commit("lock", batch), writer.commit("lock", batch), writer.commit("lock", batch)];
    worker.postMessage({ kind: "go" });
    await Promise.all(first);
    expect(writer.stats).toMatchObject({ commits: 1, batches: 2 });
    worker.postMessage({ kind: "go" });
    await Promise.all(second);
    expect(writer.stats).toMatchObject({ commits: 2, batches: 5 });
  });

  test("checks that streams go on where they end, also within a batch", async () => {
    const { worker, writer } = await client("waiting", { readStreamEnd: (_, stream) => (stream === "old" ? 10 : null) });
    const refused = async (...appends: ReturnType<typeof append>[]) => String(await errorOf(() => writer.commit("lock", { changes: [], appends })));
    expect(await refused(append("old", 12, 12, ""))).toContain("goes on with 11, not with 12");
    expect(await refused(append("new", 1, 3, ""), append("new", 3, 4, ""))).toContain("goes on with 4, not with 3");
    const accepted = writer.commit("lock", { changes: [], appends: [append("old", 11, 12, ""), append("old", 13, 13, ""), append("new", 7, 9, "")] });
    expect(await refused(append("new", 9, 9, ""))).toContain("goes on with 10, not with 9");
    expect(await refused(append("old", 15, 15, ""))).toContain("goes on with 14, not with 15");
    worker.postMessage({ kind: "go" });
    await accepted;
  });
});

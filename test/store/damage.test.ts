/**
 * One altered bit in any file of a data directory: the store must say so, or show exactly what was
 * committed. Never anything else.
 */
import { Database } from "bun:sqlite";
import { afterEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { cpSync, existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkStore } from "../../src/store/check.ts";
import { openStore } from "../../src/store/store.ts";
import { scanWal } from "../../src/store/wal-scan.ts";
import { Writer } from "../../src/store/writer.ts";
import { append, cleanUp, errorOf, openedStore, recordsOf, set, streamOf, temporaryDirectory, unset } from "./kit.ts";

afterEach(cleanUp);

const FILE = "lockd.sqlite";

interface Contents {
  records: Record<string, string>;
  events: string[];
}

/** What the store in `directory` holds, or the error of finding out. */
async function contentsOf(directory: string): Promise<Contents | { code: unknown; message: unknown }> {
  try {
    const store = await openStore({ directory });
    try {
      const namespace = store.namespace("lock");
      return { records: recordsOf(namespace), events: streamOf(namespace, "events") };
    } finally {
      await store.close();
    }
  } catch (error) {
    if (error instanceof Error && "code" in error) return { code: error.code, message: error.message };
    throw error;
  }
}

/** A closed store whose data is partly in the tables and partly in the journal. */
async function makeStore(): Promise<{ directory: string; contents: Contents }> {
  const directory = temporaryDirectory();
  let id = 0;
  for (const round of [1, 2, 3]) {
    const store = await openStore({ directory });
    await Promise.all(
      Array.from({ length: 100 }, (_, index) => {
        id += 1;
        const changes = [set(`key-${index}`, `${round}${"v".repeat(200)}`), unset(`key-${index - 50}`)];
        return store.namespace("lock").commit({ changes, appends: [append("events", id, id, `event ${id}`)] });
      }),
    );
    await store.close();
    const writer = new Writer(join(directory, FILE));
    while (writer.maintain("all"));
    writer.close();
  }
  const again = await openStore({ directory });
  await again.namespace("lock").commit({ changes: [set("last", "one"), unset("key-99")], appends: [append("events", id + 1, id + 1, "last")] });
  await again.close();
  const report = checkStore(directory);
  expect(report).toMatchObject({ journalChanges: 3, records: 50, streamPieces: 300 });
  const contents = await contentsOf(directory);
  if (!("records" in contents)) throw new Error("the store is sound");
  return { directory, contents };
}

function flipBit(path: string, bit: number): void {
  const bytes = readFileSync(path);
  const at = bit >> 3;
  bytes[at] = (bytes[at] ?? 0) ^ (1 << (bit & 7));
  writeFileSync(path, bytes);
}

describe("one flipped bit", () => {
  test("anywhere in the database is reported, or harmless", async () => {
    const { directory, contents } = await makeStore();
    const bits = readFileSync(join(directory, FILE)).length * 8;
    const copy = temporaryDirectory();
    let reported = 0;
    const judge = async (bit: number): Promise<void> => {
      rmSync(copy, { recursive: true });
      cpSync(directory, copy, { recursive: true });
      flipBit(join(copy, FILE), bit);
      const found = await contentsOf(copy);
      if ("code" in found) {
        expect(found).toMatchObject({ code: "corrupt" });
        reported += 1;
      } else expect(found).toEqual(contents);
    };
    await fc.assert(fc.asyncProperty(fc.integer({ min: 0, max: bits - 1 }), judge), { numRuns: 120 });
    // The header of the file and the schema behind it hold what decides about all the rest.
    await fc.assert(fc.asyncProperty(fc.integer({ min: 0, max: 108 * 8 - 1 }), judge), { numRuns: 60 });
    await fc.assert(fc.asyncProperty(fc.integer({ min: 3_000 * 8, max: 4_096 * 8 - 1 }), judge), { numRuns: 40 });
    expect(reported).toBeGreaterThan(20);
  }, 60_000);

  test("anywhere in the log is reported, or cuts it to what was durable before its last two transactions", async () => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    const namespace = store.namespace("lock");
    for (let index = 0; index < 12; index++) await namespace.commit({ changes: [set("count", String(index)), set("same", String(index))] });
    const image = temporaryDirectory();
    for (const name of [FILE, `${FILE}-wal`]) cpSync(join(directory, name), join(image, name));
    const whole = await contentsOf(image);
    expect(whole).toEqual({ records: { count: "11", same: "11" }, events: [] });
    const copy = temporaryDirectory();
    const used = readFileSync(join(directory, `${FILE}-wal`)).findLastIndex((byte) => byte !== 0);
    let reported = 0;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: used * 8 }), async (bit) => {
        rmSync(copy, { recursive: true });
        cpSync(join(directory, FILE), join(copy, FILE));
        cpSync(join(directory, `${FILE}-wal`), join(copy, `${FILE}-wal`));
        flipBit(join(copy, `${FILE}-wal`), bit);
        const found = await contentsOf(copy);
        if ("code" in found) {
          expect(found).toMatchObject({ code: "corrupt" });
          reported += 1;
        } else {
          expect(Number(found.records["count"])).toBeGreaterThanOrEqual(9);
          expect(found.records["same"]).toBe(String(found.records["count"]));
        }
      }),
      { numRuns: 80 },
    );
    expect(reported).toBeGreaterThan(20);
  }, 60_000);
});

describe("a log cut at any length", () => {
  test("opens to a prefix of what was committed, and says that it was cut", async () => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    const namespace = store.namespace("lock");
    for (let index = 0; index < 12; index++) await namespace.commit({ changes: [set("count", String(index)), set("same", String(index))] });
    const log = readFileSync(`${store.path}-wal`);
    const used = log.findLastIndex((byte) => byte !== 0) + 1;
    const database = readFileSync(store.path);
    const seen = new Set<string>();
    let cut = 0;
    for (let lengthBytes = used; lengthBytes > used - 40_000; lengthBytes -= 997) {
      const copy = temporaryDirectory();
      writeFileSync(join(copy, FILE), database);
      writeFileSync(join(copy, `${FILE}-wal`), log);
      truncateSync(join(copy, `${FILE}-wal`), lengthBytes);
      const again = await openStore({ directory: copy });
      const records = recordsOf(again.namespace("lock"));
      expect(records["same"]).toBe(records["count"] ?? "");
      seen.add(records["count"] ?? "none");
      if (again.tailCut) cut += 1;
      // It goes on from there, and the next start finds nothing to complain about.
      await again.namespace("lock").commit({ changes: [set("after", "cut")] });
      await again.close();
      expect(await contentsOf(copy)).toEqual({ records: { ...records, after: "cut" }, events: [] });
    }
    expect(seen.size).toBeGreaterThan(5);
    expect(cut).toBeGreaterThan(30);
  }, 60_000);
});

test("what a torn transaction left is gone after the start, so that a second one is not taken for damage", async () => {
  const directory = temporaryDirectory();
  const store = await openedStore(directory);
  const namespace = store.namespace("lock");
  await namespace.commit({ changes: [set("small", "1")] });
  const before = scanWal(readFileSync(`${store.path}-wal`));
  await namespace.commit({ changes: [set("large", "v".repeat(100_000))] });
  if (before.kind !== "whole") throw new Error("the log is whole");
  const copy = temporaryDirectory();
  for (const name of [FILE, `${FILE}-wal`]) cpSync(join(directory, name), join(copy, name));
  flipBit(join(copy, `${FILE}-wal`), (before.endBytes + 500) * 8);
  expect(checkStore(copy)).toMatchObject({ tailTorn: true });

  const again = await openedStore(copy);
  expect(again.tailCut).toBe(true);
  expect(scanWal(readFileSync(`${again.path}-wal`))).toEqual(before);
  // The next transaction takes several frames of the place, and is torn in its first.
  await again.namespace("lock").commit({ changes: [set("medium", "v".repeat(10_000))] });
  const third = temporaryDirectory();
  for (const name of [FILE, `${FILE}-wal`]) cpSync(join(copy, name), join(third, name));
  flipBit(join(third, `${FILE}-wal`), (before.endBytes + 500) * 8);
  expect(await contentsOf(third)).toEqual({ records: { small: "1" }, events: [] });
});

describe("the journal", () => {
  const journal = async (statement: string): Promise<unknown> => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    for (let index = 1; index <= 5; index++) await store.namespace("lock").commit({ changes: [set(`k${index}`, "v")] });
    await store.close();
    const database = new Database(join(directory, FILE));
    database.run(statement);
    database.close();
    expect(await errorOf(() => checkStore(directory))).toMatchObject({ code: "corrupt" });
    return errorOf(() => openStore({ directory }));
  };

  for (const [what, statement, said] of [
    ["an altered row", "UPDATE journal SET data = data || x'00' WHERE seq = 3", "journal row 3 was altered"],
    ["a missing row", "DELETE FROM journal WHERE seq = 2", "journal row 2 is missing, found 3"],
    ["a missing first row", "DELETE FROM journal WHERE seq = 1", "journal row 1 is missing, found 2"],
    ["a missing last row", "DELETE FROM journal WHERE seq = 5", "journal row 5 is missing, and all up to 5"],
    ["two rows exchanged", "UPDATE journal SET (data, checksum) = (SELECT data, checksum FROM journal WHERE seq = 4) WHERE seq = 2", "journal row 2 was altered"],
    ["an altered identity", "UPDATE meta SET value = '0123456789abcdef0123456789abcdef' WHERE key = 'directoryId'", "directoryId was altered"],
    ["a missing table", "DROP TABLE journal", "no such table"],
  ] as const) {
    test(`with ${what} is corrupt, and it says which`, async () => {
      expect(await journal(statement)).toMatchObject({ code: "corrupt", exitCode: 65, message: expect.stringContaining(said) });
    });
  }
});

describe("the tables", () => {
  for (const [what, statement, said] of [
    ["an altered record", "UPDATE record SET value = x'00' WHERE key = 'key-80'", 'record \\"key-80\\"'],
    ["a record under another key", "UPDATE record SET key = 'key-800' WHERE key = 'key-80'", "key-800"],
    ["a missing record", "DELETE FROM record WHERE key = 'key-80'", "lock should have 50 records, 49 are there"],
    ["a missing piece of a stream", "DELETE FROM stream WHERE first = (SELECT min(first) FROM stream WHERE first > 1)", "stream events of lock should go on with"],
    ["a missing first piece of a stream", "DELETE FROM stream WHERE first = 1", "stream events of lock should go on with 1, up to 300"],
    ["a missing last piece of a stream", "DELETE FROM stream WHERE last = 300", "up to 300"],
    ["a stream that nobody knows of", "DELETE FROM meta WHERE key = 'stream lock events'", "stream events of lock should go on with 0"],
    ["an altered piece of a stream", "UPDATE stream SET data = zeroblob(length(data)) WHERE first = 1", "stream events of lock was altered at 1"],
  ] as const) {
    test(`with ${what} are corrupt, for a reader and for check`, async () => {
      const { directory } = await makeStore();
      const database = new Database(join(directory, FILE));
      expect(database.run(statement).changes).toBe(1);
      database.close();
      const found = await contentsOf(directory);
      expect(found).toMatchObject({ code: "corrupt" });
      expect(JSON.stringify(found)).toContain(said);
      expect(await errorOf(() => checkStore(directory))).toMatchObject({ code: "corrupt" });
      expect(existsSync(join(directory, FILE))).toBe(true);
    });
  }
});

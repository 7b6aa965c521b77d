/** Folding the journal into the tables changes where data lies and nothing that a reader sees. */
import { afterEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { join } from "node:path";
import { checkStore } from "../../src/store/check.ts";
import { GroupPacker } from "../../src/store/codec.ts";
import { openStore } from "../../src/store/store.ts";
import { connectReadOnly } from "../../src/store/schema.ts";
import { readRecords, readStream, readStreamEnd } from "../../src/store/tables.ts";
import type { StoreBatch } from "../../src/store/types.ts";
import { Writer } from "../../src/store/writer.ts";
import { append, cleanUp, errorOf, later, openedStore, recordsOf, set, streamOf, temporaryDirectory, text, unset } from "./kit.ts";

afterEach(cleanUp);

/** A writer without its worker, on a fresh store. */
async function freshWriter() {
  const directory = temporaryDirectory();
  await (await openStore({ directory })).close();
  const path = join(directory, "lockd.sqlite");
  const writer = new Writer(path);
  let open = true;
  later(() => {
    if (open) writer.close();
  });
  const packer = new GroupPacker();
  return {
    directory,
    path,
    commit(batch: StoreBatch, namespace = "lock"): void {
      packer.add(namespace, batch);
      const group = packer.take();
      writer.commit(group);
      writer.committed(group);
    },
    /** Folds all that is pending, whatever it is worth. */
    foldAll(): void {
      while (writer.maintain("all"));
    },
    foldSlice(): void {
      writer.maintain("all");
    },
    close(): void {
      writer.close();
      open = false;
    },
  };
}

const records = (path: string): Record<string, string> => {
  const database = connectReadOnly(path);
  try {
    const entries = [...readRecords(database, path, "lock")].map(([key, value]) => [key, text(value)] as const);
    return Object.fromEntries(entries.sort(([one], [other]) => (one < other ? -1 : 1)));
  } finally {
    database.close();
  }
};

const stream = (path: string, fromId = 0): string[] => {
  const database = connectReadOnly(path);
  try {
    return [...readStream(database, path, { namespace: "lock", stream: "events", fromId })].map(
      (piece) => `${piece.firstId}-${piece.lastId}:${text(piece.data)}`,
    );
  } finally {
    database.close();
  }
};

describe("folding", () => {
  test("moves everything into the tables and empties the journal", async () => {
    const { directory, path, commit, foldAll, close } = await freshWriter();
    commit({ changes: [set("a", "1"), set("b", "2"), set("c", "3")] });
    commit({ changes: [unset("a"), set("b", "4"), unset("never")], appends: [append("events", 1, 1, "x"), append("events", 2, 3, "y")] });
    foldAll();
    close();
    expect(checkStore(directory)).toMatchObject({ journalChanges: 0, records: 2, streamPieces: 2 });
    expect(records(path)).toEqual({ b: "4", c: "3" });
    expect(stream(path)).toEqual(["1-1:x", "2-3:y"]);
    expect(stream(path, 2)).toEqual(["2-3:y"]);
  });

  test("and committing in any order shows what a plain map would show", async () => {
    const key = fc.constantFrom("a", "b", "c", "d");
    const change = fc.oneof(
      fc.record({ key, value: fc.string({ maxLength: 5 }) }).map(({ key: name, value }) => set(name, value)),
      key.map(unset),
    );
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.record({ kind: fc.constant("commit" as const), changes: fc.array(change, { maxLength: 4 }), pieces: fc.nat(3) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant("trim" as const), back: fc.nat(6) }) },
      { weight: 2, arbitrary: fc.constant({ kind: "fold" as const }) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
        const writer = await freshWriter();
        const model = new Map<string, string>();
        let pieces: string[] = [];
        let nextId = 1;
        for (const each of steps) {
          if (each.kind === "fold") writer.foldAll();
          else if (each.kind === "trim") {
            const throughId = Math.max(0, nextId - 1 - each.back);
            writer.commit({ changes: [], trims: [{ stream: "events", throughId }] });
            pieces = pieces.filter((piece) => Number(piece.split("-")[0]) > throughId);
          } else {
            const appends = Array.from({ length: each.pieces }, () => append("events", nextId, nextId++, "e"));
            writer.commit({ changes: each.changes, appends });
            for (const { key: name, value } of each.changes) {
              if (value === null) model.delete(name);
              else model.set(name, text(value));
            }
            pieces.push(...appends.map(({ firstId }) => `${firstId}-${firstId}:e`));
          }
          expect(records(writer.path)).toEqual(Object.fromEntries([...model].sort(([one], [other]) => (one < other ? -1 : 1))));
          // Whole rows only are trimmed, so a little more may stay, but nothing that should be there is missing.
          const found = stream(writer.path);
          expect(found.slice(found.length - pieces.length)).toEqual(pieces);
        }
        writer.close();
        checkStore(writer.directory);
      }),
      { numRuns: 40 },
    );
  });

  test("of a part of a journal row, then a restart, neither doubles nor loses a piece", async () => {
    const { directory, path, commit, foldSlice, close } = await freshWriter();
    const appends = Array.from({ length: 3_000 }, (_, index) => append("events", index + 1, index + 1, "e"));
    commit({ changes: appends.map(({ firstId }) => set(`k${firstId}`, "v")), appends });
    const expected = appends.map(({ firstId }) => `${firstId}-${firstId}:e`);
    // 3,000 records go first, in slices of at most 500; then a part of the pieces.
    for (let count = 0; count < 200 && checkStore(directory).streamPieces === 0; count++) foldSlice();
    expect(checkStore(directory)).toMatchObject({ journalChanges: 6_000, records: 3_000 });
    expect(stream(path)).toEqual(expected);
    close();
    const again = new Writer(path);
    while (again.maintain("all"));
    again.close();
    expect(stream(path)).toEqual(expected);
    expect(checkStore(directory)).toMatchObject({ journalChanges: 0, records: 3_000 });
  });

  test("trims a stream in its turn, although newer trims keep coming", async () => {
    const { directory, path, commit, foldAll, foldSlice, close } = await freshWriter();
    foldAll();
    let id = 0;
    for (let round = 1; round <= 600; round++) {
      const appends = Array.from({ length: 10 }, () => append("events", ++id, id, "e"));
      commit({ changes: [], appends, trims: [{ stream: "events", throughId: id - 100 }] });
      if (round % 100 === 0) foldSlice();
    }
    const folded = checkStore(directory).streamPieces;
    expect(folded).toBeGreaterThan(100);
    expect(folded).toBeLessThan(1_200);
    close();
    expect(stream(path).at(-1)).toBe("6000-6000:e");
    expect(stream(path).length).toBeGreaterThanOrEqual(100);
    expect(stream(path).length).toBeLessThan(200);
  });

  test("knows where a stream ends, in the journal, in the tables, and when it was never written", async () => {
    const { path, commit, foldAll } = await freshWriter();
    const end = (name: string): number | null => {
      const database = connectReadOnly(path);
      try {
        return readStreamEnd(database, path, { namespace: "lock", stream: name });
      } finally {
        database.close();
      }
    };
    expect(end("events")).toBeNull();
    commit({ changes: [], appends: [append("events", 5, 9, "x")] });
    expect(end("events")).toBe(9);
    foldAll();
    expect(end("events")).toBe(9);
    commit({ changes: [], appends: [append("events", 10, 12, "y")] });
    expect(end("events")).toBe(12);
    expect(end("other")).toBeNull();
  });
});

describe("a store under load", () => {
  test("folds by itself, keeps its log small, and loses nothing", async () => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    const namespace = store.namespace("lock");
    const value = new Uint8Array(300).fill(65);
    const expected: Record<string, string> = {};
    let eventId = 0;
    for (let round = 0; round < 120; round++) {
      await Promise.all(
        Array.from({ length: 200 }, async (_, index) => {
          const key = `k${(round * 37 + index) % 4_000}`;
          const keep = (round + index) % 3 !== 0;
          if (keep) expected[key] = text(value);
          else delete expected[key];
          eventId += 1;
          await namespace.commit({ changes: [{ key, value: keep ? value : null }], appends: [append("events", eventId, eventId, "event")] });
        }),
      );
    }
    await store.close();
    const report = checkStore(directory);
    expect(report.records).toBeGreaterThan(0);
    expect(report.streamPieces).toBeGreaterThan(0);
    expect(store.stats().walBytes).toBeLessThan(12 * 1024 * 1024);
    const again = (await openedStore(directory)).namespace("lock");
    expect(recordsOf(again)).toEqual(Object.fromEntries(Object.entries(expected).sort(([one], [other]) => (one < other ? -1 : 1))));
    expect(streamOf(again, "events")).toHaveLength(eventId);
  });

  test("refuses a stream that does not go on where it ended, before and after a restart", async () => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    await store.namespace("lock").commit({ changes: [], appends: [append("events", 1, 4, "x")] });
    expect(String(await errorOf(() => store.namespace("lock").commit({ changes: [], appends: [append("events", 6, 6, "y")] })))).toContain("goes on with 5, not with 6");
    await store.close();
    const again = (await openedStore(directory)).namespace("lock");
    expect(String(await errorOf(() => again.commit({ changes: [], appends: [append("events", 4, 5, "y")] })))).toContain("goes on with 5, not with 4");
    await again.commit({ changes: [], appends: [append("events", 5, 5, "y")] });
    expect(streamOf(again, "events")).toEqual(["1-4:x", "5-5:y"]);
  });
});

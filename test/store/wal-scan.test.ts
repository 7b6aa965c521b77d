/** Real write-ahead logs of SQLite, whole, torn and altered: what the scan must say of each. */
import { Database } from "bun:sqlite";
import { afterEach, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { scanWal } from "../../src/store/wal-scan.ts";
import { cleanUp, temporaryDirectory } from "./kit.ts";

afterEach(cleanUp);

const FRAME_BYTES = 24 + 4096;
const frameOffset = (frame: number): number => 32 + frame * FRAME_BYTES;

/** A log with `transactions` commits behind a complete earlier cycle, whose frames still lie behind them. */
function makeLog(transactions: number, { pageBytes = 4096, earlierCycle = true } = {}): Uint8Array {
  const path = join(temporaryDirectory(), "x.sqlite");
  const database = new Database(path);
  database.run(`PRAGMA page_size = ${pageBytes}`);
  database.run("PRAGMA journal_mode = WAL");
  database.run("PRAGMA wal_autocheckpoint = 0");
  database.run("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)");
  const insert = database.query("INSERT INTO t (b) VALUES (?)");
  if (earlierCycle) for (let index = 0; index < transactions * 3; index++) insert.run(new Uint8Array(1000).fill(1));
  database.run("PRAGMA wal_checkpoint(PASSIVE)");
  for (let index = 0; index < transactions; index++) insert.run(new Uint8Array(1000).fill(2));
  const log = new Uint8Array(readFileSync(`${path}-wal`));
  database.close();
  return log;
}

function flipped(log: Uint8Array, bit: number): Uint8Array {
  const copy = log.slice();
  const at = bit >> 3;
  copy[at] = (copy[at] ?? 0) ^ (1 << (bit & 7));
  return copy;
}

/** How many complete transactions the scan finds, -1 when it calls the log altered. */
function transactionsSeen(log: Uint8Array): number {
  const scan = scanWal(log);
  return scan.kind === "altered" ? -1 : commitFrames(log, scan.frames).length;
}

/** Those of the first `frames` frames that end a transaction. */
function commitFrames(log: Uint8Array, frames: number): number[] {
  const view = new DataView(log.buffer, log.byteOffset);
  return Array.from({ length: frames }, (_, frame) => frame).filter((frame) => view.getUint32(frameOffset(frame) + 4) !== 0);
}

describe("a whole log", () => {
  test("is told from the older frames that lie behind it", () => {
    const log = makeLog(10);
    const scan = scanWal(log);
    expect(scan.kind).toBe("whole");
    expect(transactionsSeen(log)).toBe(10);
    expect(log.length).toBeGreaterThan(frameOffset(30));
  });

  test("may be empty, missing, all zeros, or a header alone", () => {
    for (const log of [new Uint8Array(), new Uint8Array(31), new Uint8Array(32), new Uint8Array(100_000), makeLog(3).slice(0, 32)]) {
      expect(scanWal(log)).toMatchObject({ kind: "whole", frames: 0 });
    }
  });

  test("may have another page size, and zeros behind it", () => {
    const log = makeLog(6, { pageBytes: 1024, earlierCycle: false });
    const padded = new Uint8Array(log.length + 50_000);
    padded.set(log);
    expect(scanWal(padded)).toMatchObject({ kind: "whole", endBytes: log.length });
  });
});

describe("a torn log", () => {
  test("cut anywhere in its last transactions is never called altered, and ends at the last complete one", () => {
    const log = makeLog(12, { earlierCycle: false });
    const whole = scanWal(log);
    for (let lengthBytes = 32; lengthBytes < log.length; lengthBytes += 509) {
      const scan = scanWal(log.slice(0, lengthBytes));
      expect(scan.kind).not.toBe("altered");
      if (scan.kind !== "altered") expect(scan.endBytes).toBeLessThanOrEqual(lengthBytes);
    }
    if (whole.kind === "whole") expect(whole.endBytes).toBe(log.length);
  });

  test("with a bad frame in its last transaction ends before it", () => {
    const log = makeLog(10);
    const scan = scanWal(log);
    if (scan.kind !== "whole") throw new Error("the log is whole");
    const torn = scanWal(flipped(log, (scan.endBytes - 100) * 8));
    expect(torn).toMatchObject({ kind: "torn", frames: scan.frames - 1, endBytes: scan.endBytes - FRAME_BYTES });
  });

  test("with a last transaction whose commit frame was never written is torn, not whole", () => {
    const path = join(temporaryDirectory(), "x.sqlite");
    const database = new Database(path);
    database.run("PRAGMA journal_mode = WAL");
    database.run("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)");
    database.query("INSERT INTO t (b) VALUES (?)").run(new Uint8Array(40_000));
    const log = new Uint8Array(readFileSync(`${path}-wal`));
    database.close();
    const scan = scanWal(log.slice(0, log.length - FRAME_BYTES));
    expect(scan.kind).toBe("torn");
  });
});

describe("an altered log", () => {
  test("one flipped bit anywhere before the last two transactions is always found", () => {
    const log = makeLog(20);
    const scan = scanWal(log);
    if (scan.kind !== "whole") throw new Error("the log is whole");
    const thirdLast = commitFrames(log, scan.frames).at(-3) ?? 0;
    const endBytes = frameOffset(thirdLast + 1);
    fc.assert(
      fc.property(fc.integer({ min: 0, max: endBytes * 8 - 1 }), (bit) => {
        expect(scanWal(flipped(log, bit))).toMatchObject({ kind: "altered" });
      }),
      { numRuns: 150 },
    );
    // Every bit of the header and of one frame's header, where most of the special cases are.
    for (let bit = 0; bit < 32 * 8; bit++) expect(scanWal(flipped(log, bit)).kind).toBe("altered");
    for (const frame of [4, thirdLast]) {
      const first = frameOffset(frame) * 8;
      for (let bit = first; bit < first + 24 * 8; bit++) expect(scanWal(flipped(log, bit)).kind).toBe("altered");
    }
  });

  test("one flipped bit in the last two transactions is never taken for a whole log", () => {
    const log = makeLog(20);
    const scan = scanWal(log);
    if (scan.kind !== "whole") throw new Error("the log is whole");
    const start = (scan.endBytes - 2 * FRAME_BYTES) * 8;
    fc.assert(
      fc.property(fc.integer({ min: start, max: scan.endBytes * 8 - 1 }), (bit) => {
        const found = scanWal(flipped(log, bit));
        if (found.kind === "whole") expect(found.endBytes).toBeLessThan(scan.endBytes);
      }),
      { numRuns: 150 },
    );
  });

  test("names the frame and where it lies", () => {
    const log = makeLog(20);
    const found = scanWal(flipped(log, (frameOffset(3) + 24 + 7) * 8));
    expect(found).toMatchObject({ kind: "altered", frame: 3, offsetBytes: frameOffset(3) });
  });

  test("is what SQLite alone would have cut without a word", () => {
    const directory = temporaryDirectory();
    const path = join(directory, "x.sqlite");
    const database = new Database(path);
    database.run("PRAGMA journal_mode = WAL");
    database.run("PRAGMA wal_autocheckpoint = 0");
    database.run("CREATE TABLE t (a INTEGER PRIMARY KEY)");
    for (let index = 0; index < 50; index++) database.run("INSERT INTO t DEFAULT VALUES");
    const copy = join(directory, "copy.sqlite");
    const log = new Uint8Array(readFileSync(`${path}-wal`));
    writeFileSync(copy, readFileSync(path));
    writeFileSync(`${copy}-wal`, flipped(log, (frameOffset(10) + 2000) * 8));
    database.close();
    const damaged = new Database(copy);
    const rows = damaged.query<{ count: number }, []>("SELECT count(*) AS count FROM t").get()?.count ?? 0;
    damaged.close();
    expect(rows).toBeLessThan(50);
    expect(scanWal(flipped(log, (frameOffset(10) + 2000) * 8)).kind).toBe("altered");
  });
});

import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { closeSync, constants, mkdtempSync, openSync, readdirSync, readFileSync, readlinkSync, readSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LockdError } from "../../src/errors.ts";
import { type LogSink, openLogSink } from "../../src/observe/log-sink.ts";

let directory = "";
beforeEach(() => void (directory = mkdtempSync(join(tmpdir(), "lockd-log-"))));
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const lost = (lines: number, reason: string): string => `lost ${lines}: ${reason}\n`;
const open = (file: string, queueBytesMax?: number): LogSink =>
  openLogSink(queueBytesMax === undefined ? { file, lost } : { file, lost, queueBytesMax });

function thrownBy(work: () => unknown): LockdError {
  try {
    work();
  } catch (error) {
    if (error instanceof LockdError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

function linkOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return "";
  }
}

/** A FIFO whose read end is open, so that a sink can open it. */
function makeFifo(): { path: string; fd: number } {
  const path = join(directory, "fifo");
  expect(Bun.spawnSync(["mkfifo", path]).exitCode).toBe(0);
  return { path, fd: openSync(path, constants.O_RDONLY | constants.O_NONBLOCK) };
}

function readAvailable(fd: number): string {
  const bytes = Buffer.alloc(1 << 20);
  let text = "";
  for (;;) {
    try {
      const count = readSync(fd, bytes);
      if (count === 0) return text;
      text += bytes.toString("utf8", 0, count);
    } catch {
      return text;
    }
  }
}

describe("a file", () => {
  test("gets every line in order, after what it holds already", async () => {
    const file = join(directory, "log");
    writeFileSync(file, "old\n");
    const sink = open(file);
    const lines = Array.from({ length: 2000 }, (_, index) => `line ${index}\n`);
    for (const [index, line] of lines.entries()) {
      sink.write(line);
      if (index % 500 === 0) await sink.flush(1000);
    }
    await sink.flush(1000);
    expect(readFileSync(file, "utf8")).toBe(`old\n${lines.join("")}`);
  });

  test("is not readable by everybody", async () => {
    const file = join(directory, "log");
    open(file);
    expect(statSync(file).mode & 0o007).toBe(0);
  });

  test("is opened anew after a rotation, and no line is lost", async () => {
    const file = join(directory, "log");
    const sink = open(file);
    sink.write("one\n");
    await sink.flush(1000);
    renameSync(file, `${file}.1`);
    sink.write("two\n");
    await sink.flush(1000);
    sink.write("three\n");
    expect(sink.reopen()).toBe(true);
    sink.write("four\n");
    await sink.flush(1000);
    // a line that was not under way yet goes to the new file
    expect(readFileSync(`${file}.1`, "utf8")).toBe("one\ntwo\n");
    expect(readFileSync(file, "utf8")).toBe("three\nfour\n");
    expect(readdirSync("/proc/self/fd").filter((fd) => linkOf(fd).startsWith(directory))).toHaveLength(1);
  });

  test("that cannot be opened anew leaves the old one in use", async () => {
    const file = join(directory, "log");
    const sink = open(file);
    renameSync(file, `${file}.1`);
    expect(Bun.spawnSync(["mkdir", file]).exitCode).toBe(0);
    expect(() => sink.reopen()).toThrow("open log file");
    sink.write("on\n");
    await sink.flush(1000);
    expect(readFileSync(`${file}.1`, "utf8")).toBe("on\n");
  });

  test("is written at once when the process has no time left", () => {
    const file = join(directory, "log");
    const sink = open(file);
    sink.write("last\n");
    sink.flushNow();
    expect(readFileSync(file, "utf8")).toBe("last\n");
  });

  test.each([
    ["a directory", () => directory],
    ["in a missing directory", () => join(directory, "missing", "log")],
    ["a FIFO that nobody reads", () => (Bun.spawnSync(["mkfifo", join(directory, "f")]), join(directory, "f"))],
  ])("that is %s is a configuration error that names it", (_, path) => {
    const error = thrownBy(() => open(path()));
    expect(error.code).toBe("config");
    expect(error.message).toContain(path());
    expect(error.hint).toContain("--log-file");
  });
});

describe("a destination that takes nothing", () => {
  test("full disk: lines are dropped and counted, and the server is not disturbed", async () => {
    const sink = open("/dev/full");
    sink.write("one\ntwo\n");
    await sink.flush(1000);
    sink.write("three\n");
    await sink.flush(1000);
    sink.flushNow();
  });

  test("a reader that went away and comes back hears how many lines it missed", async () => {
    const { path, fd } = makeFifo();
    const sink = open(path);
    closeSync(fd);
    sink.write("one\ntwo\n");
    await sink.flush(1000);
    sink.write("three\n");
    await sink.flush(1000);
    const again = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    sink.write("four\n");
    await sink.flush(1000);
    expect(readAvailable(again)).toMatch(/^lost 3: EPIPE.*\nfour\n$/);
    sink.write("five\n");
    await sink.flush(1000);
    expect(readAvailable(again)).toBe("five\n");
    closeSync(again);
  });

  test("a reader that stopped costs lines once the queue is full, and gets the rest whole when it goes on", async () => {
    const { path, fd } = makeFifo();
    const sink = open(path, 100_000);
    const line = `${"x".repeat(999)}\n`;
    // a pipe holds 64 KiB: the rest waits in the queue, and beyond it is dropped
    for (let count = 0; count < 400; count += 1) {
      sink.write(line);
      if (count === 50) await sink.flush(1);
    }
    await sink.flush(50);
    let text = "";
    while (!text.includes("lost ")) {
      text += readAvailable(fd);
      sink.write(line);
      await sink.flush(50);
    }
    text += readAvailable(fd);
    const lines = text.split("\n").slice(0, -1);
    const droppedBefore = Number(/lost (\d+): the destination is too slow/.exec(text)?.[1]);
    expect(droppedBefore).toBeGreaterThan(100);
    expect(lines.filter((one) => !one.startsWith("lost ")).every((one) => one === line.trimEnd())).toBe(true);
    closeSync(fd);
  });

  test("flush gives up after its limit", async () => {
    const { path, fd } = makeFifo();
    const sink = open(path);
    sink.write(`${"x".repeat(200_000)}\n`);
    const startMs = performance.now();
    await sink.flush(30);
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(29);
    expect(readAvailable(fd).length).toBeGreaterThan(0);
    closeSync(fd);
  });

  test("a line that was torn by a failed write ends before the next one", async () => {
    const { path, fd } = makeFifo();
    const sink = open(path);
    sink.write(`${"x".repeat(100_000)}\n`);
    await sink.flush(30);
    // the pipe holds a part of the line; its rest fails when the reader goes
    const part = readAvailable(fd);
    expect(part).toMatch(/^x+$/);
    closeSync(fd);
    await sink.flush(1000);
    const again = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    sink.write("next\n");
    await sink.flush(1000);
    const text = readAvailable(again);
    expect(text).toMatch(/^\nlost 1: EPIPE.*\nnext\n$/);
    closeSync(again);
  });
});

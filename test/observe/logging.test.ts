import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LogLine } from "../../src/observe/log-format.ts";
import { colourWanted, LOG_LEVELS, loggerInto, openLogging } from "../../src/observe/logging.ts";

const levels = ["trace", "debug", "info", "warn", "error"] as const;

function collect(level: (typeof LOG_LEVELS)[number]): ReturnType<typeof loggerInto> & { lines: LogLine[] } {
  const lines: LogLine[] = [];
  return Object.assign(loggerInto((line) => lines.push(line), level), { lines });
}

describe("levels", () => {
  test.each([...LOG_LEVELS.entries()])("%i: with %s exactly that level and the more important ones are written", (index, level) => {
    const { logger, lines } = collect(level);
    for (const one of levels) logger[one]("x");
    const expected = levels.slice(index);
    expect(lines.map((line) => line.level)).toEqual(expected);
    expect(levels.filter((one) => logger.enabled(one))).toEqual(expected);
    expect(logger.enabled("silent")).toBe(false);
  });

  test("a changed level counts at once, also for loggers made before", () => {
    const root = loggerInto((line) => seen.push(line.msg), "warn");
    const seen: string[] = [];
    const child = root.logger.child({ plugin: "lock" });
    child.info("before");
    root.level = "debug";
    child.debug("after");
    expect(seen).toEqual(["after"]);
    expect(root.level).toBe("debug");
  });
});

describe("lines", () => {
  test("carry the fields of the logger and of the call, the call's last", () => {
    const { logger, lines } = collect("info");
    logger.child({ plugin: "lock", a: 1 }).child({ b: 2 }).info("x", { a: 3 });
    expect(lines[0]).toMatchObject({ msg: "x", fields: { plugin: "lock", a: 3, b: 2 } });
    logger.info("y");
    expect(lines[1]?.fields).toEqual({});
  });

  test("are never throttled, also when the clock is set back", () => {
    const { logger, lines } = collect("info");
    for (let count = 0; count < 100; count += 1) logger.info("same", { a: 1 });
    const nowMs = Date.now();
    for (let count = 0; count < 100; count += 1) {
      jest.setSystemTime(nowMs - count * 1000);
      logger.info("same", { a: 1 });
    }
    jest.setSystemTime();
    expect(lines).toHaveLength(200);
  });

  test("keep fields that consola has a meaning for", () => {
    const { logger, lines } = collect("info");
    logger.info("message", { message: "m", args: "a", level: 9, type: "t", tag: "g", date: "d", additional: "x\ny" });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ level: "info", msg: "message", fields: { message: "m", args: "a", level: 9, type: "t", additional: "x\ny" } });
    expect(lines[0]?.date).toBeInstanceOf(Date);
  });
});

test("colour is for terminals only, and not with NO_COLOR or a dumb one", () => {
  expect(colourWanted(true, {})).toBe(true);
  expect(colourWanted(true, { NO_COLOR: "" })).toBe(true);
  expect(colourWanted(true, { NO_COLOR: "1" })).toBe(false);
  expect(colourWanted(true, { TERM: "dumb" })).toBe(false);
  expect(colourWanted(false, {})).toBe(false);
});

describe("openLogging", () => {
  let directory = "";
  beforeEach(() => void (directory = mkdtempSync(join(tmpdir(), "lockd-logging-"))));
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  test("writes JSON or text lines to its file", async () => {
    for (const format of ["json", "text"] as const) {
      const file = join(directory, format);
      const logging = openLogging({ level: "info", format, file, paint: "plain" });
      logging.logger.info("ready", { pid: 7 });
      logging.logger.debug("not this");
      logging.level = "debug";
      logging.logger.debug("this");
      await logging.flush(1000);
      const lines = readFileSync(file, "utf8").trimEnd().split("\n");
      expect(lines).toHaveLength(2);
      if (format === "json") expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([{ msg: "ready", pid: 7 }, { msg: "this", level: "debug" }]);
      else expect(lines[0]).toMatch(/^\d{4}-\d\d-\d\dT\S+Z INFO {2}ready {18}pid=7$/);
    }
  });
});

import { expect, test } from "bun:test";
import { closeSync, constants, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkReadyFd, tellReadyFd } from "../../src/server/ready-fd.ts";

test("the descriptor gets a newline and is closed", () => {
  const directory = mkdtempSync(join(tmpdir(), "lockd-ready-"));
  const file = join(directory, "ready");
  const fd = openSync(file, "w");
  checkReadyFd(fd);
  expect(tellReadyFd(fd)).toBeNull();
  expect(readFileSync(file, "utf8")).toBe("\n");
  expect(() => closeSync(fd)).toThrow("EBADF");
  rmSync(directory, { recursive: true });
});

test("a descriptor that nobody reads is told, not thrown", () => {
  const fd = openSync("/dev/full", constants.O_WRONLY);
  expect(tellReadyFd(fd)).toContain("ENOSPC");
  expect(() => closeSync(fd)).toThrow("EBADF");
});

test("a descriptor that is closed, or a directory, is refused", () => {
  const fd = openSync(tmpdir(), constants.O_RDONLY);
  expect(() => checkReadyFd(fd)).toThrow(`descriptor ${fd} is not open for writing`);
  closeSync(fd);
  expect(() => checkReadyFd(fd)).toThrow("--ready-fd");
});

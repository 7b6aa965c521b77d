import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeClock } from "../../src/clock/fake.ts";
import { loggerInto } from "../../src/observe/logging.ts";
import { encodeAssignments, openNotifier, watchdogPeriodMs } from "../../src/observe/sd-notify.ts";
import { receiveDatagrams } from "./datagrams.ts";

let directory = "";
beforeEach(() => void (directory = mkdtempSync(join(tmpdir(), "lockd-notify-"))));
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function makeLog(): { logger: ReturnType<typeof loggerInto>["logger"]; lines: string[] } {
  const lines: string[] = [];
  return { logger: loggerInto((line) => lines.push(`${line.level} ${line.msg}`), "info").logger, lines };
}

describe.each([
  ["a path", () => join(directory, "notify.sock")],
  ["an abstract name", () => `@lockd-test-${process.pid}-${Date.now()}`],
])("a manager at %s", (_, name) => {
  test("hears each message as one datagram", async () => {
    const address = name();
    await using manager = await receiveDatagrams(address);
    const { logger, lines } = makeLog();
    const notifier = openNotifier(address, {}, logger);
    notifier.notify({ READY: "1", STATUS: "serve on 127.0.0.1:4050" });
    notifier.notify({ STOPPING: "1" });
    expect(await manager.next()).toBe("READY=1\nSTATUS=serve on 127.0.0.1:4050");
    expect(await manager.next()).toBe("STOPPING=1");
    expect(lines).toEqual([]);
    notifier.close();
  });
});

describe("the watchdog", () => {
  test("hears of the process at half of its time, while the process is well", async () => {
    const address = join(directory, "notify.sock");
    await using manager = await receiveDatagrams(address);
    const clock = new FakeClock();
    const notifier = openNotifier(address, { WATCHDOG_USEC: "20000000", WATCHDOG_PID: String(process.pid) }, makeLog().logger);
    let alive = true;
    notifier.startWatchdog(clock, () => alive);
    expect(await manager.next()).toBe("WATCHDOG=1");
    clock.advance(9_999);
    notifier.notify({ STATUS: "before" });
    clock.advance(1);
    alive = false;
    clock.advance(50_000);
    notifier.notify({ STATUS: "ill" });
    alive = true;
    clock.advance(10_000);
    expect([await manager.next(), await manager.next(), await manager.next(), await manager.next()]).toEqual([
      "STATUS=before",
      "WATCHDOG=1",
      "STATUS=ill",
      "WATCHDOG=1",
    ]);
    notifier.close();
    expect(clock.pending).toBe(0);
  });

  test("is for the process that it names, and off without a time", () => {
    expect(watchdogPeriodMs({ WATCHDOG_USEC: "3000000" }, 7)).toBe(3000);
    expect(watchdogPeriodMs({ WATCHDOG_USEC: "3000000", WATCHDOG_PID: "7" }, 7)).toBe(3000);
    expect(watchdogPeriodMs({ WATCHDOG_USEC: "3000000", WATCHDOG_PID: "8" }, 7)).toBeNull();
    for (const usec of [undefined, "", "0", "-1", "x", "1.5"]) expect(watchdogPeriodMs({ WATCHDOG_USEC: usec }, 7)).toBeNull();
  });
});

test("a value cannot begin an assignment of its own", () => {
  expect(encodeAssignments({ STATUS: "fine\nREADY=1", X: "" })).toBe("STATUS=fine READY=1\nX=");
});

test("a manager that is not there is logged once, and again after it was", async () => {
  const address = join(directory, "gone.sock");
  const { logger, lines } = makeLog();
  const notifier = openNotifier(address, {}, logger);
  notifier.notify({ READY: "1" });
  notifier.notify({ STATUS: "x" });
  expect(lines).toEqual(["warn service-manager-unreachable"]);
  {
    await using manager = await receiveDatagrams(address);
    notifier.notify({ STATUS: "y" });
    expect(await manager.next()).toBe("STATUS=y");
  }
  rmSync(address, { force: true });
  notifier.notify({ STATUS: "z" });
  expect(lines).toHaveLength(2);
  notifier.close();
});

test.each(["relative", "vsock:2:1234", "@", "", `/${"x".repeat(108)}`])("the address %p is a configuration error", (socket) => {
  expect(() => openNotifier(socket, {}, makeLog().logger)).toThrow("read NOTIFY_SOCKET");
});

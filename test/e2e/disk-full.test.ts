/** A full disk: nothing is promised, everybody is told, and with room the service goes on by itself. */
import { afterEach, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { cleanUp } from "../chaos/cleanup.ts";
import { fill, memoryDisk } from "../chaos/disks.ts";
import { readLedger, unlockedTokens, violations } from "../chaos/ledger.ts";
import { client, directory, load, restarted, server } from "../chaos/world.ts";
import { eventually, type TestServer } from "./kit.ts";

afterEach(cleanUp);

const ready = async (from: TestServer): Promise<{ status: number; body: string }> => {
  const response = await fetch(`http://${from.ready.http}/readyz`);
  return { status: response.status, body: await response.text() };
};

const logged = (from: TestServer, msg: string): string[] => from.log.filter((line) => line.includes(`"msg":"${msg}"`));

/** Objects with the tokens of their holders. */
const held = (tickets: readonly Record<string, unknown>[]): [unknown, unknown][] =>
  tickets.filter(({ state }) => state === "locked").map(({ object, token }): [unknown, unknown] => [object, token]);

describe("a server whose disk is full", () => {
  test("says so everywhere, lets clients wait until their deadline, and serves again by itself, with every lock where it was", async () => {
    const disk = memoryDisk("8m");
    const ledger = join(directory(), "ledger");
    const current = await server({ directory: join(disk, "data"), http: "127.0.0.1:0" });
    const keeper = await client(current.address);
    const long = await keeper.lock("long", { duration: 120_000, detached: true });
    const options = { server: current.address, ledger, objects: ["red", "green"], holdMsMax: 5, waitMs: 1_500, durationMs: 1_500, unlockDurationMs: 500 };
    const working = load({ ...options, name: "working", loops: 6 });
    await eventually("clients work", () => readLedger(ledger).length > 50);
    const ballast = fill(disk);
    await eventually("the server notices", () => logged(current, "disk-full").length > 0);

    expect(await ready(current)).toEqual({ status: 503, body: expect.stringMatching(/disk.* full/) });
    const status = await current.run(["status", "--json"]);
    expect(status.code).toBe(69);
    expect(JSON.parse(status.stdout)).toMatchObject({ ready: false, reason: expect.stringMatching(/disk.* full/) });
    expect((await current.run(["status"])).stdout).toMatch(/not ready: the disk.* full/);
    const refused = await current.run(["lock", "another", "--wait", "1s"]);
    expect(refused.stdout).toBe("");
    expect([69, 75]).toContain(refused.code);
    // what is durable can be looked at all the while
    expect((await current.list("long")).map(({ token }) => token)).toEqual([long.token]);
    expect((await ready(current)).status).toBe(503);
    const during = readLedger(ledger);

    const waiter = current.spawn(["lock", "patient", "--wait", "60s"]);
    rmSync(ballast);
    await eventually("the server is ready again", async () => (await ready(current)).status === 200);
    expect(logged(current, "disk-room").length).toBeGreaterThan(0);
    expect(await waiter.exited).toBe(0);
    await eventually("clients work again", () => readLedger(ledger).length > during.length + 100);
    const report = await working.finish();
    expect(violations(readLedger(ledger))).toEqual([]);
    expect(Object.keys(report.refused).filter((code) => !["cancelled", "timedout", "unavailable"].includes(code))).toEqual([]);
    expect((await current.list("long")).map(({ token }) => token)).toEqual([long.token]);

    await current.kill();
    const again = await restarted(current);
    const unlocked = unlockedTokens(readLedger(ledger));
    const tickets = await again.list();
    expect(tickets.filter(({ token }) => typeof token === "number" && unlocked.has(token))).toEqual([]);
    expect(tickets.map(({ token }) => token)).toContain(long.token);
  }, 60_000);

  test("shows and acknowledges nothing that a kill -9 at that moment would lose", async () => {
    const disk = memoryDisk("8m");
    const ledger = join(directory(), "ledger");
    let current = await server({ directory: join(disk, "data") });
    const options = { server: current.address, ledger, objects: ["red", "green"], holdMsMax: 5, waitMs: 30_000, durationMs: 30_000, unlockDurationMs: 500 };
    const working = load({ ...options, name: "working", loops: 6 });
    await eventually("clients work", () => readLedger(ledger).length > 50);
    const ballast = fill(disk);
    await eventually("the server notices", () => logged(current, "disk-full").length > 0);
    const shown = held(await current.list());
    await current.kill();
    const told = readLedger(ledger);
    rmSync(ballast);
    working.process.kill("SIGSTOP");
    current = await restarted(current);
    const unlocked = unlockedTokens(told);
    expect(held(await current.list())).toEqual(shown);
    working.process.kill("SIGCONT");
    expect((await current.list()).filter(({ token }) => typeof token === "number" && unlocked.has(token))).toEqual([]);
    await eventually("clients work again", () => readLedger(ledger).length > told.length + 50);
    const report = await working.finish();
    expect(violations(readLedger(ledger))).toEqual([]);
    expect(report.lost).toEqual({});
  }, 60_000);
});

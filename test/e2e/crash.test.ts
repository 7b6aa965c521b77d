/** A server that is killed, or stopped in good order, again and again while clients work under its locks. */
import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { cleanUp } from "../chaos/cleanup.ts";
import { heldEntries, largestToken, type LedgerEntry, readLedger, unlockedTokens, violations } from "../chaos/ledger.ts";
import { total } from "../chaos/load.ts";
import { client, directory, load, restarted, server, withFault } from "../chaos/world.ts";
import { eventually, type TestServer } from "./kit.ts";

afterEach(cleanUp);

const OBJECTS = ["red", "green", "blue"];

interface Listed {
  object: string;
  state: string;
  token: number | undefined;
  session: string;
}

async function listed(from: TestServer): Promise<Listed[]> {
  return (await from.list()).map((ticket) => {
    const { object, state, token, holder } = ticket;
    const session = typeof holder === "object" && holder !== null && "session" in holder ? String(holder.session) : "";
    return { object: String(object), state: String(state), token: typeof token === "number" ? token : undefined, session };
  });
}

/**
 * What must hold of the tickets that a server knows right after it came back. `before`: what clients had
 * been told when the last one ended; `after`: also what they did with the new one.
 */
function judgeTickets(tickets: readonly Listed[], before: readonly LedgerEntry[], after: readonly LedgerEntry[]): string[] {
  const found: string[] = [];
  const known = new Set(tickets.map(({ token }) => token));
  const left = new Set(after.filter(({ event }) => event === "leave").map(({ token }) => token));
  for (const { object, token } of heldEntries(before)) {
    if (!known.has(token) && !left.has(token)) found.push(`${object}: token ${token} was granted, and is not known`);
  }
  const unlocked = unlockedTokens(before);
  const seen = new Set<string>();
  for (const { object, state, token, session } of tickets) {
    if (token !== undefined && unlocked.has(token)) found.push(`${object}: token ${token} was given back, and is ${state} again`);
    const key = `${session} ${object}`;
    if (state !== "unlocking" && seen.has(key)) found.push(`${object}: session ${session} has two tickets`);
    seen.add(key);
  }
  for (const object of OBJECTS) {
    const holders = tickets.filter((ticket) => ticket.object === object && (ticket.state === "locked" || ticket.state === "unlocking"));
    if (holders.length > 1) found.push(`${object}: ${holders.length} holders`);
  }
  return found;
}

describe("kill -9 of the server under load", () => {
  test(
    "50 times: no lock has two holders, tokens rise, an idle holder keeps its lock, and what was given back stays so",
    async () => {
      const ledger = join(directory(), "ledger");
      let current = await server();
      const options = { server: current.address, ledger, objects: OBJECTS, loops: 3, holdMsMax: 30, waitMs: 20_000, durationMs: 20_000, unlockDurationMs: 1_000 };
      const loads = ["one", "two"].map((name) => load({ ...options, name }));
      const idle = await client(current.address, { name: "idle" });
      const kept = await idle.lock("kept", { duration: 20_000 });
      const found: string[] = [];
      for (let round = 0; round < 50; round++) {
        const before = readLedger(ledger).length;
        // in two of five rounds the clients come back to work, else the server dies while they still knock
        if (round % 5 < 2) await eventually("clients work", () => readLedger(ledger).length > before + 8);
        await Bun.sleep(Math.random() * 60);
        await current.kill();
        const entries = readLedger(ledger);
        // the slower the disk, the longer a moment in which something was decided and is not durable
        const slow = round % 10 === 0 ? { prefix: withFault("pwrite64", "delay_enter=20000") } : {};
        current = await restarted(current, slow);
        found.push(...judgeTickets(await listed(current), entries, readLedger(ledger)));
      }
      expect(kept.signal.aborted).toBe(false);
      expect((await listed(current)).filter(({ object }) => object === "kept")).toMatchObject([{ token: kept.token, state: "locked" }]);
      await kept.release();
      const report = total(await Promise.all(loads.map((one) => one.finish())));
      const entries = readLedger(ledger);
      expect([...found, ...violations(entries)]).toEqual([]);
      expect(report).toMatchObject({ lost: {}, releaseErrors: {} });
      // the end of the load cancels who waits; nothing else was refused, a duplicate least of all
      expect(Object.keys(report.refused).filter((code) => code !== "cancelled")).toEqual([]);
      expect(report.entered).toBeGreaterThan(40);
      expect(await listed(current)).toEqual([]);
      const next = await idle.lock("red");
      expect(next.token).toBeGreaterThan(largestToken(entries));
    },
    120_000,
  );

  test("a client that died with it keeps others out for the rest of its lease and grace, and no longer", async () => {
    const ledger = join(directory(), "ledger");
    let current = await server();
    const options = { server: current.address, ledger, objects: ["red"], loops: 1, waitMs: 20_000, durationMs: 1_500, unlockDurationMs: 500 };
    const doomed = load({ ...options, name: "doomed", holdMsMax: 0, holdMs: 60_000 });
    await eventually("the lock is held", () => readLedger(ledger).length > 0);
    const heirs = load({ ...options, name: "heir", loops: 3, holdMsMax: 5 });
    await doomed.kill();
    await current.kill();
    current = await restarted(current);
    await eventually("the lock goes on", () => readLedger(ledger).filter(({ event }) => event === "enter").length > 20);
    await heirs.finish();
    expect(violations(readLedger(ledger), { ownersMayBeDead: true })).toEqual([]);
  }, 60_000);
});

describe("a server in a crash loop", () => {
  test("neither shortens a lease by its restarts nor prolongs it", async () => {
    let current = await server();
    const startedMs = performance.now();
    expect((await current.run(["lock", "object", "--duration", "2s", "--unlock-duration", "500ms"])).code).toBe(0);
    let restarts = 0;
    let freeMs = 0;
    // a lease that each start began anew would never end
    while (freeMs === 0 && restarts < 100) {
      await Bun.sleep(150);
      await current.kill();
      current = await restarted(current);
      restarts += 1;
      if ((await listed(current)).length === 0) freeMs = performance.now() - startedMs;
    }
    expect(restarts).toBeGreaterThan(2);
    expect(restarts).toBeLessThan(100);
    expect(freeMs).toBeGreaterThan(2_400);
  }, 60_000);
});

describe("SIGTERM of the server under load", () => {
  test("ends with 0 each time, and after the restart everything goes on with the same tokens", async () => {
    const ledger = join(directory(), "ledger");
    let current = await server();
    const options = { server: current.address, ledger, objects: OBJECTS, loops: 4, holdMsMax: 30, waitMs: 20_000, durationMs: 20_000, unlockDurationMs: 1_000 };
    const working = load({ ...options, name: "working" });
    const idle = await client(current.address);
    const kept = await idle.lock("kept", { duration: 20_000 });
    const found: string[] = [];
    for (let round = 0; round < 5; round++) {
      const before = readLedger(ledger).length;
      await eventually("clients work", () => readLedger(ledger).length > before + 20);
      expect(await current.stop()).toBe(0);
      const entries = readLedger(ledger);
      current = await restarted(current);
      found.push(...judgeTickets(await listed(current), entries, readLedger(ledger)));
    }
    await eventually("the idle client is back", async () => (await listed(current)).some(({ token }) => token === kept.token));
    expect(kept.lost).toBe(null);
    await kept.release();
    const report = await working.finish();
    expect([...found, ...violations(readLedger(ledger))]).toEqual([]);
    expect(report).toMatchObject({ lost: {}, releaseErrors: {} });
    expect(Object.keys(report.refused).filter((code) => code !== "cancelled")).toEqual([]);
    expect(await listed(current)).toEqual([]);
  }, 60_000);
});

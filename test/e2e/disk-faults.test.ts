/** A disk that fails, and one that is slow: what was promised stands, and nobody waits for it in vain. */
import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { cleanUp } from "../chaos/cleanup.ts";
import { heldEntries, readLedger, unlockedTokens, violations } from "../chaos/ledger.ts";
import { client, directory, load, restarted, server, withFault } from "../chaos/world.ts";
import { eventually, type TestServer } from "./kit.ts";

afterEach(cleanUp);

function errors(from: TestServer): { msg: string; error: string }[] {
  return from.log.filter((line) => line.includes('"level":"error"')).map((line): { msg: string; error: string } => JSON.parse(line));
}

describe("a disk that fails", () => {
  for (const [what, calls, fault] of [
    ["a sync", "fsync,fdatasync", "error=EIO:when=60+"],
    ["a write", "pwrite64", "error=EIO:when=300+"],
  ] as const) {
    test(`in ${what} ends the server with one clear line and exit code 1; with a sound disk everything that was told is there`, async () => {
      const ledger = join(directory(), "ledger");
      const failing = await server({ prefix: withFault(calls, fault) });
      const options = { server: failing.address, ledger, objects: ["red", "green"], holdMsMax: 20, waitMs: 30_000, durationMs: 30_000, unlockDurationMs: 500 };
      const working = load({ ...options, name: "working", loops: 4 });
      expect(await failing.process.exited).toBe(1);
      const said = errors(failing).filter(({ msg }) => msg === "failed");
      expect(said).toHaveLength(1);
      expect(said[0]?.error).toMatch(/write.*(I\/O|IOERR)/);
      const told = readLedger(ledger);
      const current = await restarted(failing);
      const tickets = await current.list();
      const known = new Set(tickets.filter(({ state }) => state === "locked").map(({ token }) => token));
      expect(heldEntries(told).filter(({ token }) => !known.has(token))).toEqual([]);
      const unlocked = unlockedTokens(told);
      expect(tickets.filter(({ token }) => typeof token === "number" && unlocked.has(token))).toEqual([]);
      await eventually("clients go on", () => readLedger(ledger).length > told.length + 30);
      expect(await working.finish()).toMatchObject({ lost: {} });
      expect(violations(readLedger(ledger))).toEqual([]);
    }, 60_000);
  }
});

describe("a disk that takes 1 s for a sync", () => {
  test("delays the answer for as long, while the server still says how it is and keeps its clients; listings wait for the disk", async () => {
    const slow = await server({ prefix: withFault("fsync,fdatasync", "delay_enter=1000000:when=40+") });
    const asking = await client(slow.address);
    // the disk is quick at first: until it is not
    const locks = [];
    let tookMs = 0;
    while (tookMs < 900) {
      const startedMs = performance.now();
      locks.push(await asking.lock(`object-${locks.length}`, { wait: 60_000, duration: 60_000 }));
      tookMs = performance.now() - startedMs;
    }
    expect(locks.length).toBeGreaterThan(3);
    const session = asking.session;

    // answered when nothing is under way to the disk, so that what follows waits for a sync of its own
    await Array.fromAsync(asking.list());
    let acknowledgedMs = Number.POSITIVE_INFINITY;
    const askedMs = performance.now();
    const last = asking.lock("last", { wait: 60_000, duration: 60_000 }).then((lock) => {
      acknowledgedMs = performance.now() - askedMs;
      return lock;
    });
    // a listing shows nothing that a crash could undo
    const listing = Array.fromAsync(asking.list("last")).then((tickets) => ({ afterMs: performance.now() - askedMs, tickets }));
    // STATUS is answered at once, as is each PING, without which the client would give the connection up
    let answered = 0;
    while (acknowledgedMs === Number.POSITIVE_INFINITY) {
      expect((await asking.status()).ready).toBe(true);
      answered += 1;
      await Bun.sleep(50);
    }
    expect(acknowledgedMs).toBeGreaterThan(950);
    expect(answered).toBeGreaterThan(10);
    expect((await last).lost).toBe(null);
    const { afterMs, tickets } = await listing;
    expect(tickets).toMatchObject([{ object: "last", state: "locked" }]);
    expect(afterMs).toBeGreaterThan(950);
    expect(asking.session).toBe(session);
    expect(locks.map(({ lost }) => lost)).toEqual(locks.map(() => null));
  }, 60_000);
});

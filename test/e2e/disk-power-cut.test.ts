/**
 * A power cut: what the disk holds at that moment, nothing else, has every lock, release and token that
 * a client was told of.
 */
import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { cleanUp } from "../chaos/cleanup.ts";
import { ImageDisk } from "../chaos/disks.ts";
import { heldEntries, largestToken, type LedgerEntry, readLedger, unlockedTokens } from "../chaos/ledger.ts";
import { client, directory, load, restarted, server, withFault } from "../chaos/world.ts";
import { eventually, type TestServer } from "./kit.ts";

afterEach(cleanUp);

const OBJECTS = ["red", "green", "blue", "grey"];

function workers(address: string, ledger: string): void {
  const options = { server: address, ledger, objects: OBJECTS, holdMsMax: 40, waitMs: 60_000, durationMs: 60_000, unlockDurationMs: 1_000 };
  for (const name of ["one", "two"]) load({ ...options, name, loops: 4 });
}

/** What a server that starts from the disk does not know although a client was told so. */
async function missing(disk: ImageDisk, told: readonly LedgerEntry[]): Promise<string[]> {
  const found: string[] = [];
  const survivor = await server({ directory: join(disk.path, "data") });
  const tickets = await survivor.list();
  const known = new Set(tickets.filter(({ state }) => state === "locked").map(({ token }) => token));
  for (const { object, token } of heldEntries(told)) if (!known.has(token)) found.push(`${object} is not held with token ${token}`);
  const unlocked = unlockedTokens(told);
  for (const { object, token } of tickets) {
    if (typeof token === "number" && unlocked.has(token)) found.push(`${String(object)} is held with token ${token}, which was given back`);
  }
  const most = largestToken(told);
  const asking = await client(survivor.address);
  const next = await asking.lock("another");
  if (next.token <= most) found.push(`a new lock gets token ${next.token}, and ${most} was given before`);
  await asking.close();
  await survivor.kill();
  return found;
}

/** Resolves when no thread of the process can do anything more. */
async function stop(target: TestServer): Promise<void> {
  target.signal("SIGSTOP");
  await eventually("the server stands still", async () => {
    const stat = await Bun.file(`/proc/${target.ready.pid}/stat`).text();
    return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
  });
}

async function progress(ledger: string, entries: number): Promise<void> {
  const before = readLedger(ledger).length;
  await eventually("clients work", () => readLedger(ledger).length >= before + entries);
}

describe("after a power cut", () => {
  test("right after kill -9, every lock, release and token that was told is there", async () => {
    const disk = ImageDisk.create();
    const ledger = join(directory(), "ledger");
    let current = await server({ directory: join(disk.path, "data") });
    workers(current.address, ledger);
    for (let round = 0; round < 3; round++) {
      await progress(ledger, 100);
      await current.kill();
      const cut = disk.afterPowerCut();
      expect(await missing(cut, readLedger(ledger))).toEqual([]);
      current = await restarted(current);
    }
  }, 60_000);

  test("at any moment of a server under load, too", async () => {
    const disk = ImageDisk.create();
    const ledger = join(directory(), "ledger");
    const current = await server({ directory: join(disk.path, "data") });
    workers(current.address, ledger);
    for (let round = 0; round < 5; round++) {
      await progress(ledger, 20 + Math.floor(Math.random() * 60));
      await stop(current);
      const cut = disk.afterPowerCut();
      const told = readLedger(ledger);
      current.signal("SIGCONT");
      expect(await missing(cut, told)).toEqual([]);
    }
  }, 60_000);

  test("of a disk whose syncs do nothing, this way of looking finds what is missing", async () => {
    const disk = ImageDisk.create();
    const ledger = join(directory(), "ledger");
    const start = { directory: join(disk.path, "data") };
    // made and synced in good order, so that only what follows is at stake
    await (await server(start)).stop();
    const current = await server({ ...start, prefix: withFault("fsync,fdatasync", "retval=0") });
    workers(current.address, ledger);
    await progress(ledger, 100);
    await current.kill();
    expect(await missing(disk.afterPowerCut(), readLedger(ledger))).toContainEqual(expect.stringMatching(/a new lock gets token \d+, and \d+ was given before/));
  }, 60_000);
});

/** One altered byte in any file of a data directory: the server says so and stays away, or nothing is different. */
import { afterEach, describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { lockd, TestServer } from "../e2e/kit.ts";
import { cleanUp } from "./cleanup.ts";
import { client, directory, server } from "./world.ts";

afterEach(cleanUp);

const SERVERS_AT_ONCE = 4;

type State = Record<string, unknown>[];

/** What of the tickets must survive: everything but how old they are. */
const essence = (tickets: State): State =>
  tickets.map(({ object, ticket, state, mode, token, value }) => ({ object, ticket, state, mode, token, value }));

/** A directory as kill -9 leaves it, with locks in the tables, in the journal and in the write-ahead log. */
async function sample(): Promise<{ files: string; state: State; lastToken: number }> {
  const data = directory();
  const first = await server({ directory: data });
  const holder = await client(first.address);
  for (let index = 0; index < 12; index++) await holder.lock(`early-${index}`, { duration: 3_600_000, detached: true, value: "v".repeat(500) });
  // a clean stop writes the log back into the database
  await holder.close();
  expect(await first.stop()).toBe(0);
  const second = await server({ directory: data });
  const again = await client(second.address);
  const handles: string[] = [];
  for (let index = 0; index < 8; index++) handles.push((await again.lock(`late-${index}`, { duration: 3_600_000, detached: true })).handle);
  for (const handle of handles.slice(0, 3)) await again.unlockHandle(handle);
  const { token } = await again.lock("newest", { duration: 3_600_000, detached: true });
  // Damage to the last two transactions looks like the end of a write that a crash cut short, and is
  // cut off: so the last ones here change nothing that matters.
  for (let turn = 0; turn < 4; turn++) await again.renewHandle(handles[5] ?? "");
  await again.close();
  const state = essence(await second.list());
  await second.kill();
  return { files: data, state, lastToken: token };
}

/** Tries the directory with one byte changed: `refused`, `same`, or what is wrong. */
async function verdict(files: string, name: string, offset: number, expected: { state: State; lastToken: number }): Promise<string> {
  const copy = join(directory(), "data");
  mkdirSync(copy, { mode: 0o700 });
  for (const file of readdirSync(files)) copyFileSync(join(files, file), join(copy, file));
  const bytes = readFileSync(join(copy, name));
  bytes[offset] = (bytes[offset] ?? 0) ^ (1 + Math.floor(Math.random() * 255));
  writeFileSync(join(copy, name), bytes);
  const where = `${name} at ${offset}`;
  let started: TestServer;
  try {
    started = await TestServer.start({ directory: copy });
  } catch (error) {
    const text = String(error);
    const [, code, output = ""] = /ended with (\d+):\n([\s\S]*)/.exec(text) ?? [];
    return code === "65" && /^lockd: .{20,}/m.test(output) ? "refused" : `${where}: ${text}`;
  }
  try {
    const found = essence(await started.list());
    if (!Bun.deepEquals(found, expected.state)) return `${where}: other locks: ${JSON.stringify(found)}`;
    const next = await lockd(["lock", "next", "--json"], { env: { LOCKD_CONNECT: started.address } });
    const { token }: { token: number } = JSON.parse(next.stdout);
    return token > expected.lastToken ? "same" : `${where}: token ${token} is given again`;
  } finally {
    await started.kill();
  }
}

/** Offsets all over a file, more of them where its structure is. */
function offsets(sizeBytes: number, usedBytes: number): number[] {
  const spread = Array.from({ length: 12 }, () => Math.floor(Math.random() * usedBytes));
  const head = Array.from({ length: 4 }, () => Math.floor(Math.random() * Math.min(sizeBytes, 120)));
  return [...spread, ...head].filter((offset) => offset < sizeBytes);
}

describe("one altered byte", () => {
  test("in each file of the data directory ends the start with 65 and a sentence, or leaves every lock and token as it was", async () => {
    const { files, ...expected } = await sample();
    const names = readdirSync(files).sort();
    expect(names).toEqual(["lock", "lockd.sqlite", "lockd.sqlite-shm", "lockd.sqlite-wal"]);
    const verdicts: string[] = [];
    for (const name of names) {
      const bytes = readFileSync(join(files, name));
      const usedBytes = bytes.findLastIndex((byte) => byte !== 0) + 1;
      const all = offsets(bytes.length, usedBytes);
      // a few servers at a time
      for (let first = 0; first < all.length; first += SERVERS_AT_ONCE) {
        const some = all.slice(first, first + SERVERS_AT_ONCE);
        verdicts.push(...(await Promise.all(some.map((offset) => verdict(files, name, offset, expected)))));
      }
    }
    expect(verdicts.filter((one) => one !== "refused" && one !== "same")).toEqual([]);
    expect(verdicts).toContain("refused");
    expect(verdicts).toContain("same");
  }, 120_000);

  test("is found by store check, which names what was altered and ends with 65", async () => {
    const { files } = await sample();
    const path = join(files, "lockd.sqlite");
    const bytes = readFileSync(path);
    // one of these places may be left from a page that was rearranged, but not all of them
    let places = 0;
    for (let at = bytes.indexOf("v".repeat(500)); at >= 0; at = bytes.indexOf("v".repeat(500), at + 500)) {
      bytes[at] = "w".charCodeAt(0);
      places += 1;
    }
    expect(places).toBeGreaterThan(0);
    writeFileSync(path, bytes);
    const checked = await lockd(["store", "check", "--data", files]);
    expect(checked).toMatchObject({ code: 65, stdout: "" });
    expect(checked.stderr).toMatch(/^lockd: .*altered/);
  }, 60_000);
});

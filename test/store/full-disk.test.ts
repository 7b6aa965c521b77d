/** A full disk refuses, keeps what it acknowledged, and is no more than a pause. */
import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkStore } from "../../src/store/check.ts";
import { openStore } from "../../src/store/store.ts";
import { append, cleanUp, errorOf, later, openedStore, recordsOf, set, streamOf, temporaryDirectory } from "./kit.ts";

afterEach(cleanUp);

function smallDisk(size: string): string {
  const mount = join(temporaryDirectory(), "mount");
  mkdirSync(mount);
  run("mount", "-t", "tmpfs", "-o", `size=${size}`, "tmpfs", mount);
  later(() => run("umount", mount));
  return mount;
}

function run(...words: string[]): void {
  const ended = Bun.spawnSync(words, { stderr: "pipe" });
  if (ended.exitCode !== 0) throw new Error(`${words.join(" ")}: ${ended.stderr.toString()}`);
}

/** Fills what is free, in one file, which is its path. */
function ballast(mount: string): string {
  const { bavail, bsize } = statfsSync(mount);
  const path = join(mount, "ballast");
  writeFileSync(path, new Uint8Array(bavail * bsize));
  return path;
}

describe("a full disk", () => {
  test("refuses with overflow, retryable; all that was acknowledged stays; it goes on when there is room", async () => {
    const mount = smallDisk("2m");
    const directory = join(mount, "data");
    const store = await openedStore(directory);
    const namespace = store.namespace("lock");
    const expected: Record<string, string> = {};
    const value = "v".repeat(20_000);
    let refusal: unknown = null;
    for (let index = 0; index < 1_000 && refusal === null; index++) {
      try {
        await namespace.commit({ changes: [set(`k${index}`, value)], appends: [append("events", index + 1, index + 1, "e")] });
        expected[`k${index}`] = value;
      } catch (error) {
        refusal = error;
      }
    }
    expect(refusal).toMatchObject({ code: "overflow", retryable: true, exitCode: 73 });
    const count = Object.keys(expected).length;
    expect(count).toBeGreaterThan(5);
    const sorted = Object.fromEntries(Object.entries(expected).sort(([one], [other]) => (one < other ? -1 : 1)));
    expect(recordsOf(namespace)).toEqual(sorted);
    expect(streamOf(namespace, "events")).toHaveLength(count);

    // Still full: still refused, still readable, for a fresh opener as well.
    expect(await errorOf(() => namespace.commit({ changes: [set("more", value)] }))).toMatchObject({ code: "overflow" });
    await store.close();
    run("mount", "-o", "remount,size=16m", mount);
    const again = await openedStore(directory);
    expect(recordsOf(again.namespace("lock"))).toEqual(sorted);
  });

  test("that gets room again takes commits again without a restart, and goes on where the stream really ends", async () => {
    const mount = smallDisk("3m");
    const directory = join(mount, "data");
    const store = await openedStore(directory);
    const namespace = store.namespace("lock");
    await namespace.commit({ changes: [set("before", "1")], appends: [append("events", 1, 1, "a")] });
    const file = ballast(mount);
    const large = "v".repeat(200_000);
    let accepted = 1;
    const refusals: unknown[] = [];
    for (let index = 0; index < 30 && refusals.length === 0; index++) {
      const id = accepted + 1;
      await namespace.commit({ changes: [set("large", `${id}${large}`)], appends: [append("events", id, id, "b")] }).then(
        () => (accepted = id),
        (error: unknown) => refusals.push(error),
      );
    }
    expect(refusals).toMatchObject([{ code: "overflow" }]);
    rmSync(file);
    run("mount", "-o", "remount,size=32m", mount);
    // The refused id was never written, so the stream goes on with it.
    await namespace.commit({ changes: [set("after", "2")], appends: [append("events", accepted + 1, accepted + 1, "c")] });
    expect(streamOf(namespace, "events").at(-1)).toBe(`${accepted + 1}-${accepted + 1}:c`);
    // Enough for folding and checkpoints to happen on the same connection.
    for (let index = 0; index < 40; index++) await namespace.commit({ changes: [set(`k${index % 7}`, large)] });
    await store.close();
    expect(checkStore(directory).records).toBeGreaterThan(0);
    const again = await openedStore(directory);
    expect(recordsOf(again.namespace("lock"))).toMatchObject({ before: "1", after: "2", k1: large });
  });

  test("refuses all that waits behind the refused batch, so that what is durable is a prefix", async () => {
    const mount = smallDisk("3m");
    const store = await openedStore(join(mount, "data"));
    const namespace = store.namespace("lock");
    await namespace.commit({ changes: [set("before", "1")] });
    ballast(mount);
    const large = { changes: [{ key: "large", value: new Uint8Array(9_000_000) }] };
    const outcomes = await Promise.allSettled([
      namespace.commit(large),
      namespace.commit({ changes: [set("behind", "1")] }),
      namespace.commit({ changes: [set("behind", "2")] }),
    ]);
    expect(outcomes.map((outcome) => (outcome.status === "rejected" ? outcome.reason.code : "durable"))).toEqual(["overflow", "overflow", "overflow"]);
    expect(recordsOf(namespace)).toEqual({ before: "1" });
    await namespace.commit({ changes: [set("small", "fits")] }).catch((error: unknown) => expect(error).toMatchObject({ code: "overflow" }));
  });

  test("at the very start is a configuration error that says so", async () => {
    const mount = smallDisk("1m");
    ballast(mount);
    const error = await errorOf(() => openStore({ directory: join(mount, "data") }));
    expect(error).toMatchObject({ code: "config" });
    expect(String(error)).toMatch(/full|ENOSPC|no space/i);
  });
});

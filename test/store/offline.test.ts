/** check, backup and restore: what they say of sound and of damaged stores, and that they change nothing they should not. */
import { afterEach, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { backupStore, restoreStore } from "../../src/store/backup.ts";
import { checkStore } from "../../src/store/check.ts";
import { append, cleanUp, errorOf, openedStore, recordsOf, set, streamOf, temporaryDirectory, unset } from "./kit.ts";

afterEach(cleanUp);

async function filledStore(directory: string) {
  const store = await openedStore(directory);
  const namespace = store.namespace("lock");
  await namespace.commit({ changes: [set("a", "1"), set("b", "2")], appends: [append("events", 1, 2, "xy")] });
  await namespace.commit({ changes: [unset("a")], appends: [append("events", 3, 3, "z")] });
  return { store, namespace };
}

describe("check", () => {
  test("finds a sound store sound, in use or not, and counts what is in it", async () => {
    const directory = temporaryDirectory();
    const { store } = await filledStore(directory);
    expect(checkStore(directory)).toMatchObject({ inUse: true, journalChanges: 5, records: 0, directoryId: store.directoryId, formatVersion: 1 });
    await store.close();
    expect(checkStore(directory)).toMatchObject({ inUse: false, tailTorn: false, journalChanges: 5 });
    expect(recordsOf((await openedStore(directory)).namespace("lock"))).toEqual({ b: "2" });
  });

  test("of a directory without a store is not found, and makes none", async () => {
    const directory = temporaryDirectory();
    expect(await errorOf(() => checkStore(directory))).toMatchObject({ code: "notfound", exitCode: 66 });
    expect(existsSync(join(directory, "lockd.sqlite"))).toBe(false);
  });
});

test("what this user may not read is not taken for missing: 78, naming the path", async () => {
  const directory = temporaryDirectory();
  const { store } = await filledStore(directory);
  await store.close();
  for (const mode of [0o700, 0o755]) {
    chmodSync(directory, mode);
    const script = `
      import { checkStore } from ${JSON.stringify(join(import.meta.dir, "../../src/store/check.ts"))};
      import { backupStore } from ${JSON.stringify(join(import.meta.dir, "../../src/store/backup.ts"))};
      for (const look of [() => checkStore(${JSON.stringify(directory)}), () => backupStore(${JSON.stringify(directory)}, "/nowhere/copy")]) {
        try { look(); } catch (error) { console.log(error.exitCode, error.message); }
      }`;
    const run = Bun.spawnSync(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", process.execPath, "-e", script], { stderr: "inherit" });
    const sentence = `78 open store ${join(directory, "lockd.sqlite")}: permission denied\n`;
    expect(run.stdout.toString()).toBe(sentence + sentence);
  }
});

describe("backup and restore", () => {
  test("a copy made while the store is written to holds one moment, for its owner only", async () => {
    const directory = temporaryDirectory();
    const { store, namespace } = await filledStore(directory);
    const file = join(temporaryDirectory(), "copy.sqlite");
    const report = backupStore(directory, file);
    expect(report).toMatchObject({ path: file, inUse: true });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await namespace.commit({ changes: [set("c", "later")] });

    const target = join(temporaryDirectory(), "new");
    const restored = restoreStore(file, target);
    expect(restored.directoryId).not.toBe(store.directoryId);
    const again = await openedStore(target);
    expect(again.directoryId).toBe(restored.directoryId);
    expect(recordsOf(again.namespace("lock"))).toEqual({ b: "2" });
    expect(streamOf(again.namespace("lock"), "events")).toEqual(["1-2:xy", "3-3:z"]);
    // and it is a store like any other: what is committed now stays
    await again.namespace("lock").commit({ changes: [set("d", "new")] });
    expect(existsSync(`${again.path}-wal`)).toBe(true);
    await again.close();
    expect(recordsOf((await openedStore(target)).namespace("lock"))).toEqual({ b: "2", d: "new" });
  });

  test("of a closed store works the same", async () => {
    const directory = temporaryDirectory();
    const { store } = await filledStore(directory);
    await store.close();
    const file = join(temporaryDirectory(), "copy.sqlite");
    expect(backupStore(directory, file)).toMatchObject({ inUse: false, journalChanges: 5 });
  });

  test("an existing file is not overwritten, and nothing is left behind", async () => {
    const directory = temporaryDirectory();
    await filledStore(directory);
    const target = temporaryDirectory();
    const file = join(target, "copy.sqlite");
    writeFileSync(file, "precious");
    expect(await errorOf(() => backupStore(directory, file))).toMatchObject({ code: "precondition" });
    expect(readFileSync(file, "utf8")).toBe("precious");
    expect(await errorOf(() => backupStore(directory, join(target, "none", "copy")))).toMatchObject({ code: "config" });
    expect(readdirSync(target)).toEqual(["copy.sqlite"]);
  });

  test("restore refuses a directory with anything in it, or in use, and leaves it as it was", async () => {
    const directory = temporaryDirectory();
    const { store } = await filledStore(directory);
    const file = join(temporaryDirectory(), "copy.sqlite");
    backupStore(directory, file);
    expect(await errorOf(() => restoreStore(file, directory))).toMatchObject({ code: "config" });
    await store.close();
    expect(await errorOf(() => restoreStore(file, directory))).toMatchObject({ code: "precondition" });
    expect(recordsOf((await openedStore(directory)).namespace("lock"))).toEqual({ b: "2" });
  });

  test("restore checks the file first: a damaged or foreign one makes no store", async () => {
    const directory = temporaryDirectory();
    const { store } = await filledStore(directory);
    await store.close();
    const copies = temporaryDirectory();
    const file = join(copies, "copy.sqlite");
    backupStore(directory, file);
    const damaged = new Uint8Array(readFileSync(file));
    const at = Buffer.from(damaged).indexOf("events");
    expect(at).toBeGreaterThan(0);
    damaged[at] = 0x45;
    writeFileSync(join(copies, "damaged"), damaged);
    writeFileSync(join(copies, "text"), "this is not a database, but it is long enough to look at as if it were one".repeat(20));
    writeFileSync(join(copies, "empty"), "");
    for (const name of ["damaged", "text", "empty"]) {
      const target = join(temporaryDirectory(), "new");
      expect(await errorOf(() => restoreStore(join(copies, name), target))).toMatchObject({ code: "corrupt", exitCode: 65 });
      expect(existsSync(join(target, "lockd.sqlite"))).toBe(false);
    }
    expect(await errorOf(() => restoreStore(join(copies, "none"), join(copies, "new")))).toMatchObject({ code: "notfound" });
    mkdirSync(join(copies, "fine"));
    restoreStore(file, join(copies, "fine"));
    expect(checkStore(join(copies, "fine"))).toMatchObject({ journalChanges: 5 });
  });
});

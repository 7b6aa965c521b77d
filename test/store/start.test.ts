/** What openStore refuses, with which error, and what it leaves alone. */
import { Database } from "bun:sqlite";
import { afterEach, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { checkStore } from "../../src/store/check.ts";
import { openStore } from "../../src/store/store.ts";
import { cleanUp, errorOf, later, openedStore, recordsOf, set, temporaryDirectory } from "./kit.ts";

afterEach(cleanUp);

const open = (directory: string) => errorOf(() => openStore({ directory }));

describe("a new data directory", () => {
  test("is made with all its parents, for its owner only", async () => {
    const directory = join(temporaryDirectory(), "var", "lib", "lockd");
    const store = await openedStore(directory);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    for (const name of ["lockd.sqlite", "lockd.sqlite-wal", "lockd.sqlite-shm", "lock"]) {
      expect(statSync(join(directory, name)).mode & 0o777).toBe(0o600);
    }
    expect(store.path).toBe(join(directory, "lockd.sqlite"));
    expect(store.tailCut).toBe(false);
  });

  test("has an id of its own", async () => {
    const [one, other] = [await openedStore(temporaryDirectory()), await openedStore(temporaryDirectory())];
    expect(one.directoryId).not.toBe(other.directoryId);
  });

  test("is a single database file after a clean close", async () => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    await store.namespace("lock").commit({ changes: [set("a", "1")] });
    await store.close();
    for (const suffix of ["-wal", "-shm"]) expect(statSync(store.path + suffix, { throwIfNoEntry: false })).toBeUndefined();
    expect(readFileSync(join(directory, "lock"), "utf8")).toBe("");
  });
});

describe("a store in the making", () => {
  test("that a crash interrupted is made again", async () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, "lock"), "");
    writeFileSync(join(directory, "lockd.sqlite.partial"), "half");
    writeFileSync(join(directory, "lockd.sqlite.partial-journal"), "half");
    const store = await openedStore(directory);
    await store.namespace("lock").commit({ changes: [set("a", "1")] });
    expect(readdirSync(directory).sort()).toEqual(["lock", "lockd.sqlite", "lockd.sqlite-shm", "lockd.sqlite-wal"]);
  });

  test("is not begun among somebody else's files, and nothing is dropped there", async () => {
    const directory = temporaryDirectory();
    for (const name of ["passwd", "hosts"]) writeFileSync(join(directory, name), "");
    expect(await open(directory)).toMatchObject({
      code: "config",
      exitCode: 78,
      message: `create store in ${directory}: the directory is not empty (hosts, passwd)`,
      hint: expect.stringContaining("--data"),
    });
    expect(readdirSync(directory).sort()).toEqual(["hosts", "passwd"]);
  });

  test("may have what file systems and their mounts put there beside it, and later files of anybody", async () => {
    const directory = temporaryDirectory();
    mkdirSync(join(directory, "lost+found"));
    mkdirSync(join(directory, ".snapshot"));
    await (await openedStore(directory)).close();
    writeFileSync(join(directory, "notes"), "");
    await openedStore(directory);
  });
});

describe("a directory in use", () => {
  test("is refused and its holder named, in this process and in another; free again after close", async () => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    expect(await open(directory)).toMatchObject({ code: "config", exitCode: 78, message: expect.stringContaining(`in use by pid ${process.pid}`) });
    const script = `
      import { checkStore } from "../../src/store/check.ts";
import { openStore } from ${JSON.stringify(join(import.meta.dir, "../../src/store/store.ts"))};
      await openStore({ directory: ${JSON.stringify(directory)} }).catch((error) => console.log(error.code + " " + error.message));
      process.exit(0);`;
    const other = Bun.spawnSync([process.execPath, "-e", script]);
    expect(other.stdout.toString()).toContain(`config open data directory: ${directory} is in use by pid ${process.pid}`);
    await store.close();
    await openedStore(directory);
  });

  test("is free when its server is dead, although a child of it lives on", async () => {
    const directory = temporaryDirectory();
    const script = `
      import { checkStore } from "../../src/store/check.ts";
import { openStore } from ${JSON.stringify(join(import.meta.dir, "../../src/store/store.ts"))};
      await openStore({ directory: ${JSON.stringify(directory)} });
      const child = Bun.spawn(["sleep", "60"], { stdio: ["ignore", "ignore", "ignore"] });
      console.log(child.pid);`;
    const server = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
    const reader = server.stdout.getReader();
    const childPid = Number(new TextDecoder().decode((await reader.read()).value));
    later(() => void process.kill(childPid, "SIGKILL"));
    expect(await open(directory)).toMatchObject({ message: expect.stringContaining(`in use by pid ${server.pid}`) });
    server.kill("SIGKILL");
    await server.exited;
    expect(process.kill(childPid, 0)).toBe(true);
    await openedStore(directory);
  });
});

describe("a file that is not ours", () => {
  const fileIn = (directory: string): string => join(directory, "lockd.sqlite");

  test("of another program is corrupt and left as it was", async () => {
    const directory = temporaryDirectory();
    const database = new Database(fileIn(directory));
    database.run("CREATE TABLE theirs (a)");
    database.close();
    const before = readFileSync(fileIn(directory));
    expect(await open(directory)).toMatchObject({ code: "corrupt", exitCode: 65, message: expect.stringContaining("another program") });
    expect(readFileSync(fileIn(directory)).equals(before)).toBe(true);
  });

  test("that is no database is corrupt", async () => {
    const directory = temporaryDirectory();
    writeFileSync(fileIn(directory), "not a database at all, only text\n".repeat(500));
    expect(await open(directory)).toMatchObject({ code: "corrupt", message: expect.stringContaining("not a database") });
  });

  test("whose header asks for a newer SQLite is corrupt at once, not only when it is written to", async () => {
    const directory = temporaryDirectory();
    await (await openedStore(directory)).close();
    const file = readFileSync(fileIn(directory));
    file[18] = 3;
    writeFileSync(fileIn(directory), file);
    expect(await open(directory)).toMatchObject({ code: "corrupt", message: expect.stringContaining("file format 3/2") });
    expect(await errorOf(() => checkStore(directory))).toMatchObject({ code: "corrupt" });
  });

  test("of a newer format is corrupt, and says which version was found and what to do", async () => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    await store.close();
    const database = new Database(fileIn(directory));
    database.run("PRAGMA user_version = 7");
    database.close();
    const error = await open(directory);
    expect(error).toMatchObject({ code: "corrupt", message: expect.stringContaining("version 7 is newer than 1"), hint: expect.stringContaining("newer lockd") });
  });

  test("an empty file, or a file beside the one that is gone, is no new store: what it held is lost", async () => {
    const directory = temporaryDirectory();
    writeFileSync(fileIn(directory), "");
    expect(await open(directory)).toMatchObject({ code: "corrupt", exitCode: 65, message: expect.stringContaining("the file is empty"), hint: expect.stringContaining("restore") });
    expect(statSync(fileIn(directory)).size).toBe(0);
    for (const suffix of ["-wal", "-shm", "-journal"]) {
      const other = temporaryDirectory();
      writeFileSync(fileIn(other) + suffix, "");
      expect(await open(other)).toMatchObject({ code: "corrupt", exitCode: 65, message: expect.stringContaining(`lockd.sqlite${suffix} is there`) });
      expect(statSync(fileIn(other), { throwIfNoEntry: false })).toBeUndefined();
    }
  });

  test("a database without any table is no store", async () => {
    const directory = temporaryDirectory();
    const database = new Database(fileIn(directory));
    database.run("CREATE TABLE t (x)");
    database.run("DROP TABLE t");
    database.close();
    expect(await open(directory)).toMatchObject({ code: "corrupt", exitCode: 65 });
  });

  test("an empty file beside a log that holds data is refused", async () => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    await store.namespace("lock").commit({ changes: [set("a", "1")] });
    const log = readFileSync(`${fileIn(directory)}-wal`);
    await store.close();
    writeFileSync(fileIn(directory), "");
    writeFileSync(`${fileIn(directory)}-wal`, log);
    expect(await open(directory)).toMatchObject({ code: "corrupt", message: expect.stringContaining("missing or empty") });
    rmSync(fileIn(directory));
    expect(await open(directory)).toMatchObject({ code: "corrupt" });
  });
});

describe("a directory that cannot be used", () => {
  test("because its path is a file, is a configuration error", async () => {
    const file = join(temporaryDirectory(), "file");
    writeFileSync(file, "");
    expect(await open(file)).toMatchObject({ code: "config", exitCode: 78 });
    expect(await open(join(file, "below"))).toMatchObject({ code: "config" });
    for (const path of [file, "/proc/lockd"]) expect(await open(path)).toMatchObject({ message: expect.not.stringMatching(/ENO|EEX|mkdir/) });
  });

  test("because its file system is read-only, is a configuration error, empty or with a store in it", async () => {
    const mount = join(temporaryDirectory(), "mount");
    mkdirSync(mount);
    run("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", mount);
    later(() => run("umount", mount));
    const store = await openedStore(join(mount, "data"));
    await store.namespace("lock").commit({ changes: [set("a", "1")] });
    await store.close();
    run("mount", "-o", "remount,ro", mount);
    expect(await open(join(mount, "data"))).toMatchObject({ code: "config", exitCode: 78 });
    expect(await open(join(mount, "new"))).toMatchObject({ code: "config", exitCode: 78 });
    run("mount", "-o", "remount,rw", mount);
    expect(recordsOf((await openedStore(join(mount, "data"))).namespace("lock"))).toEqual({ a: "1" });
  });

  test("after a refusal nothing is left behind that would refuse the next opener", async () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, "lockd.sqlite"), "x".repeat(5_000));
    expect(await open(directory)).toMatchObject({ code: "corrupt" });
    rmSync(join(directory, "lockd.sqlite"));
    chmodSync(directory, 0o700);
    await openedStore(directory);
  });
});

function run(...words: string[]): void {
  const ended = Bun.spawnSync(words, { stderr: "pipe" });
  if (ended.exitCode !== 0) throw new Error(`${words.join(" ")}: ${ended.stderr.toString()}`);
}

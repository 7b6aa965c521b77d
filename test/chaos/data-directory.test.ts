/** What operators do to data directories: two servers on one, none at all, copies made and taken back. */
import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually, lockd, TestServer } from "../e2e/kit.ts";
import { cleanUp } from "./cleanup.ts";
import { largestToken, readLedger } from "./ledger.ts";
import { client, directory, load, restarted, server } from "./world.ts";

afterEach(cleanUp);

describe("a second server on a directory in use", () => {
  test("ends with 78 and names the directory; the first is not disturbed, and its end frees the directory at once", async () => {
    const first = await server();
    const lock = await (await client(first.address)).lock("object");
    const second = await TestServer.start({ directory: first.directory }).catch(String);
    expect(second).toContain("ended with 78");
    expect(second).toContain(first.directory);
    expect((await first.list("object")).map(({ token }) => token)).toEqual([lock.token]);
    await first.kill();
    const next = await server({ directory: first.directory });
    expect((await next.list("object")).map(({ token }) => token)).toEqual([lock.token]);
  });

  test("that starts together with the first leaves exactly one running", async () => {
    const data = directory();
    const started = await Promise.allSettled(Array.from({ length: 4 }, () => server({ directory: data })));
    expect(started.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    for (const one of started) if (one.status === "rejected") expect(String(one.reason)).toContain("ended with 78");
  });
});

describe("a wiped directory", () => {
  test("is a new service: no locks, tokens anew, another cluster id; the holder of before is told that it lost its lock", async () => {
    const first = await server();
    const holder = await client(first.address);
    for (let turn = 0; turn < 3; turn++) await (await holder.lock("other")).release();
    const lock = await holder.lock("object", { duration: 20_000 });
    expect(lock.token).toBe(4);
    const before: { cluster: { id: string } } = JSON.parse((await first.run(["status", "--json"])).stdout);
    const lost = new Promise((resolve) => lock.signal.addEventListener("abort", () => resolve(lock.signal.reason)));
    await first.kill();
    rmSync(first.directory, { recursive: true });
    const wiped = await restarted(first);
    const after: { cluster: { id: string } } = JSON.parse((await wiped.run(["status", "--json"])).stdout);
    expect(after.cluster.id).not.toBe(before.cluster.id);
    const next = await (await client(wiped.address)).lock("object");
    expect(next.token).toBe(1);
    expect(await lost).toMatchObject({ code: "lost" });
    expect((await wiped.list("object")).map(({ token }) => token)).toEqual([next.token]);
  });
});

describe("store backup of a server under load", () => {
  test("is a checked copy of one moment, from which a restored server goes on with those locks and larger tokens", async () => {
    const running = await server();
    const ledger = join(directory(), "ledger");
    const holder = await client(running.address);
    const kept = await holder.lock("kept", { duration: 3_600_000, detached: true, value: "known" });
    const options = { server: running.address, ledger, objects: ["red", "green"], loops: 4, holdMsMax: 5, waitMs: 20_000, durationMs: 20_000, unlockDurationMs: 500 };
    const working = load({ ...options, name: "working" });
    await eventually("clients work", () => readLedger(ledger).length > 100);

    const checked = await lockd(["store", "check", "--data", running.directory, "--json"]);
    expect(checked.code).toBe(0);
    expect(JSON.parse(checked.stdout)).toMatchObject({ ok: true, inUse: true });
    const tokenBefore = largestToken(readLedger(ledger));
    const file = join(directory(), "copy.sqlite");
    const written = await lockd(["store", "backup", file, "--data", running.directory]);
    expect(written).toMatchObject({ code: 0, stdout: expect.stringMatching(/^ok: wrote .*copy\.sqlite/) });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const seen = readLedger(ledger).length;
    await eventually("clients go on", () => readLedger(ledger).length > seen + 20);
    expect((await working.finish()).lost).toEqual({});

    // neither an existing file nor a directory that is not empty is written over
    expect((await lockd(["store", "backup", file, "--data", running.directory])).code).toBe(73);
    const occupied = directory();
    writeFileSync(join(occupied, "precious"), "");
    expect((await lockd(["store", "restore", file, "--data", occupied])).code).toBe(73);
    expect((await lockd(["store", "restore", file, "--data", running.directory])).code).toBe(78);

    const restoredTo = join(directory(), "data");
    expect((await lockd(["store", "restore", file, "--data", restoredTo])).code).toBe(0);
    expect(existsSync(join(restoredTo, "lockd.sqlite"))).toBe(true);
    expect((await lockd(["store", "check", "--data", restoredTo])).code).toBe(0);
    const copy = await server({ directory: restoredTo });
    expect(await copy.list("kept")).toMatchObject([{ state: "locked", token: kept.token, value: "known" }]);
    expect((await (await client(copy.address)).lock("another")).token).toBeGreaterThan(tokenBefore);
    expect((await copy.run(["unlock", kept.handle])).code).toBe(0);
  }, 60_000);
});

/** What a holder and those who wait see of a network that is slow, silent or broken. */
import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { LockdClient } from "../../src/client/client.ts";
import { LockLostError } from "../../src/client/errors.ts";
import type { Lock } from "../../src/client/lock.ts";
import { eventually, lockd } from "../e2e/kit.ts";
import { cleanUp } from "./cleanup.ts";
import { type Direction, type Inspect, Proxy } from "./proxy.ts";
import { client, directory, restarted, server } from "./world.ts";

afterEach(cleanUp);

/** Short, so that the tests are quick; the grace is what a loss has to be noticed in. */
const SHORT = { duration: 1_500, unlockDuration: 500, wait: 20_000 };

/** When the lock's loss was told, without any call by its holder, and why. */
function lossOf(lock: Lock): Promise<{ atMs: number; error: unknown }> {
  return new Promise((resolve) => {
    lock.signal.addEventListener("abort", () => resolve({ atMs: performance.now(), error: lock.signal.reason }));
  });
}

async function grant(from: LockdClient, object: string): Promise<{ lock: Lock; atMs: number }> {
  const lock = await from.lock(object, SHORT);
  return { lock, atMs: performance.now() };
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return "none";
  } catch (error) {
    return error instanceof Error && "code" in error ? String(error.code) : String(error);
  }
}

describe("a holder whose network goes silent", () => {
  test("in one direction or both knows that it lost the lock before the next one gets it, which is when lease and grace are over", async () => {
    const real = await server();
    const silences: readonly (readonly Direction[])[] = [["toServer", "toClient"], ["toServer"], ["toClient"]];
    await Promise.all(
      silences.map(async (directions, number) => {
        const object = `object-${number}`;
        const wire = await Proxy.start(real.address);
        const lock = await (await client(wire.address)).lock(object, SHORT);
        const loss = lossOf(lock);
        wire.cut(...directions);
        const startedMs = performance.now();
        const next = grant(await client(real.address), object);
        const { atMs, error } = await loss;
        expect(error).toBeInstanceOf(LockLostError);
        const { lock: nextLock, atMs: grantedMs } = await next;
        expect(grantedMs).toBeGreaterThan(atMs);
        expect(nextLock.token).toBeGreaterThan(lock.token);
        // counted from a moment after the grant: what came in meanwhile renewed nothing
        expect(grantedMs - startedMs).toBeGreaterThan(SHORT.duration + SHORT.unlockDuration - 200);
        expect(grantedMs - startedMs).toBeLessThan(SHORT.duration + SHORT.unlockDuration + 5_000);
        wire.heal();
        expect(await codeOf(lock.release())).toBe("lost");
        // the late release took nothing away from the one who holds it now
        expect((await real.list(object)).map(({ token }) => token)).toEqual([nextLock.token]);
        expect(nextLock.lost).toBe(null);
      }),
    );
  });

  test("for 1 s renews through it and keeps its lock", async () => {
    const real = await server();
    const wire = await Proxy.start(real.address);
    const holder = await client(wire.address);
    const lock = await holder.lock("object", { ...SHORT, duration: 2_500 });
    const rival = codeOf((await client(real.address)).lock("object", { wait: 4_500 }));
    for (let round = 0; round < 2; round++) {
      wire.cut();
      await Bun.sleep(1_000);
      wire.heal();
      await Bun.sleep(1_000);
    }
    expect(lock.lost).toBe(null);
    expect(await rival).toBe("timedout");
    await lock.release();
  });

  test("has its command, which does not heed TERM, ended by exec before the next holder starts", async () => {
    const real = await server();
    const wire = await Proxy.start(real.address);
    const judge = join(directory(), "judge");
    const words = (name: string): string[] => [
      "exec", "object", "--duration", "1500ms", "--unlock-duration", "1s", "--wait", "20s",
      "--", "sh", "-c", `trap "" TERM; echo enter ${name} $LOCKD_TOKEN >> ${judge}; while :; do echo work ${name} >> ${judge}; sleep 0.02; done`,
    ];
    const cut = lockd(words("first"), { env: { LOCKD_CONNECT: wire.address } });
    await eventually("the command works", () => existsSync(judge));
    wire.cut();
    const next = real.spawn(words("second"));
    const lines = (): string[] => readFileSync(judge, "utf8").split("\n");
    await eventually("the next holder starts", () => lines().some((line) => line.startsWith("enter second")));
    expect((await cut).code).toBe(76);
    next.kill("SIGKILL");
    await next.exited;
    const after = lines().slice(lines().findIndex((line) => line.startsWith("enter second")));
    expect(after.filter((line) => line.includes("first"))).toEqual([]);
    const tokens = lines().filter((line) => line.startsWith("enter")).map((line) => Number(line.split(" ")[2]));
    expect(tokens).toHaveLength(2);
    expect(tokens[1] ?? 0).toBeGreaterThan(tokens[0] ?? 0);
  });
});

describe("renewals", () => {
  test("that the server refuses, each of them, let the holder stop before its lease ends", async () => {
    const real = await server();
    const refuse: Inspect = (direction, { type, id }) =>
      direction === "toServer" && type === "RENEW" ? { type: "ERROR", id, body: { code: "failed", message: "no", retryable: false } } : "pass";
    const wire = await Proxy.start(real.address, refuse);
    const lock = await (await client(wire.address)).lock("object", SHORT);
    const next = grant(await client(real.address), "object");
    const { atMs } = await lossOf(lock);
    expect((await next).atMs).toBeGreaterThan(atMs);
  });

  test("go on after one answer was lost, and the lock is kept", async () => {
    const real = await server();
    let lost = 0;
    let answered = 0;
    const loseFirst: Inspect = (direction, { type }) => {
      if (direction !== "toClient" || type !== "RENEWED") return "pass";
      if (lost === 0) {
        lost += 1;
        return "drop";
      }
      answered += 1;
      return "pass";
    };
    const wire = await Proxy.start(real.address, loseFirst);
    const lock = await (await client(wire.address)).lock("object", SHORT);
    await eventually("three more renewals", () => answered >= 3);
    expect(lost).toBe(1);
    expect(lock.lost).toBe(null);
    await lock.release();
  });

  test("that hang tell the loss before the next one holds, and the release of the stale holder changes nothing", async () => {
    const real = await server();
    const hang: Inspect = (direction, { type }) => (direction === "toServer" && type === "RENEW" ? "drop" : "pass");
    const wire = await Proxy.start(real.address, hang);
    const lock = await (await client(wire.address)).lock("object", SHORT);
    const next = grant(await client(real.address), "object");
    const { atMs, error } = await lossOf(lock);
    expect(error).toMatchObject({ code: "lost" });
    const { lock: nextLock, atMs: grantedMs } = await next;
    expect(grantedMs).toBeGreaterThan(atMs);
    expect(await codeOf(lock.release())).toBe("lost");
    expect((await real.list("object")).map(({ token }) => token)).toEqual([nextLock.token]);
  });
});

describe("a grant that comes later than its own lease", () => {
  test("is not taken for a lock: what the library hands out runs, or it reports that it obtained nothing", async () => {
    const real = await server();
    const wire = await Proxy.start(real.address);
    const slow = await client(wire.address);
    // the session is open and quick before the network becomes slow
    await (await slow.lock("other", SHORT)).release();
    wire.delayMs.toClient = 2_000;
    const outcome = await codeOf(slow.lock("object", { ...SHORT, wait: 3_000 }).then((lock) => expect(lock.expiresIn()).toBeGreaterThan(0)));
    expect(["none", "timedout", "unavailable"]).toContain(outcome);
    wire.delayMs.toClient = 0;
    wire.reset();
    // nothing of it is left to stand in the way
    const { lock } = await grant(await client(real.address), "object");
    await lock.release();
  });

  test("cannot be extended after it ended", async () => {
    const real = await server();
    const { stdout } = await real.run(["lock", "object", "--duration", "500ms", "--unlock-duration", "500ms", "--json"]);
    const { handle }: { handle: string } = JSON.parse(stdout);
    await eventually("it has ended", async () => (await real.list("object")).every(({ state }) => state !== "locked"));
    expect((await real.run(["renew", handle])).code).toBe(76);
    await (await grant(await client(real.address), "object")).lock.release();
    expect((await real.run(["renew", handle])).code).toBe(76);
  });
});

describe("a session", () => {
  test("is not its connection: a lock and its token outlive 12 broken ones", async () => {
    const real = await server();
    const wire = await Proxy.start(real.address);
    const holder = await client(wire.address);
    const lock = await holder.lock("object", { duration: 8_000 });
    const session = holder.session;
    for (let round = 0; round < 12; round++) {
      const { accepted } = wire;
      wire.reset();
      // in the middle of connecting, of greeting, of taking over, or after it
      if (round % 3 !== 0) await eventually("the client is back", () => wire.accepted > accepted);
      await Bun.sleep(Math.random() * 15);
    }
    await eventually("the client holds it over a new connection", async () => (await holder.sessions().next()).value !== undefined);
    expect(lock.lost).toBe(null);
    expect(holder.session).toBe(session);
    expect((await real.list("object")).map(({ token }) => token)).toEqual([lock.token]);
    await lock.release();
    expect(await real.list("object")).toEqual([]);
  });

  test("of an idle holder survives a restart of the server with its lock", async () => {
    const real = await server();
    const holder = await client(real.address);
    const lock = await holder.lock("object", { duration: 3_000 });
    await real.kill();
    const again = await restarted(real);
    let renewed = 0;
    lock.onRenewed(() => (renewed += 1));
    await eventually("it renews again", () => renewed >= 2);
    expect(lock.lost).toBe(null);
    expect((await again.list("object")).map(({ token }) => token)).toEqual([lock.token]);
  });

  test("whose server stays away for longer than the lease has its lock aborted without any call", async () => {
    const real = await server();
    const lock = await (await client(real.address)).lock("object", SHORT);
    const loss = lossOf(lock);
    await real.kill();
    expect((await loss).error).toMatchObject({ code: "lost", reason: "unreachable" });
  });
});

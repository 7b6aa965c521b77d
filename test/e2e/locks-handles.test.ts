import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { eventually } from "./kit.ts";
import { errorOf, LockWorld, output, shell } from "./locks-kit.ts";

let world: LockWorld;

beforeAll(async () => {
  world = await LockWorld.start("handles");
});
afterAll(() => world.clear());

const free = (object: string): Promise<void> => eventually(`${object} is free`, async () => (await world.ticketsOf(object)).length === 0);
const SHORT = ["--duration", "500ms", "--unlock-duration", "500ms"];
/** Lost, and still kept for its holder. */
const GRACE = ["--duration", "500ms", "--unlock-duration", "1h"];
const inGrace = (object: string): Promise<void> =>
  eventually(`${object} is in its grace`, async () => (await world.ticketsOf(object))[0]?.state === "unlocking");

describe("lock", () => {
  test("prints HANDLE TOKEN, with --json the documented object; handles differ and hold 128 random bits", async () => {
    expect(output(await world.run("lock", "text"))).toMatch(/^[A-Za-z0-9_-]{22,} \d+\n$/);
    const locks = await Promise.all(["json/1", "json/2", "json/3"].map((object) => world.lock(object)));
    for (const [index, lock] of locks.entries()) {
      expect(Object.keys(lock)).toEqual(["objects", "handle", "token", "expires"]);
      expect(lock.objects).toEqual([`json/${index + 1}`]);
    }
    expect(new Set(locks.map(({ handle }) => handle.slice(0, 22))).size).toBe(3);
    expect(new Set(locks.map(({ token }) => token)).size).toBe(3);
  });

  test("--wait 0 answers at once with 75, naming the holder; a wait that ends, too, with the own position", async () => {
    const holder = await world.holder("busy");
    const now = errorOf(await world.run("lock", "busy", "--wait", "0", "--json"), 75);
    expect(now).toMatchObject({ code: "timedout", retryable: false });
    expect(now.message).toContain(`pid ${holder.pid}`);
    const later = await world.run("lock", "busy", "--wait", "300ms");
    expect(output(later, 75)).toBe("");
    expect(later.stderr).toContain(`pid ${holder.pid}`);
    expect(later.stderr).toContain("position 1");
    expect((await world.ticketsOf("busy")).length).toBe(1);
  });

  test("--hold keeps and renews the lock until stdin closes", async () => {
    const holder = await world.holder("hold", "--duration", "500ms", "--unlock-duration", "500ms");
    const { token } = holder.lock;
    const startMs = Date.now();
    await eventually("three durations are over", async () => {
      expect(await world.ticketsOf("hold")).toMatchObject([{ token, state: "locked" }]);
      return Date.now() - startMs > 1600;
    });
    holder.closeStdin();
    expect((await holder.finished()).code).toBe(0);
    expect(await world.ticketsOf("hold")).toEqual([]);
  });

  test("--hold ends by a signal with 128+N and gives the lock back, also while it waits", async () => {
    for (const [signal, number] of [["SIGINT", 2], ["SIGTERM", 15], ["SIGHUP", 1], ["SIGQUIT", 3]] as const) {
      const holder = await world.holder("signal");
      const waiter = await world.waiter("signal");
      waiter.kill(signal);
      expect((await waiter.finished()).code).toBe(128 + number);
      expect((await world.ticketsOf("signal")).length).toBe(1);
      holder.kill(signal);
      expect((await holder.finished()).code).toBe(128 + number);
      expect(await world.ticketsOf("signal")).toEqual([]);
    }
  });

  test("--hold with /dev/null as stdin does not end", async () => {
    const ended = shell('"$BIN" lock null --hold < /dev/null', { LOCKD_CONNECT: world.server.address });
    await eventually("the lock is held", async () => (await world.ticketsOf("null")).length === 1);
    await world.run("status");
    const [ticket] = await world.ticketsOf("null");
    expect(ticket?.state).toBe("locked");
    process.kill(ticket?.holder.pid ?? 0, "SIGTERM");
    expect((await ended).code).toBe(143);
  });

  test("a handle that could not be printed leaves no lock behind", async () => {
    const { code } = await shell('"$BIN" lock unprinted > /dev/full', { LOCKD_CONNECT: world.server.address });
    expect(code).toBe(1);
    expect(await world.ticketsOf("unprinted")).toEqual([]);
  });
});

describe("unlock", () => {
  test("takes the handle from the argument, from stdin and from LOCKD_HANDLE", async () => {
    const ways = [
      (handle: string) => world.run("unlock", handle),
      (handle: string) => world.server.run(["unlock", "-"], { stdin: `${handle}\n` }),
      (handle: string) => world.server.run(["unlock", "-"], { stdin: `${handle} 17\n` }),
      (handle: string) => world.server.run(["unlock"], { env: { LOCKD_HANDLE: handle } }),
    ];
    for (const way of ways) {
      const { handle } = await world.lock("ways");
      expect(await way(handle)).toEqual({ code: 0, stdout: "", stderr: "" });
      expect(await world.ticketsOf("ways")).toEqual([]);
    }
    const { handle, token } = await world.lock("ways");
    expect(JSON.parse(output(await world.run("unlock", "--json", handle)))).toEqual({ unlocked: true, token });
  });

  test("a second one, and one of an unknown handle, say that nothing is held: 66", async () => {
    const { handle } = await world.lock("twice");
    output(await world.run("unlock", handle));
    expect(errorOf(await world.run("unlock", "--json", handle), 66).code).toBe("notheld");
    expect(errorOf(await world.run("unlock", "--json", "A".repeat(25)), 66).code).toBe("notheld");
  });

  test("without a handle, or with what cannot be one, it is a usage error: 64", async () => {
    for (const argv of [["unlock"], ["renew"], ["unlock", "not a handle"], ["unlock", ""], ["renew", "ü".repeat(22)], ["unlock", "a", "b"]]) {
      expect(output(await world.run(...argv), 64)).toBe("");
    }
    expect((await world.server.run(["unlock", "-"], { stdin: "" })).code).toBe(64);
  });

  test("in the grace it says 76, and the next gets the lock without waiting for the end of the grace", async () => {
    const { handle, token } = await world.lock("grace", ...GRACE);
    await inGrace("grace");
    const next = await world.waiter("grace");
    expect(errorOf(await world.run("unlock", "--json", handle), 76).code).toBe("lost");
    await next.line(0);
    expect(next.json<{ token: number }>(0).token).toBeGreaterThan(token);
  });

  test("of a lost lock says 76 and does not touch who has it now", async () => {
    const { handle } = await world.lock("lost", ...SHORT);
    const next = await world.holder("lost");
    expect(errorOf(await world.run("unlock", "--json", handle), 76).code).toBe("lost");
    expect(errorOf(await world.run("renew", "--json", handle), 76).code).toBe("lost");
    expect(await world.ticketsOf("lost")).toMatchObject([{ token: next.lock.token, state: "locked" }]);
  });

  test("by somebody else who has the handle ends the lock, and its holder is told: 76", async () => {
    const holder = await world.holder("other");
    output(await world.run("unlock", holder.lock.handle));
    expect((await holder.finished()).code).toBe(76);
    await free("other");
    const exec = world.start(["exec", "other", "--", "sh", "-c", "echo $LOCKD_HANDLE; exec sleep 1000"]);
    output(await world.run("unlock", await exec.line(0)));
    expect((await exec.finished()).code).toBe(76);
    await free("other");
  });
});

describe("renew", () => {
  test("lets the lock run its duration again, or another one", async () => {
    const { handle, token } = await world.lock("renew", "--duration", "1m");
    const left = async () => Date.parse((await world.ticketsOf("renew"))[0]?.expires ?? "") - Date.now();
    expect(await left()).toBeLessThanOrEqual(60_000);
    const renewed: { token: number; expires: string } = JSON.parse(output(await world.run("renew", "--json", "--duration", "1h", handle)));
    expect(renewed.token).toBe(token);
    expect(await left()).toBeGreaterThan(3_500_000);
    output(await world.server.run(["renew", "-", "--duration", "5m"], { stdin: handle }));
    expect(await left()).toBeLessThanOrEqual(300_000);
    output(await world.server.run(["renew"], { env: { LOCKD_HANDLE: handle } }));
    expect(await left()).toBeGreaterThan(200_000);
    output(await world.run("unlock", handle));
    expect(errorOf(await world.run("renew", "--json", handle), 66).code).toBe("notheld");
  });

  test("in the grace is too late: 76, and the grace is not made longer", async () => {
    const { handle } = await world.lock("late", ...GRACE);
    await inGrace("late");
    const before = (await world.ticketsOf("late"))[0]?.freeAt ?? "";
    expect(errorOf(await world.run("renew", "--json", handle), 76).code).toBe("lost");
    const [ticket] = await world.ticketsOf("late");
    expect(ticket?.state).toBe("unlocking");
    expect(Math.abs(Date.parse(ticket?.freeAt ?? "") - Date.parse(before))).toBeLessThan(1000);
    await world.run("unlock", handle);
  });
});

describe("wait", () => {
  test("returns when the object is free, and takes nothing", async () => {
    expect(JSON.parse(output(await world.run("wait", "unused", "--json")))).toEqual({ object: "unused", free: true });
    const { handle } = await world.lock("waited");
    const waiting = world.start(["wait", "waited"]);
    expect(output(await world.run("wait", "waited", "--wait", "0"), 75)).toBe("");
    expect(output(await world.run("wait", "waited", "--wait", "200ms"), 75)).toBe("");
    expect(waiting.ended).toBe(false);
    await world.run("unlock", handle);
    expect(await waiting.finished()).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(await world.ticketsOf("waited")).toEqual([]);
  });
});

describe("release --force", () => {
  test("needs --force and the exact token; the token of an earlier holder hits nobody", async () => {
    const { handle, token } = await world.lock("force");
    await world.run("unlock", handle);
    const holder = await world.holder("force");
    expect(output(await world.run("release", "force", "--token", String(holder.lock.token)), 64)).toBe("");
    expect(output(await world.run("release", "force", "--force"), 64)).toBe("");
    for (const wrong of [token, holder.lock.token + 1]) {
      const refused = errorOf(await world.run("release", "force", "--force", "--token", String(wrong), "--json"), 66);
      expect(refused.message).toContain(`token ${holder.lock.token}`);
    }
    expect(output(await world.run("release", "elsewhere", "--force", "--token", String(holder.lock.token)), 66)).toBe("");
    expect(await world.ticketsOf("force")).toMatchObject([{ token: holder.lock.token, state: "locked" }]);
    expect(holder.ended).toBe(false);
  });

  test("tells the holder, waits its unlock duration out, and hands over with a larger token", async () => {
    const holder = await world.lock("evict", "--unlock-duration", "2s", "--duration", "1h");
    const next = await world.waiter("evict");
    const answer: { object: string; token: number; freeAt: string } = JSON.parse(
      output(await world.run("release", "evict", "--force", "--token", String(holder.token), "--reason", "it hangs", "--json")),
    );
    expect(Object.keys(answer).sort()).toEqual(["freeAt", "holder", "object", "token"]);
    expect(answer).toMatchObject({ object: "evict", token: holder.token });
    const [evicted] = await world.ticketsOf("evict");
    expect(evicted).toMatchObject({ state: "unlocking", token: holder.token });
    expect(next.lines).toEqual([]);
    await next.line(0);
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(answer.freeAt) - 100);
    expect(next.json<{ token: number }>(0).token).toBeGreaterThan(holder.token);
    const forced = (await world.events("evict")).find(({ event }) => event === "forced");
    expect(forced).toMatchObject({ token: holder.token });
    expect(forced?.reason).toContain("it hangs");
  });

  test("ends `lock --hold` and `exec` with 76", async () => {
    const exec = world.start(["exec", "ends", "--", "sleep", "1000"]);
    await eventually("exec holds", async () => (await world.ticketsOf("ends")).length === 1);
    const next = await world.waiter("ends");
    await world.run("release", "ends", "--force", "--token", String((await world.ticketsOf("ends"))[0]?.token));
    const ended = await exec.finished();
    expect(ended.code).toBe(76);
    expect(ended.stderr).toContain("force");
    await next.line(0);
    await world.run("release", "ends", "--force", "--token", String(next.json<{ token: number }>(0).token));
    expect((await next.finished()).code).toBe(76);
  });
});

describe("sessions, kick and status", () => {
  test("sessions tells who is connected, with what it holds and waits for", async () => {
    const holder = await world.holder("sessions");
    const waiter = await world.waiter("sessions");
    const lines = output(await world.run("sessions", "--json")).trimEnd().split("\n");
    const sessions = lines.map((line): { session: string; holder: { pid: number }; connected: boolean; held: number; waiting: number } => JSON.parse(line));
    expect(sessions.find((session) => session.holder.pid === holder.pid)).toMatchObject({ connected: true, held: 1, waiting: 0 });
    expect(sessions.find((session) => session.holder.pid === waiter.pid)).toMatchObject({ connected: true, held: 0, waiting: 1 });
    expect(output(await world.run("sessions"))).toMatch(new RegExp(`^SESSION +HOLDER(.|\\n)* ${holder.pid} `));
  });

  test("kick ends a waiter at once and forces a holder out; an unknown session is 66, nonsense 64", async () => {
    const holder = await world.holder("kick", "--unlock-duration", "500ms");
    const waiter = await world.waiter("kick");
    const sessionOf = async (pid: number) => (await world.ticketsOf("kick")).find((ticket) => ticket.holder.pid === pid)?.holder.session ?? "";
    const waiting = await sessionOf(waiter.pid);
    expect(JSON.parse(output(await world.run("kick", "--json", "--", waiting)))).toEqual({ session: waiting, tickets: 1 });
    expect((await waiter.finished()).code).not.toBe(0);
    expect((await world.ticketsOf("kick")).length).toBe(1);
    output(await world.run("kick", "--reason", "test", "--", await sessionOf(holder.pid)));
    expect((await holder.finished()).code).toBe(76);
    await free("kick");
    expect(output(await world.run("kick", "--", "A".repeat(22)), 66)).toBe("");
    expect(output(await world.run("kick", "nonsense"), 64)).toBe("");
  });

  test("status has the documented fields and says how much is held and waited for", async () => {
    const before: { tickets: number; waiting: number } = JSON.parse(output(await world.run("status", "--json")));
    await world.holder("status");
    await world.waiter("status");
    const status: Record<string, unknown> = JSON.parse(output(await world.run("status", "--json")));
    expect(Object.keys(status)).toEqual([
      "name", "mode", "version", "ready", "reason", "readyIn", "cluster", "leaders", "epoch", "term", "commit", "applied", "tickets", "waiting", "uptime",
    ]);
    expect(status).toMatchObject({ mode: "serve", ready: true, reason: null, waiting: before.waiting + 1 });
    expect(status["cluster"]).toMatchObject({ size: 1, quorum: 1, members: [{ address: world.server.address, role: "leader", connected: true }] });
    const text = output(await world.run("status"));
    // a single node is no cluster: only the JSON has the fields of one
    expect(text).toMatch(/^\S+: serve, lockd \S+, ready\n\d+ tickets?, \d+ waiting; up \S.*\n$/);
  });
});

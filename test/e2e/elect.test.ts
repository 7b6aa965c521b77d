/**
 * `lockd elect` and `lockd leader` from the executable: who leads, who is told, what comes back, and that
 * leaderships never overlap while connections break.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { LOCKD, temporaryDirectory, TestServer } from "./kit.ts";
import { errorOf, type HolderLine, LockWorld, output, type Running } from "./locks-kit.ts";
import { CuttableProxy } from "./proxy.ts";

setDefaultTimeout(60_000);

/** A line of `leader --json`. */
interface LeaderLine {
  name: string;
  state: "leading" | "vacant";
  value?: string;
  token?: number;
  since?: string;
  holder?: HolderLine;
}

const files = temporaryDirectory("elect");
let world: LockWorld;
let name = "";
let count = 0;

beforeAll(async () => {
  world = await LockWorld.start("elect-server");
});
afterAll(async () => {
  await world.clear();
  files.remove();
});
beforeEach(() => {
  count += 1;
  name = `election ${count}`;
});

/** A leader that says `leading` and leads until its stdin closes. */
async function leader(...flags: readonly string[]): Promise<Running> {
  const running = world.start(["elect", name, ...flags, "--", "sh", "-c", "echo leading; cat >/dev/null"]);
  await running.line(0);
  return running;
}

async function resign(running: Running): Promise<void> {
  running.closeStdin();
  output(await running.finished());
}

describe("leader", () => {
  test("prints the value that the leader shows, else who it is, and ends with 66 when nobody leads", async () => {
    const nobody = await world.run("leader", name);
    expect([nobody.code, nobody.stdout]).toEqual([66, ""]);
    expect(nobody.stderr).toContain(`"${name}": nobody leads`);
    expect(errorOf(await world.run("leader", name, "--json"), 66).code).toBe("notfound");

    const silent = await leader();
    expect(output(await world.run("leader", name))).toMatch(/^\S+ on \S+, pid \d+, lockd elect sh\n$/);
    await resign(silent);

    const speaking = await leader("--value", "10.0.0.1:8080");
    expect(output(await world.run("leader", name))).toBe("10.0.0.1:8080\n");
    const line: LeaderLine = JSON.parse(output(await world.run("leader", name, "--json")));
    expect(line).toEqual({ name, state: "leading", value: "10.0.0.1:8080", token: expect.any(Number), since: expect.any(String), holder: expect.any(Object) });
    expect([line.holder?.pid, Math.abs(Date.parse(line.since ?? "") - Date.now()) < 60_000]).toEqual([speaking.pid, true]);
    await resign(speaking);
    expect((await world.run("leader", name)).code).toBe(66);
  });

  test("shows nothing that could move a cursor or forge a line", async () => {
    const running = await leader("--value", "a\u001b[2Jb\nc");
    expect(output(await world.run("leader", name))).not.toMatch(/[\u001b]|\n./);
    await resign(running);
  });

  test("of an object that others share is nobody", async () => {
    const shared = await world.holder(name, "--shared");
    expect((await world.run("leader", name)).code).toBe(66);
    shared.closeStdin();
    await shared.finished();
  });

  test("--watch tells what is and each change: of leader, and of the value while it leads", async () => {
    const watcher = world.start(["leader", name, "--watch", "--json"]);
    const text = world.start(["leader", name, "--watch"]);
    const line = async (index: number): Promise<LeaderLine> => JSON.parse(await watcher.line(index));
    expect(await line(0)).toEqual({ name, state: "vacant" });
    expect(await text.line(0)).toBe("no leader");

    const first = await leader("--value", "one");
    const one = await line(1);
    expect(one).toMatchObject({ state: "leading", value: "one", holder: { pid: first.pid } });
    const go = join(files.path, `go-${count}`);
    const script = 'until [ -e "$0" ]; do sleep 0.02; done; "$BIN" renew --value two; echo leading; cat >/dev/null';
    const second = world.start(["elect", name, "--value", "three", "--", "sh", "-c", script, go], { BIN: LOCKD });
    await world.waits(name, second.pid);
    await resign(first);
    const three = await line(2);
    expect(three).toMatchObject({ state: "leading", value: "three", holder: { pid: second.pid } });
    expect(three.token).toBeGreaterThan(one.token ?? 0);
    writeFileSync(go, "");
    expect(await line(3)).toMatchObject({ state: "leading", value: "two", token: three.token });
    await second.line(1);
    await resign(second);
    expect(await line(4)).toEqual({ name, state: "vacant" });
    for (const [index, expected] of ["one", "three", "two", "no leader"].entries()) expect(await text.line(index + 1)).toBe(expected);
    for (const running of [watcher, text]) {
      running.kill("SIGTERM");
      await running.finished();
    }
    expect([watcher.lines.length, text.lines.length]).toEqual([5, 5]);
  });

  test("--watch of one election hears nothing of another whose name begins like it", async () => {
    const watcher = world.start(["leader", name, "--watch"]);
    await watcher.line(0);
    const other = world.start(["elect", `${name}/other`, "--", "true"]);
    output(await other.finished());
    const running = await leader("--value", "v");
    await watcher.line(1);
    expect(watcher.lines).toEqual(["no leader", "v"]);
    watcher.kill("SIGTERM");
    await resign(running);
  });

  test("--watch ends with 69 when there is no server to begin with", async () => {
    const nobody = await world.server.run(["leader", name, "--watch"], { env: { LOCKD_CONNECT: "127.0.0.1:1" } });
    expect([nobody.code, nobody.stdout]).toEqual([69, ""]);
  });
});

test("leader --watch goes on over broken connections and kill -9 of the server, and tells what changed meanwhile", async () => {
  const start = (listen?: string): Promise<TestServer> => TestServer.start({ directory: join(files.path, "restarted"), ...(listen === undefined ? {} : { listen }) });
  let server = await start();
  const { address } = server;
  const proxy = await CuttableProxy.start(address);
  const watcher = world.start(["leader", "e", "--watch"], { LOCKD_CONNECT: proxy.address });
  try {
    expect(await watcher.line(0)).toBe("no leader");
    const taken = await server.run(["lock", "e", "--value", "one", "--duration", "1h"]);
    const handle = output(taken).split(" ")[0] ?? "";
    const changes = ["two", "three"];
    expect(await watcher.line(1)).toBe("one");
    proxy.reset();
    for (const [index, value] of changes.entries()) {
      output(await server.run(["renew", handle, "--value", value]));
      expect(await watcher.line(2 + index)).toBe(value);
      proxy.reset();
      await server.kill();
      server = await start(address);
    }
    // nothing changed by the restarts: nothing is told twice
    output(await server.run(["unlock", handle]));
    expect(await watcher.line(4)).toBe("no leader");
    expect(watcher.lines).toEqual(["no leader", "one", "two", "three", "no leader"]);
  } finally {
    watcher.kill("SIGKILL");
    proxy.close();
    await server.kill();
  }
});

describe("elect", () => {
  test("gives back what its command ended with: code, signal, 126 and 127, and the next can lead", async () => {
    const ended = async (...child: readonly string[]): Promise<number> => (await world.run("elect", name, "--", ...child)).code;
    expect([await ended("sh", "-c", "exit 42"), await ended("sh", "-c", "kill -9 $$"), await ended("/"), await ended("no-such-command")]).toEqual([42, 137, 126, 127]);
    expect(await world.ticketsOf(name)).toEqual([]);
  });

  test("tells its command the election, the token and the handle", async () => {
    const { stdout } = await world.run("elect", name, "--", "sh", "-c", 'echo "$LOCKD_OBJECT|$LOCKD_TOKEN|$LOCKD_HANDLE|$LOCKD_DEADLINE"');
    expect(stdout).toMatch(new RegExp(`^${name}\\|[1-9]\\d*\\|h\\S{20,}\\|[1-9]\\d*\\n$`));
  });

  test("ends with 75 when somebody else leads and it does not wait, with --error-exit with that code", async () => {
    const running = await leader();
    const refused = await world.run("elect", name, "--wait", "0", "--", "true");
    expect([refused.code, refused.stderr.includes(String(running.pid))]).toEqual([75, true]);
    expect((await world.run("elect", name, "--wait", "0", "--error-exit", "99", "--", "true")).code).toBe(99);
    expect((await world.run("exec", name, "--wait", "0", "--", "true")).code).toBe(75);
    await resign(running);
  });

  test("that is interrupted while it waits ends with 128+N and is no candidate any more", async () => {
    const running = await leader();
    const candidate = world.start(["elect", name, "--", "true"]);
    await world.waits(name, candidate.pid);
    candidate.kill("SIGTERM");
    expect((await candidate.finished()).code).toBe(143);
    expect((await world.ticketsOf(name)).map(({ holder }) => holder.pid)).toEqual([running.pid]);
    await resign(running);
  });

  test("that is forced out ends its command and itself with 76, and cannot change the value of the next leader", async () => {
    const running = world.start(["elect", name, "--value", "old", "--", "sh", "-c", 'echo "$LOCKD_HANDLE"; cat >/dev/null']);
    const handle = await running.line(0);
    const next = world.start(["elect", name, "--value", "new", "--", "sh", "-c", "echo leading; cat >/dev/null"]);
    await world.waits(name, next.pid);
    const [ticket] = await world.ticketsOf(name);
    output(await world.run("release", name, "--force", "--token", String(ticket?.token)));
    await next.line(0);
    expect((await running.finished()).code).toBe(76);
    // lost, or given back by then
    expect([66, 76]).toContain((await world.run("renew", handle, "--value", "of the old one")).code);
    expect(output(await world.run("leader", name))).toBe("new\n");
    await resign(next);
  });

  test("refuses two names, no command, and flags of other locks with 64", async () => {
    for (const argv of [["a", "b", "--", "true"], ["a"], ["a", "--shared", "--", "true"], ["a", "--permits", "2", "--", "true"], ["--", "true"]]) {
      const refused = await world.run("elect", ...argv);
      expect([argv, refused.code, refused.stdout]).toEqual([argv, 64, ""]);
    }
  });
});

describe("renew --value", () => {
  test("changes what a lock shows, is an event, and is refused with 76 and 66 when it is not held any more", async () => {
    const { handle, token } = await world.lock(name, "--value", "before", "--duration", "500ms", "--unlock-duration", "500ms");
    output(await world.run("renew", handle, "--duration", "1m", "--value", "after"));
    expect(await world.ticketsOf(name)).toMatchObject([{ value: "after", token }]);
    output(await world.run("renew", handle));
    expect(await world.ticketsOf(name)).toMatchObject([{ value: "after", token }]);
    const events = (await world.events(name)).filter(({ event }) => event === "value");
    expect(events).toMatchObject([{ object: name, token, value: "after" }]);
    expect(output(await world.run("events", name))).toContain("now after");
    output(await world.run("unlock", handle));
    expect((await world.run("renew", handle, "--value", "late")).code).toBe(66);
  });

  test("refuses a value of more than 4,096 bytes with 64, and keeps the one before", async () => {
    const { handle } = await world.lock(name, "--value", "before");
    expect((await world.run("renew", handle, "--value", "x".repeat(4_097))).code).toBe(64);
    expect(await world.ticketsOf(name)).toMatchObject([{ value: "before" }]);
    output(await world.run("unlock", handle));
  });
});

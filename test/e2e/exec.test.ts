/**
 * `lockd exec` from the compiled executable against a real server: codes, signals, descriptors, and that
 * two commands under one lock never overlap, whatever happens to wrapper, network and lock.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { groupIsAlive } from "../../src/system/process.ts";
import { childrenOf, isAlive } from "../lock/exec/kit.ts";
import { eventually, LOCKD, type Finished, temporaryDirectory, TestServer } from "./kit.ts";
import { CuttableProxy } from "./proxy.ts";

setDefaultTimeout(60_000);
const directory = temporaryDirectory("exec");
let server: TestServer;
let object = "";
let count = 0;

beforeAll(async () => {
  server = await TestServer.start({ directory: join(directory.path, "data") });
});
afterAll(async () => {
  await server.kill();
  directory.remove();
});
beforeEach(() => {
  count += 1;
  object = `object-${count}`;
});

const path = (name: string): string => join(directory.path, `${count}-${name}`);
const exec = (command: readonly string[], flags: readonly string[] = [], env: Record<string, string> = {}): Promise<Finished> =>
  server.run(["exec", object, ...flags, "--", ...command], { env });

type Running = Bun.Subprocess<"pipe", "pipe", "pipe">;
const start = (command: readonly string[], flags: readonly string[] = [], env: Record<string, string> = {}): Running =>
  server.spawn(["exec", object, ...flags, "--", ...command], env);

async function finished(running: Running): Promise<Finished> {
  const [code, stdout, stderr] = await Promise.all([
    running.exited,
    new Response(running.stdout).text(),
    new Response(running.stderr).text(),
  ]);
  return { code, stdout, stderr };
}

const contents = (file: string): string => {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
};

/** A command that writes `TOKEN TIME` (boot time in ms) to a file every 5 ms, and says its pid first. */
const BEATS = `
import os, sys, time, signal
if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    os.write(log, f"{os.environ['LOCKD_TOKEN']} {os.getpid()} {time.clock_gettime(time.CLOCK_BOOTTIME) * 1000:.3f}\\n".encode())
    time.sleep(0.005)
`;
const beats = (seconds: number, ...words: string[]): string[] => ["python3", "-c", BEATS, path("beats"), String(seconds), ...words];

interface Beat {
  token: number;
  pid: number;
  atMs: number;
}

const readBeats = (): Beat[] =>
  contents(path("beats")).split("\n").filter((line) => line !== "").map((line) => {
    const [token = 0, pid = 0, atMs = 0] = line.split(" ").map(Number);
    return { token, pid, atMs };
  });

const firstBeat = async (token?: number): Promise<Beat> => {
  const found = () => readBeats().find((beat) => token === undefined || beat.token > token);
  await eventually("a beat", () => found() !== undefined);
  const beat = found();
  if (beat === undefined) throw new Error("a beat was found");
  return beat;
};

/** The judge: tokens never fall in time, so that no two sections overlap. */
function expectNoOverlap(sections: number): void {
  const all = readBeats().sort((a, b) => a.atMs - b.atMs);
  expect(new Set(all.map((beat) => beat.token)).size).toBe(sections);
  for (const [index, beat] of all.entries()) expect(beat.token).toBeGreaterThanOrEqual(all[index - 1]?.token ?? 0);
}

const holders = async (): Promise<Record<string, unknown>[]> => (await server.list(object)).filter((ticket) => ticket["state"] === "locked");
const waiting = async (): Promise<number> => (await server.list(object)).filter((ticket) => ticket["state"] === "waiting").length;

describe("codes", () => {
  test.each([0, 1, 3, 42, 255])("%d of the command comes back, the lock is free", async (code) => {
    expect((await exec(["sh", "-c", `exit ${code}`])).code).toBe(code);
    expect(await server.list(object)).toEqual([]);
  });

  test.each([9, 15])("signal %d of the command is 128+N", async (signal) => {
    expect((await exec(["sh", "-c", `kill -${signal} $$`])).code).toBe(128 + signal);
    expect(await server.list(object)).toEqual([]);
  });

  test("126 and 127 when it cannot be run, the lock is free", async () => {
    writeFileSync(path("plain"), "no program");
    expect((await exec([path("plain")])).code).toBe(126);
    const missing = await exec(["no-such-command"]);
    expect(missing.code).toBe(127);
    expect(missing.stderr).toContain("no-such-command");
    expect(await server.list(object)).toEqual([]);
  });

  test("75 and who is in the way when it is not obtained in time; --error-exit replaces it", async () => {
    const holder = start(["sleep", "60"]);
    await eventually("it holds", async () => (await holders()).length === 1);
    const late = await exec(["true"], ["--wait", "200ms"]);
    expect(late.code).toBe(75);
    expect(late.stderr).toContain(`pid ${holder.pid}`);
    expect(late.stderr).toContain("lockd exec sleep");
    expect(late.stderr).toContain("position 1");
    expect((await exec(["true"], ["--wait", "0"])).code).toBe(75);
    expect((await exec(["sh", "-c", "exit 75"], ["--wait", "0", "--error-exit", "99"])).code).toBe(99);
    holder.kill("SIGTERM");
    expect(await holder.exited).toBe(143);
    expect((await exec(["sh", "-c", "exit 75"], ["--error-exit", "99"])).code).toBe(75);
  });

  test("69 when no server is found within --wait", async () => {
    const env = { LOCKD_CONNECT: "127.0.0.1:1" };
    const result = await exec(["true"], ["--wait", "300ms"], env);
    expect(result.code).toBe(69);
    expect(result.stderr).toContain("127.0.0.1:1");
  });

  test.each([
    [["--shared", "--permits", "2"]],
    [["--count", "2"]],
    [["--permits", "2", "--count", "3"]],
    [["--on-lost", "pray"]],
    [["--error-exit", "0"]],
    [["--duration", "10ms"]],
  ])("64 for %p", async (flags) => {
    expect((await exec(["true"], flags)).code).toBe(64);
  });

  test("64 without a command", async () => {
    expect((await server.run(["exec", object])).code).toBe(64);
    expect((await server.run(["exec", object, "--"])).code).toBe(64);
  });
});

describe("signals", () => {
  test.each(["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const)("%s reaches command and group", async (name) => {
    const script = `
import os, signal, time
def hear(number, frame):
    os.write(log, b"heard "); time.sleep(0.05); os._exit(0 if child else 21)
log = os.open("${path("log")}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
signal.signal(signal.${name}, hear)
child = os.fork() == 0
if child: signal.pause()
time.sleep(0.05)
os.write(log, b"up "); os.waitpid(-1, 0); signal.pause()
`;
    const running = start(["python3", "-c", script]);
    await eventually("it is up", () => contents(path("log")).includes("up"));
    running.kill(name);
    expect((await finished(running)).code).toBe(21);
    expect(contents(path("log"))).toBe("up heard heard ");
    expect(await server.list(object)).toEqual([]);
  });

  test.each([["SIGTERM", 143], ["SIGINT", 130], ["SIGHUP", 129], ["SIGQUIT", 131]] as const)("%s ends the wait within a second", async (name, code) => {
    const holder = start(["sleep", "60"]);
    await eventually("it holds", async () => (await holders()).length === 1);
    const waiter = start(["echo", "never"]);
    await eventually("it waits", async () => (await waiting()) === 1);
    const startMs = performance.now();
    waiter.kill(name);
    const result = await finished(waiter);
    expect(performance.now() - startMs).toBeLessThan(1_000);
    expect(result).toEqual({ code, stdout: "", stderr: "" });
    expect(await waiting()).toBe(0);
    holder.kill("SIGTERM");
    await holder.exited;
  });
});

describe("the command gets", () => {
  test("100 MB on its stdin unchanged", async () => {
    const running = start(["sha256sum"]);
    const hash = createHash("sha256");
    const block = randomBytes(1 << 20);
    for (let index = 0; index < 100; index++) {
      block.writeUInt32LE(index, index);
      hash.update(block);
      running.stdin.write(Uint8Array.from(block));
      await running.stdin.flush();
    }
    await running.stdin.end();
    expect((await finished(running)).stdout).toBe(`${hash.digest("hex")}  -\n`);
  });

  test("its arguments, --help included", async () => {
    expect((await exec(["printf", "%s|", "--help", "--", "-x", "", "a b", "ü"])).stdout).toBe("--help|--|-x||a b|ü|");
  });

  test("descriptors 0 to 2, default signals, the limit of open files, and the lock in its environment", async () => {
    const script = "import os,resource\nprint(sorted(map(int,os.listdir('/proc/self/fd'))))\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
      + "print([l.split()[1] for l in open('/proc/self/status') if l.startswith(('SigIgn','SigBlk'))])\nprint(sorted(k for k in os.environ if k.startswith('LOCKD_')))";
    const shell = `ulimit -Sn 777; "$0" exec ${object} -- python3 -c "$1" 5</dev/null 3</dev/null; exit $?`;
    const child = Bun.spawn(["bash", "-c", shell, LOCKD, script], { env: { ...process.env, LOCKD_CONNECT: server.address } });
    const lines = (await new Response(child.stdout).text()).split("\n");
    // 3 is the listing itself; python ignores SIGPIPE and SIGXFSZ on its own
    expect(lines[0]).toBe("[0, 1, 2, 3]");
    expect(lines[1]).toBe("777");
    expect(lines[2]).toBe("['0000000000000000', '0000000001001000']");
    expect(lines[3]).toBe("['LOCKD_CONNECT', 'LOCKD_DEADLINE', 'LOCKD_HANDLE', 'LOCKD_OBJECT', 'LOCKD_TOKEN']");
  });

  test("a handle that nothing else shows", async () => {
    const running = start(["sh", "-c", `echo $LOCKD_HANDLE >${path("handle")}; sleep 60`]);
    await eventually("it runs", () => contents(path("handle")).endsWith("\n"));
    const handle = contents(path("handle")).trim();
    expect(handle.length).toBeGreaterThanOrEqual(22);
    for (const pid of [running.pid, ...childrenOf(running.pid).map((child) => child.pid)]) {
      expect(contents(`/proc/${pid}/cmdline`)).not.toContain(handle);
    }
    const supervisor = childrenOf(running.pid).find((child) => child.arguments.includes("__supervise"));
    expect(contents(`/proc/${supervisor?.pid}/environ`)).not.toContain(handle);
    expect(JSON.stringify(await server.list(object))).not.toContain(handle);
    running.kill("SIGTERM");
    await running.exited;
  });
});

describe("exclusion", () => {
  test("ten at once take turns, also when each ends at once", async () => {
    const runs = Array.from({ length: 10 }, () => exec(beats(0.02)));
    for (const run of runs) expect((await run).code).toBe(0);
    expectNoOverlap(10);
    for (const run of Array.from({ length: 5 }, () => exec(["true"]))) expect((await run).code).toBe(0);
    expect(await server.list(object)).toEqual([]);
  });

  test("killed with -9: the group ends, the next starts after it and long before the end of the lease", async () => {
    const first = start(["sh", "-c", `trap '' TERM; "$@"`, "sh", ...beats(60, "stubborn")], ["--duration", "60s"]);
    const { token, pid } = await firstBeat();
    const second = exec(beats(0.1));
    await eventually("the second waits", async () => (await waiting()) === 1);
    first.kill("SIGKILL");
    expect((await second).code).toBe(0);
    expect(isAlive(pid)).toBe(false);
    expect((await firstBeat(token)).token).toBeGreaterThan(token);
    expectNoOverlap(2);
  });

  test.each(["term", "kill"])("stopped: the command is killed in time (--on-lost %s), the wrapper says 76 when it goes on", async (onLost) => {
    const first = start(beats(60, "stubborn"), ["--duration", "1s", "--unlock-duration", "1s", "--on-lost", onLost]);
    const { pid } = await firstBeat();
    const second = exec(beats(0.1));
    await eventually("the second waits", async () => (await waiting()) === 1);
    first.kill("SIGSTOP");
    expect((await second).code).toBe(0);
    expect(isAlive(pid)).toBe(false);
    first.kill("SIGCONT");
    const result = await finished(first);
    expect(result.code).toBe(76);
    expect(result.stderr).toContain("keep lock");
    expectNoOverlap(2);
  });

  test("a stopped command and wrapper are killed in time", async () => {
    const first = start(beats(60), ["--duration", "1s", "--unlock-duration", "1s"]);
    const { pid } = await firstBeat();
    process.kill(pid, "SIGSTOP");
    first.kill("SIGSTOP");
    expect((await exec(beats(0.1))).code).toBe(0);
    expect(isAlive(pid)).toBe(false);
    first.kill("SIGCONT");
    expect((await finished(first)).code).toBe(76);
    expectNoOverlap(2);
  });

  test("taken away by force: command and group end before the next starts, code 76", async () => {
    const first = start(["sh", "-c", `"$@" & "$@"; wait`, "sh", ...beats(60, "stubborn")], ["--unlock-duration", "1s"]);
    const { token } = await firstBeat();
    const second = exec(beats(0.1));
    await eventually("the second waits", async () => (await waiting()) === 1);
    expect((await server.run(["release", object, "--force", "--token", String(token)])).code).toBe(0);
    const result = await finished(first);
    expect(result.code).toBe(76);
    expect(result.stderr).toContain("force");
    expect((await second).code).toBe(0);
    expectNoOverlap(2);
  });

  test("a network that is cut without a word: the command is dead before the next starts, code 76", async () => {
    const proxy = await CuttableProxy.start(server.address);
    try {
      const first = start(beats(60, "stubborn"), ["--duration", "1s", "--unlock-duration", "1s"], { LOCKD_CONNECT: proxy.address });
      const { pid } = await firstBeat();
      const second = exec(beats(0.1));
      await eventually("the second waits", async () => (await waiting()) === 1);
      proxy.cut();
      expect((await second).code).toBe(0);
      expect(isAlive(pid)).toBe(false);
      expect((await finished(first)).code).toBe(76);
      expectNoOverlap(2);
    } finally {
      proxy.close();
    }
  });

  test("a connection that is cut for less than the lease loses nothing", async () => {
    const proxy = await CuttableProxy.start(server.address);
    try {
      const running = start(["sh", "-c", `echo up >${path("up")}; sleep 1.5; exit 6`], ["--duration", "4s"], { LOCKD_CONNECT: proxy.address });
      await eventually("it runs", () => contents(path("up")) !== "");
      proxy.reset();
      expect((await finished(running)).code).toBe(6);
    } finally {
      proxy.close();
    }
  });

  test("a restart of the server during the command loses nothing", async () => {
    const other = await TestServer.start({ directory: path("restart") });
    const running = other.spawn(["exec", object, "--duration", "5s", "--", "sh", "-c", `echo up >${path("up")}; sleep 2; exit 6`]);
    await eventually("it runs", () => contents(path("up")) !== "");
    await other.kill();
    const again = await TestServer.start({ directory: path("restart"), listen: other.address });
    expect((await finished(running)).code).toBe(6);
    expect(await again.list()).toEqual([]);
    await again.kill();
  });

  test("a background grandchild neither keeps the lock nor is killed", async () => {
    const result = await exec(["sh", "-c", `(exec >/dev/null 2>&1 </dev/null; trap '' HUP; sleep 60) & echo $!`]);
    const pid = Number(result.stdout);
    expect(result.code).toBe(0);
    expect(await server.list(object)).toEqual([]);
    expect(isAlive(pid)).toBe(true);
    process.kill(pid, "SIGKILL");
  });

  test("shared holders run together, a semaphore lets as many in as it has", async () => {
    const shared = [start(["sleep", "60"], ["--shared"]), start(["sleep", "60"], ["--shared"])];
    await eventually("both hold", async () => (await holders()).length === 2);
    for (const running of shared) running.kill("SIGTERM");
    for (const running of shared) await running.exited;
    const permits = ["--permits", "3", "--count"];
    const two = start(["sleep", "60"], [...permits, "2"]);
    await eventually("it holds", async () => (await holders()).length === 1);
    expect((await exec(["true"], [...permits, "2", "--wait", "0"])).code).toBe(75);
    expect((await exec(["true"], [...permits, "1", "--wait", "0"])).code).toBe(0);
    two.kill("SIGTERM");
    await two.exited;
  });
});

describe("nested", () => {
  test("inner locks of other objects are taken and given back", async () => {
    const result = await exec([LOCKD, "exec", `${object}-inner`, "--", "sh", "-c", "echo $LOCKD_OBJECT; exit 12"], [], { LOCKD_CONNECT: server.address });
    expect(result).toMatchObject({ code: 12, stdout: `${object}-inner\n` });
    expect(await server.list(object)).toEqual([]);
  });

  test("the same object inside itself would wait for ever: 75 at once", async () => {
    const result = await exec([LOCKD, "exec", object, "--", "true"], [], { LOCKD_CONNECT: server.address });
    expect(result.code).toBe(75);
    expect(result.stderr).toContain("deadlock");
  });

  test("a loss outside ends what runs inside", async () => {
    const inner = [LOCKD, "exec", `${object}-inner`, "--unlock-duration", "1s", "--", ...beats(60)];
    const outer = start(inner, ["--unlock-duration", "2s"]);
    const { pid } = await firstBeat();
    const [holder] = (await holders()).filter((ticket) => ticket["object"] === object);
    await server.run(["release", object, "--force", "--token", String(holder?.["token"])]);
    expect((await finished(outer)).code).toBe(76);
    await eventually("the inner command is gone", () => !groupIsAlive(pid));
  });
});

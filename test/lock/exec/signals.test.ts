/** Signals: to the command while it runs, to the wait before it, to a helper, to a stopped process. */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { SIGNALS, groupIsAlive } from "../../../src/system/process.ts";
import { ExecWorld, TEST_MS_MAX, childrenOf, isAlive, until, type ExecRun } from "./kit.ts";

setDefaultTimeout(TEST_MS_MAX);
let world: ExecWorld;
beforeEach(() => {
  world = new ExecWorld();
});
afterEach(() => world.close());

/** Says each signal that it gets, in the command and in a member of its group. */
const LISTENER = `
import os, signal, sys, time
def hear(who):
    for name in ("SIGTERM","SIGINT","SIGHUP","SIGQUIT","SIGUSR1","SIGUSR2","SIGWINCH","SIGCONT"):
        signal.signal(getattr(signal, name), lambda number, frame: os.write(1, f"{who}:{number}\\n".encode()))
hear("member" if os.fork() == 0 else "leader")
os.write(1, f"up:{os.getpid()}\\n".encode())
while True: time.sleep(1)
`;

const pidOf = async (run: ExecRun): Promise<number> => Number(await run.said("pid"));

describe("while the command runs", () => {
  test.each(["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT"] as const)(
    "%s reaches it and its group once, and ends neither of us",
    async (name) => {
      const run = world.start(world.fake(), ["python3", "-c", LISTENER]);
      await until("both are up", () => run.stdout.match(/^up:/gm)?.length === 2);
      run.process.kill(name);
      await run.said(`leader:${SIGNALS[name]}`);
      await run.said(`member:${SIGNALS[name]}`);
      expect(isAlive(run.pid)).toBe(true);
      // a marker that is heard later proves that nothing came twice before it
      const marker = name === "SIGUSR1" ? "SIGUSR2" : "SIGUSR1";
      run.process.kill(marker);
      await run.said(`leader:${SIGNALS[marker]}`);
      expect(run.stdout.split(`leader:${SIGNALS[name]}\n`).length - 1).toBe(1);
      expect(run.journal()).toEqual(["waiting", "held"]);
    },
  );

  test("a trap in the command decides, and its code comes back", async () => {
    const run = world.start(world.fake(), ["sh", "-c", "trap 'echo T; exit 7' TERM; echo up; while :; do sleep 0.05; done"]);
    await run.said("up");
    run.process.kill("SIGTERM");
    const result = await run.end();
    expect(result.code).toBe(7);
    expect(result.stdout).toBe("up\nT\n");
    expect(result.journal).toEqual(["waiting", "held", "released"]);
  });

  test.each([
    ["SIGTERM", 143],
    ["SIGINT", 130],
    ["SIGHUP", 129],
    ["SIGQUIT", 131],
    ["SIGUSR1", 138],
    ["SIGUSR2", 140],
  ] as const)("%s ends a command that does not catch it: exit code %d", async (name, code) => {
    const run = world.start(world.fake(), ["sh", "-c", "ulimit -c 0; echo pid $$; exec sleep 60"]);
    const pid = await pidOf(run);
    run.process.kill(name);
    expect((await run.end()).code).toBe(code);
    expect(isAlive(pid)).toBe(false);
  });

  test("one that lockd was started to ignore stays ignored for both", async () => {
    const run = world.start(world.fake(), ["sh", "-c", "echo up; sleep 0.3; exit 4"], { before: ["nohup"] });
    await run.said("up");
    run.process.kill("SIGHUP");
    expect((await run.end()).code).toBe(4);
  });
});

describe("while the lock is awaited", () => {
  test.each([
    ["SIGTERM", 143],
    ["SIGINT", 130],
    ["SIGHUP", 129],
    ["SIGQUIT", 131],
  ] as const)("%s ends the wait within a second, the request is withdrawn", async (name, code) => {
    const run = world.start(world.fake({ waitMs: null }), ["echo", "never"]);
    await run.journaled("waiting");
    const start = performance.now();
    run.process.kill(name);
    const result = await run.end();
    expect(performance.now() - start).toBeLessThan(1_000);
    expect(result.code).toBe(code);
    expect(result.journal).toEqual(["waiting", "cancelled"]);
    expect(result.stdout).toBe("");
    expect(result.stderr).toBe("");
  });

  test("the helpers end with the wrapper, also when it is killed", async () => {
    const run = world.start(world.fake({ waitMs: null }), ["sleep", "60"]);
    await run.journaled("waiting");
    await until("both helpers run", () => childrenOf(run.pid).length === 2);
    const helpers = childrenOf(run.pid);
    run.process.kill("SIGKILL");
    await until("the helpers are gone", () => !helpers.some((helper) => isAlive(helper.pid)));
  });

  test("a signal that lockd was started to ignore does not end the wait", async () => {
    const run = world.start(world.fake({ waitMs: 400 }), ["sh", "-c", "exit 4"], { before: ["nohup"] });
    await run.journaled("waiting");
    run.process.kill("SIGHUP");
    expect((await run.end()).code).toBe(4);
  });

  test("SIGUSR1 and SIGWINCH change nothing", async () => {
    const run = world.start(world.fake({ waitMs: 300 }), ["sh", "-c", "exit 3"]);
    await run.journaled("waiting");
    run.process.kill("SIGUSR1");
    run.process.kill("SIGWINCH");
    expect((await run.end()).code).toBe(3);
  });
});

test("a signal at any moment around the start is never lost and never leaves anything behind", async () => {
  for (let delayMs = 0; delayMs < 60; delayMs += 3) {
    const run = world.start(world.fake({ waitMs: 10 }), ["sleep", "60"]);
    await run.journaled("waiting");
    await Bun.sleep(delayMs);
    const helpers = childrenOf(run.pid);
    run.process.kill("SIGTERM");
    const result = await run.end();
    expect(result.code).toBe(143);
    expect(["cancelled", "released"]).toContain(result.journal.at(-1) ?? "");
    await until("nothing is left", () => !helpers.some((helper) => isAlive(helper.pid)));
  }
});

describe("when the wrapper is killed", () => {
  test("the whole group ends, also what ignores every signal that can be ignored", async () => {
    const script = "import os,signal,time\nfor s in (1,2,3,15): signal.signal(s, signal.SIG_IGN)\nos.fork()\nos.fork()\nos.write(1, f'pid {os.getpgrp()}\\n'.encode())\ntime.sleep(60)";
    const run = world.start(world.fake(), ["python3", "-c", script]);
    const group = await pidOf(run);
    await until("all four are up", () => run.stdout.split("pid").length === 5);
    run.process.kill("SIGKILL");
    await until("the group is gone", () => !groupIsAlive(group));
  });

  test("and the supervisor with it, the command ends all the same", async () => {
    const run = world.start(world.fake(), ["sh", "-c", "echo pid $$; exec sleep 60"]);
    const pid = await pidOf(run);
    const supervisor = childrenOf(run.pid).find((child) => child.arguments.includes("__supervise"));
    // stopped, so that it cannot do what it does when it notices the death of its supervisor
    run.process.kill("SIGSTOP");
    process.kill(supervisor?.pid ?? 0, "SIGKILL");
    run.process.kill("SIGKILL");
    await until("the command is gone", () => !isAlive(pid));
  });

  test("the supervisor ends too", async () => {
    const run = world.start(world.fake(), ["sh", "-c", "echo pid $$; sleep 60"]);
    await pidOf(run);
    const supervisor = childrenOf(run.pid).find((child) => child.arguments.includes("__supervise"));
    expect(supervisor).toBeDefined();
    run.process.kill("SIGKILL");
    await until("the supervisor is gone", () => !isAlive(supervisor?.pid ?? 0));
  });
});

test("when the supervisor is killed, the command is ended and that is said", async () => {
  const run = world.start(world.fake(), ["sh", "-c", "echo pid $$; sleep 60"]);
  const group = await pidOf(run);
  const supervisor = childrenOf(run.pid).find((child) => child.arguments.includes("__supervise"));
  process.kill(supervisor?.pid ?? 0, "SIGKILL");
  const result = await run.end();
  expect(result.code).toBe(1);
  expect(result.stderr).toContain("supervisor was killed");
  expect(groupIsAlive(group)).toBe(false);
  expect(result.journal).toEqual(["waiting", "held", "released"]);
});

describe("when a helper is killed before the start", () => {
  test.each(["__shim", "__supervise"])("%s: the wait ends at once with an error, nothing is held", async (helper) => {
    const run = world.start(world.fake({ waitMs: null }), ["sleep", "60"]);
    await run.journaled("waiting");
    const find = () => childrenOf(run.pid).find((child) => child.arguments.includes(helper));
    await until("it runs", () => find() !== undefined);
    process.kill(find()?.pid ?? 0, "SIGKILL");
    const result = await run.end();
    expect(result.code).toBe(1);
    expect(result.stderr).toMatch(/prepare command|guard command/);
    expect(result.journal).toEqual(["waiting", "cancelled"]);
  });

  test("by a signal that asks all of a unit to end: as if we had got it", async () => {
    const run = world.start(world.fake({ waitMs: null }), ["sleep", "60"]);
    await run.journaled("waiting");
    const find = () => childrenOf(run.pid).find((child) => child.arguments.includes("__shim"));
    await until("it runs", () => find() !== undefined);
    process.kill(find()?.pid ?? 0, "SIGTERM");
    expect((await run.end()).code).toBe(143);
  });
});

test("a member that left for a session of its own is not chased", async () => {
  const run = world.start(world.fake(), ["sh", "-c", "setsid sh -c 'echo free $$; exec sleep 2' & echo pid $$; sleep 60"]);
  const free = Number(await run.said("free"));
  const group = await pidOf(run);
  run.process.kill("SIGKILL");
  await until("the group is gone", () => !groupIsAlive(group));
  expect(isAlive(free)).toBe(true);
  process.kill(free, "SIGKILL");
});

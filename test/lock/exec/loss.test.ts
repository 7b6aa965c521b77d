/** The lock is lost while the command runs: it ends in time, whatever state anybody is in. */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { SIGNALS, groupIsAlive } from "../../../src/system/process.ts";
import { killAfterMs } from "../../../plugins/lock/exec/guardedChild.ts";
import { ExecWorld, TEST_MS_MAX, isAlive, until } from "./kit.ts";

setDefaultTimeout(TEST_MS_MAX);
let world: ExecWorld;
beforeEach(() => {
  world = new ExecWorld();
});
afterEach(() => world.close());

/** Runs until it is killed; says when TERM comes. Times on the boot clock, milliseconds. */
const STUBBORN = `
import os, signal, time
now = lambda: round(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)
signal.signal(signal.SIGTERM, lambda n, f: os.write(1, f"term {now()}\\n".encode()))
print(f"pid {os.getpid()}", flush=True)
print(f"deadline {os.environ['LOCKD_DEADLINE']}", flush=True)
while True:
    os.write(1, f"beat {now()}\\n".encode())
    time.sleep(0.01)
`;

const beats = (stdout: string): number[] => [...stdout.matchAll(/^beat (\d+)$/gm)].map((match) => Number(match[1]));

test("time between TERM and KILL: 5 s, half the unlock duration, or 200 ms before its end", () => {
  expect(killAfterMs(3_600_000)).toBe(5_000);
  expect(killAfterMs(10_000)).toBe(5_000);
  expect(killAfterMs(5_000)).toBe(2_500);
  expect(killAfterMs(500)).toBe(250);
  expect(killAfterMs(300)).toBe(100);
  expect(killAfterMs(100)).toBe(0);
});

describe("with --on-lost term", () => {
  test("the command gets TERM, may tidy up, and the code is 76", async () => {
    const result = await world.run(["sh", "-c", "trap 'echo tidy; exit 0' TERM; while :; do sleep 0.02; done"], { lostAfterMs: 200 });
    expect(result.code).toBe(76);
    expect(result.stdout).toBe("tidy\n");
    expect(result.stderr).toContain("it was taken away");
    expect(result.journal.at(-1)).toBe("released");
  });

  test("one that ignores TERM gets one TERM and is killed after half the unlock duration", async () => {
    const run = world.start(world.fake({ durationMs: 600, unlockDurationMs: 1_000, renewForMs: 0 }), ["python3", "-c", STUBBORN]);
    const deadline = Number(await run.said("deadline"));
    const result = await run.end();
    expect(result.code).toBe(76);
    const terms = [...result.stdout.matchAll(/^term (\d+)$/gm)].map((match) => Number(match[1]));
    expect(terms.length).toBe(1);
    expect(terms[0]).toBeGreaterThanOrEqual(deadline - 1);
    expect(beats(result.stdout).at(-1)).toBeGreaterThan(deadline + 250);
    expect(beats(result.stdout).at(-1)).toBeLessThan(deadline + 1_000 - 200);
  });

  test("the whole group is gone before lockd says so, also when the command itself ended at once", async () => {
    const run = world.start(world.fake({ lostAfterMs: 300, unlockDurationMs: 1_000 }), [
      "sh", "-c", "sh -c 'trap \"\" TERM; sleep 60 & wait; sleep 60' & echo pid $$; wait",
    ]);
    const group = Number(await run.said("pid"));
    const result = await run.end();
    expect(result.code).toBe(76);
    expect(groupIsAlive(group)).toBe(false);
  });

  test("a stopped command goes on to hear TERM and may tidy up", async () => {
    const script = "trap 'echo tidy; exit 0' TERM; echo pid $$; while :; do sleep 0.02; done";
    const run = world.start(world.fake({ lostAfterMs: 400 }), ["sh", "-c", script]);
    process.kill(-Number(await run.said("pid")), "SIGSTOP");
    const result = await run.end();
    expect(result.stdout).toContain("tidy");
    expect(result.code).toBe(76);
  });

  test("a stopped command is killed in time", async () => {
    const run = world.start(world.fake({ lostAfterMs: 500, unlockDurationMs: 600 }), ["python3", "-c", STUBBORN]);
    const pid = Number(await run.said("pid"));
    process.kill(pid, "SIGSTOP");
    expect((await run.end()).code).toBe(76);
    expect(isAlive(pid)).toBe(false);
  });
});

describe("with --on-lost kill", () => {
  test("the group is killed at once", async () => {
    const result = await world.run(["python3", "-c", STUBBORN], { lostAfterMs: 300, onLost: "kill" });
    expect(result.code).toBe(76);
    expect(result.stdout).not.toContain("term");
  });
});

describe("with --on-lost ignore", () => {
  test("the command runs on, that is said, and the code is 76 all the same", async () => {
    const result = await world.run(["sh", "-c", "sleep 0.5; echo ran on"], { lostAfterMs: 100, onLost: "ignore" });
    expect(result.stdout).toBe("ran on\n");
    expect(result.stderr).toContain("runs on");
    expect(result.code).toBe(76);
  });
});

describe("a stopped wrapper", () => {
  test.each(["term", "kill"] as const)("loses its command by the deadline (%s) and says so when it goes on", async (onLost) => {
    const run = world.start(world.fake({ durationMs: 700, unlockDurationMs: 1_000, onLost }), ["python3", "-c", STUBBORN]);
    const pid = Number(await run.said("pid"));
    run.process.kill("SIGSTOP");
    await until("the command is gone", () => !isAlive(pid));
    run.process.kill("SIGCONT");
    const result = await run.end();
    expect(result.code).toBe(76);
    const last = beats(result.stdout).at(-1) ?? 0;
    const deadline = Number(/^deadline (\d+)/m.exec(result.stdout)?.[1]);
    // the last renewal may have moved the first deadline by the time that the command took to start
    expect(last).toBeLessThan(deadline + 700 + 800);
    expect(/^term /m.test(result.stdout)).toBe(onLost === "term");
  });

  test("that goes on in time keeps lock and command", async () => {
    const run = world.start(world.fake({ durationMs: 3_000 }), ["sh", "-c", "echo up; sleep 0.6; exit 8"]);
    await run.said("up");
    run.process.kill("SIGSTOP");
    await Bun.sleep(200);
    run.process.kill("SIGCONT");
    expect((await run.end()).code).toBe(8);
  });
});

test("renewals move the deadline: a command outlives its first duration many times over", async () => {
  const result = await world.run(["sh", "-c", "sleep 1.5; echo alive"], { durationMs: 300, unlockDurationMs: 500 });
  expect(result.code).toBe(0);
  expect(result.stdout).toBe("alive\n");
});

test("a lock that is lost before the start runs nothing", async () => {
  const result = await world.run(["echo", "ran"], { durationMs: 0 });
  expect(result.code).toBe(76);
  expect(result.stdout).toBe("");
});

test("a command that ends on its own TERM after a forwarded signal is no loss", async () => {
  const run = world.start(world.fake({ durationMs: 5_000 }), ["python3", "-c", STUBBORN.replace("os.write(1, f\"term", "os._exit(11) or os.write(1, f\"term")]);
  await run.said("pid");
  process.kill(run.pid, SIGNALS.SIGTERM);
  expect((await run.end()).code).toBe(11);
});

/** Clocks that jump and processes that stand still: leases run by the time that really passes. */
import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { cleanUp, later } from "../chaos/cleanup.ts";
import { readLedger, violations } from "../chaos/ledger.ts";
import { total } from "../chaos/load.ts";
import { directory, load, restarted, server } from "../chaos/world.ts";
import { WallClock } from "../chaos/wall-clock.ts";
import { environment, eventually, LOCKD, lockd, type TestServer } from "./kit.ts";

afterEach(cleanUp);

const JUMPS = ["+1h", "-1h", "+1y", "-1y"];
const DAY_MS = 86_400_000;

/** Takes a detached lock for 1 s plus 500 ms, with `jump` in the middle, and measures how long it keeps others out. */
async function blockedMs(on: () => TestServer, jump: () => Promise<void> | void): Promise<number> {
  const startedMs = performance.now();
  const taken = await on().run(["lock", "object", "--duration", "1s", "--unlock-duration", "500ms"]);
  expect(taken.code).toBe(0);
  await Bun.sleep(300);
  await jump();
  const next = await on().run(["lock", "object", "--wait", "20s"]);
  expect(next.code).toBe(0);
  const tookMs = performance.now() - startedMs;
  const { 0: handle = "" } = next.stdout.split(" ");
  expect((await on().run(["unlock", handle])).code).toBe(0);
  return tookMs;
}

async function jumpsWhileRunning(jumps: readonly string[]): Promise<void> {
  const clock = new WallClock();
  const running = await server({ env: clock.env });
  for (const jump of jumps) {
    const tookMs = await blockedMs(() => running, () => clock.jumpTo(jump));
    // the lease begins a moment before the command has ended
    expect(tookMs).toBeGreaterThan(1_400);
    expect(tookMs).toBeLessThan(6_000);
  }
}

describe("the server's wall clock", () => {
  test("jumps while it runs: leases end neither early nor late", async () => {
    await Promise.all([jumpsWhileRunning(["+1h", "-1h"]), jumpsWhileRunning(["+1y", "-1y"])]);
    // such a clock does jump: the log shows it, while listings count from now
    const clock = new WallClock();
    const running = await server({ env: clock.env });
    clock.jumpTo("-1y");
    running.signal("SIGUSR1");
    const times = (): number[] => running.log.map((line): { time: string } => JSON.parse(line)).map(({ time }) => Date.parse(time));
    await eventually("the log tells the state", () => times().some((time) => time < Date.now() - 300 * DAY_MS));
    expect((await running.run(["lock", "shown"])).code).toBe(0);
    const [ticket] = await running.list("shown");
    expect(Math.abs(Date.parse(String(ticket?.["since"])) - Date.now())).toBeLessThan(DAY_MS / 24);
  }, 60_000);

  test("is another one after a restart: leases end neither early nor late, and nothing is renewed by it", async () => {
    const clock = new WallClock();
    let running = await server({ env: clock.env });
    for (const jump of ["+1y", "-1y"]) {
      const tookMs = await blockedMs(
        () => running,
        async () => {
          await running.kill();
          clock.jumpTo(jump);
          running = await restarted(running, { env: clock.env });
        },
      );
      expect(tookMs).toBeGreaterThan(1_400);
      expect(tookMs).toBeLessThan(6_000);
    }
  }, 60_000);
});

describe("a client's wall clock", () => {
  test("jumps while it holds and renews: nothing is lost, and nobody else gets in", async () => {
    const clock = new WallClock();
    const running = await server();
    const ledger = join(directory(), "ledger");
    const options = { server: running.address, ledger, objects: ["object"], loops: 2, waitMs: 20_000, durationMs: 1_500, unlockDurationMs: 500, holdMsMax: 0 };
    const jumping = load({ ...options, name: "jumping", holdMs: 2_500 }, clock.env);
    const steady = load({ ...options, name: "steady", holdMs: 50 });
    for (const jump of JUMPS) {
      const before = readLedger(ledger).length;
      clock.jumpTo(jump);
      await eventually("renewals go on", () => readLedger(ledger).slice(before).filter(({ event }) => event === "renewed").length >= 3);
    }
    const reports = await Promise.all([jumping.finish(), steady.finish()]);
    expect(reports.map(({ lost }) => lost)).toEqual([{}, {}]);
    expect(violations(readLedger(ledger))).toEqual([]);
  }, 60_000);

  test("jumps under exec: its command is left alone, and ends with its own code", async () => {
    const clock = new WallClock();
    const running = await server();
    const mark = join(directory(), "mark");
    const command = `echo started > ${mark}; sleep 3; exit 7`;
    const child = Bun.spawn([LOCKD, "exec", "object", "--duration", "1500ms", "--unlock-duration", "500ms", "--", "sh", "-c", command], {
      env: environment({ ...clock.env, LOCKD_CONNECT: running.address }),
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    });
    later(() => child.kill("SIGKILL"));
    await eventually("the command runs", () => existsSync(mark));
    for (const jump of JUMPS) {
      clock.jumpTo(jump);
      await Bun.sleep(300);
    }
    expect(await child.exited).toBe(7);
    expect(await new Response(child.stderr).text()).toBe("");
  }, 60_000);
});

describe("a server that stands still for longer than the leases", () => {
  test("gives no lock to two: its holders know before it goes on that they lost theirs", async () => {
    const running = await server();
    const ledger = join(directory(), "ledger");
    const options = { server: running.address, ledger, loops: 3, holdMsMax: 0, holdMs: 10_000, waitMs: 20_000, durationMs: 1_000, unlockDurationMs: 500 };
    const working = ["red", "green"].map((object) => load({ ...options, name: object, objects: [object] }));
    const count = (wanted: string): number => readLedger(ledger).filter(({ event }) => event === wanted).length;
    await eventually("both locks are held and renewed", () => count("enter") === 2 && count("renewed") >= 4);
    running.signal("SIGSTOP");
    await Bun.sleep(2_200);
    const during = readLedger(ledger);
    running.signal("SIGCONT");
    expect(violations(during)).toEqual([]);
    await eventually("both locks have gone on", () => count("enter") >= 4);
    const reports = await Promise.all(working.map((one) => one.finish()));
    expect(violations(readLedger(ledger))).toEqual([]);
    expect(total(reports).lost).toEqual({ unreachable: 2 });
  }, 60_000);
});

describe("a client that stands still for longer than its lease", () => {
  test("hears of the loss before it does anything, and the resource refuses its token", async () => {
    const running = await server();
    const folder = directory();
    const program = Bun.spawn([process.execPath, "--no-env-file", join(import.meta.dir, "../chaos/paused-program.ts"), running.address, folder], {
      env: environment(),
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
    });
    later(() => program.kill("SIGKILL"));
    await eventually("it holds the lock", () => existsSync(join(folder, "holding")));
    const { token }: { token: number } = JSON.parse(readFileSync(join(folder, "holding"), "utf8"));
    program.kill("SIGSTOP");
    const script = resolve(import.meta.dir, "../../examples/fencing/fenced-append.sh");
    const file = join(folder, "resource");
    const next = await running.run(["exec", "object", "--wait", "20s", "--", script, file, "second"]);
    expect(next).toMatchObject({ code: 0 });
    program.kill("SIGCONT");
    const said: { ticksBeforeLoss: number; lost: string; release: string } = JSON.parse(await new Response(program.stdout).text());
    expect(said).toEqual({ ticksBeforeLoss: 0, lost: "lost", release: "lost" });
    // whoever does not ask before it acts is stopped by its token
    const late = Bun.spawnSync([script, file, "first"], { env: environment({ LOCKD_TOKEN: String(token) }), stdout: "pipe", stderr: "pipe" });
    expect(late.exitCode).toBe(9);
    expect(late.stderr.toString()).toContain(`token ${token} is older`);
    expect(readFileSync(file, "utf8")).toBe("second\n");
  }, 60_000);

  test("under exec is found ended, with its command, when it goes on", async () => {
    const running = await server();
    const judge = join(directory(), "judge");
    const words = (name: string): string[] => [
      "exec", "object", "--duration", "1s", "--unlock-duration", "1s", "--wait", "20s",
      "--", "sh", "-c", `echo enter ${name} >> ${judge}; while :; do echo work ${name} >> ${judge}; sleep 0.02; done`,
    ];
    const first = running.spawn(words("first"));
    later(() => first.kill("SIGKILL"));
    await eventually("the command works", () => existsSync(judge));
    first.kill("SIGSTOP");
    const next = running.spawn(words("second"));
    const lines = (): string[] => readFileSync(judge, "utf8").split("\n");
    await eventually("the next holder starts", () => lines().includes("enter second"));
    first.kill("SIGCONT");
    expect(await first.exited).toBe(76);
    next.kill("SIGTERM");
    await next.exited;
    const after = lines().slice(lines().indexOf("enter second"));
    expect(after.filter((line) => line.includes("first"))).toEqual([]);
    expect((await lockd(["lock", "object", "--wait", "0"], { env: { LOCKD_CONNECT: running.address } })).code).toBe(0);
  }, 60_000);
});

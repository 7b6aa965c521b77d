import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { LockWorld, output, type TicketLine } from "./locks-kit.ts";

let world: LockWorld;

beforeAll(async () => {
  world = await LockWorld.start("durations");
});
afterAll(() => world.clear());

const DAY_MS = 86_400_000;
const NONSENSE = ["-1", "-0", "NaN", "Infinity", "1e12", "1e3", "abc", "", " 1s", "1s ", "1h1m", "+1", "0x10", "1_000", "5 s", "0.4999s", ".5", "1.", "１", "9".repeat(30)];
const FLAGS = [
  { flag: "wait", accepted: "0s to 7d", outside: ["26d", "604800.001", "7.1d"] },
  { flag: "duration", accepted: "500ms to 7d", outside: ["0", "499ms", "0.499", "26d", "604800.001"] },
  { flag: "unlock-duration", accepted: "500ms to 1h", outside: ["0", "499ms", "0.499", "26d", "3600.001", "61m"] },
  { flag: "lock-delay", accepted: "0s to 1h", outside: ["26d", "3600.001", "61m"] },
];

/** The only ticket of a lock taken with these flags, and the time since it was taken. */
async function taken(object: string, ...flags: readonly string[]): Promise<{ ticket: TicketLine; afterMs: number }> {
  const startMs = Date.now();
  await world.lock(object, ...flags);
  const [ticket] = await world.ticketsOf(object);
  if (ticket === undefined) throw new Error("no ticket");
  return { ticket, afterMs: Date.now() - startMs };
}

/** `time` is `durationMs` from the moment of the grant, which lay within the `afterMs` before now. */
function expectEnd(time: string | undefined, durationMs: number, afterMs: number): void {
  const leftMs = Date.parse(time ?? "") - Date.now();
  expect(leftMs).toBeLessThanOrEqual(durationMs + 5);
  expect(leftMs).toBeGreaterThanOrEqual(durationMs - afterMs - 50);
}

describe("durations", () => {
  for (const { flag, accepted, outside } of FLAGS) {
    test(`--${flag} refuses nonsense and what is out of range with 64, and says what is accepted`, async () => {
      for (const text of [...NONSENSE, ...outside]) {
        for (const argv of [["lock", "refused", `--${flag}=${text}`], ["exec", "refused", `--${flag}=${text}`, "--", "true"]]) {
          const finished = await world.run(...argv);
          expect([text, finished.code, finished.stdout]).toEqual([text, 64, ""]);
          expect(finished.stderr).toContain(`--${flag}`);
          expect(finished.stderr).toContain(`accepted: ${accepted}`);
        }
      }
      expect(await world.ticketsOf("refused")).toEqual([]);
    });
  }

  test("--duration of renew and --wait of wait have the same bounds", async () => {
    const { handle } = await world.lock("same");
    for (const text of [...NONSENSE, "0", "499ms", "26d"]) expect(output(await world.run("renew", `--duration=${text}`, handle), 64)).toBe("");
    for (const text of [...NONSENSE, "26d"]) expect(output(await world.run("wait", "same", `--wait=${text}`), 64)).toBe("");
  });

  test("accepted ones take effect exactly, at both ends of the range and in between", async () => {
    for (const [text, durationMs] of [["0.5s", 500], ["500ms", 500], ["0.5", 500], ["1", 1000], ["1.001", 1001], ["2s", 2000], ["3m", 180_000], ["1h", 3_600_000], ["7d", 7 * DAY_MS]] as const) {
      const { ticket, afterMs } = await taken(`duration/${text}`, "--duration", text, "--unlock-duration", "1h");
      expectEnd(ticket.expires, durationMs, afterMs);
    }
    for (const [text, graceMs] of [["500ms", 500], ["0.5", 500], ["1.5s", 1500], ["60m", 3_600_000], ["1h", 3_600_000]] as const) {
      const { ticket } = await taken(`grace/${text}`, "--unlock-duration", text);
      expect(Date.parse(ticket.freeAt ?? "") - Date.parse(ticket.expires ?? "")).toBe(graceMs);
    }
    await world.lock("waits", "--duration", "1h");
    for (const [text, waitMs] of [["1.5s", 1500], ["1m", 60_000], ["7d", 7 * DAY_MS]] as const) {
      const startMs = Date.now();
      const waiter = await world.waiter("waits", "--wait", text);
      const ticket = (await world.ticketsOf("waits")).find(({ holder }) => holder.pid === waiter.pid);
      expectEnd(ticket?.waitDeadline, waitMs, Date.now() - startMs);
      waiter.kill("SIGTERM");
      await waiter.finished();
    }
  });

  test("defaults are those of the help: 10s for exec and --hold, 30s detached, 5s of grace", async () => {
    const { ticket, afterMs } = await taken("default/detached");
    expectEnd(ticket.expires, 30_000, afterMs);
    const startMs = Date.now();
    await world.holder("default/hold");
    const exec = world.start(["exec", "default/exec", "--", "sh", "-c", "echo; exec sleep 1000"]);
    await exec.line(0);
    for (const object of ["default/hold", "default/exec"]) {
      const [held] = await world.ticketsOf(object);
      expectEnd(held?.expires, 10_000, Date.now() - startMs);
      expect(Date.parse(held?.freeAt ?? "") - Date.parse(held?.expires ?? "")).toBe(5000);
    }
  });

  test("what lock --json says expires is never later than the lock really ends, and the wait is not a second longer", async () => {
    const lock = await world.lock("said", "--duration", "1m");
    const [ticket] = await world.ticketsOf("said");
    expect(Date.parse(lock.expires)).toBeLessThanOrEqual(Date.parse(ticket?.expires ?? ""));
    const startMs = performance.now();
    expect((await world.run("lock", "said", "--wait", "700ms")).code).toBe(75);
    const waitedMs = performance.now() - startMs;
    expect(waitedMs).toBeGreaterThanOrEqual(690);
  });
});

import { describe, expect, test } from "bun:test";
import { median, within, worst } from "../../src/cli/doctor/check.ts";
import { rateCheck, synchronisationCheck } from "../../src/cli/doctor/clocks.ts";
import { checkLimits } from "../../src/cli/doctor/machine.ts";
import { judgeServer } from "../../src/cli/doctor/servers.ts";

describe("doctor judges", () => {
  test.each([
    [{ bootMs: 600, wallMs: 600 }, "ok", "the same 600 ms"],
    [{ bootMs: 605, wallMs: 590 }, "ok", "the same 600 ms"],
    [{ bootMs: 600, wallMs: 4200 }, "warning", "set by 3600 ms"],
    [{ bootMs: 600, wallMs: -9400 }, "warning", "set by -10000 ms"],
    [{ bootMs: 90_600, wallMs: 90_600 }, "warning", "the machine was suspended"],
  ] as const)("clocks that went %j in 600 ms", (others, state, part) => {
    expect(rateCheck(600, others)).toMatchObject({ check: "clock", state, summary: expect.stringContaining(part) });
  });

  test("time that is synchronised, is not, or is not known", () => {
    expect([true, false, null].map((known) => synchronisationCheck(known).state)).toEqual(["ok", "warning", "ok"]);
  });

  test("a server of another version, one that is not ready, and one that is well", () => {
    const status = { name: "n1", mode: "serve", version: "1.2.3", ready: true, reason: null };
    const judge = (changes: Partial<typeof status> & { reason?: null }, software = "1.2.3") => judgeServer({ check: "server a:1", address: "a:1", software, status: { ...status, ...changes }, roundTripMs: 0.5 });
    expect(judge({})).toMatchObject({ state: "ok", summary: "node n1, lockd 1.2.3, mode serve, round trip 0.50 ms, ready" });
    expect(judge({}, "1.3.0")).toMatchObject({ state: "warning", summary: expect.stringContaining("this is lockd 1.3.0") });
    expect(judge({ ready: false })).toMatchObject({ state: "failed", summary: expect.stringContaining("not ready") });
  });

  test("a limit of open files that cannot be seen as no fault", () => {
    expect(checkLimits(null).state).toBe("ok");
    expect(checkLimits(1_000_000)).toMatchObject({ state: "ok", details: { connections: 20_000 } });
  });

  test("the whole by its worst part", () => {
    expect([worst([]), worst(["ok", "warning"]), worst(["warning", "failed", "ok"])]).toEqual(["ok", "warning", "failed"]);
    expect([median([5, 1, 3]), median([2, 1])]).toEqual([3, 2]);
  });

  test("what does not end in time as late, and does not mind how it ends later", async () => {
    expect(await within(5, new Promise(() => undefined), "late")).toBe("late");
    const failing = new Promise((_, reject) => setTimeout(() => reject(new Error("too late")), 20));
    expect(await within(1, failing, "late")).toBe("late");
    expect(await within(60_000, Promise.resolve("there"), "late")).toBe("there");
    await expect(failing).rejects.toThrow("too late");
  });
});

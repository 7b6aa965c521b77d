import { describe, expect, test } from "bun:test";
import { HealthChecks } from "../../src/observe/health.ts";

describe("a report", () => {
  test("is ok when every check of its kind is, and names the reason of each that is not", () => {
    const checks = new HealthChecks();
    let reachable = true;
    checks.scope("raft").add("ready", "quorum", () => (reachable ? { ok: true } : { ok: false, reason: "two of three are away" }));
    checks.scope("lock").add("ready", "engine", () => ({ ok: true, reason: "never shown" }));
    checks.scope("lockd").add("live", "store", () => ({ ok: false }));
    expect(checks.report("ready")).toEqual({
      ok: true,
      checks: [{ name: "quorum", ok: true, reason: null }, { name: "engine", ok: true, reason: null }],
    });
    reachable = false;
    expect(checks.report("ready")).toMatchObject({ ok: false, checks: [{ ok: false, reason: "two of three are away" }, { ok: true }] });
    expect(checks.report("live")).toEqual({ ok: false, checks: [{ name: "store", ok: false, reason: "no reason given" }] });
  });

  test("takes a check that throws for one that is not ok", () => {
    const checks = new HealthChecks();
    checks.scope("lock").add("live", "engine", () => {
      throw new Error("gone");
    });
    expect(checks.report("live")).toEqual({ ok: false, checks: [{ name: "engine", ok: false, reason: "the check failed: gone" }] });
  });

  test("without checks is ok", () => {
    expect(new HealthChecks().report("ready")).toEqual({ ok: true, checks: [] });
  });
});

test("two checks of one kind and name are a configuration error that names both owners", () => {
  const checks = new HealthChecks();
  checks.scope("lock").add("ready", "engine", () => ({ ok: true }));
  checks.scope("raft").add("live", "engine", () => ({ ok: true }));
  expect(() => checks.scope("raft").add("ready", "engine", () => ({ ok: true }))).toThrow(/raft and lock both/);
});

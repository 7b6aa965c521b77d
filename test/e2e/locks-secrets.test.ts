import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { eventually } from "./kit.ts";
import { LockWorld, output } from "./locks-kit.ts";

let world: LockWorld;

beforeAll(async () => {
  world = await LockWorld.start("secrets", ["--trace-messages", "--log-level", "trace"]);
});
afterAll(() => world.clear());

/** The arguments of every process, as `ps` shows them to everybody. */
function processArguments(): string {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "latin1");
      } catch {
        return "";
      }
    })
    .join("\n");
}

test("a handle is in no listing, no event, no log, not even a trace, and in no process's arguments", async () => {
  const detached = await world.lock("secret", "--value", "shown");
  const holder = await world.holder("secret/hold");
  const exec = world.start(["exec", "secret/exec", "--share-command", "--log-level", "trace", "--", "sh", "-c", 'echo "$LOCKD_HANDLE"; exec sleep 1000']);
  const handles = [detached.handle, holder.lock.handle, await exec.line(0)];
  const next = await world.waiter("secret");
  const nested = world.start(["lock", "secret/exec", "--wait", "100ms"], { LOCKD_HANDLE: handles[2] ?? "" });
  const refused = await nested.finished();
  const seen = [refused.stderr, processArguments()];
  for (const handle of handles) await world.server.run(["renew", "-"], { stdin: handle });
  for (const object of ["secret", "secret/hold", "secret/exec"]) {
    for (const argv of [["list", object], ["why", object], ["events", object]]) {
      seen.push(output(await world.run(...argv)), output(await world.run(...argv, "--json")));
    }
  }
  for (const argv of [["sessions"], ["status"]]) seen.push(output(await world.run(...argv)), output(await world.run(...argv, "--json")));
  const session = (await world.ticketsOf("secret/hold"))[0]?.holder.session ?? "";
  for (const handle of handles) {
    const unlocked = await world.server.run(["unlock", "-"], { stdin: handle });
    const again = await world.server.run(["unlock", "-", "--json"], { stdin: handle });
    seen.push(unlocked.stderr, again.stderr);
  }
  await next.line(0);
  handles.push(next.json<{ handle: string }>(0).handle);
  seen.push((await world.run("kick", "--", session)).stderr);
  for (const signal of ["SIGUSR1", "SIGUSR2"] as const) world.server.process.kill(signal);
  await eventually("the state is in the log", () => world.server.log.some((line) => line.includes("lastToken")));
  expect(await world.server.stop()).toBe(0);
  const log = world.server.log.join("\n");
  expect(log).toContain("LOCKED");
  seen.push(log, (await exec.finished()).stderr, (await holder.finished()).stderr);
  for (const handle of handles) {
    expect(handle.length).toBeGreaterThan(21);
    for (const text of seen) expect(text.includes(handle)).toBe(false);
  }
});

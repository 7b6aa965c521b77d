/**
 * A lock that is taken by force from a holder that cannot hear it: stopped, or behind a network that
 * swallows everything. The judge is a file to which every command under the lock appends.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually, LOCKD, temporaryDirectory, TestServer } from "./kit.ts";
import { LockWorld, output, type Running } from "./locks-kit.ts";
import { CuttableProxy } from "./proxy.ts";

setDefaultTimeout(60_000);
const directory = temporaryDirectory("force");
let world: LockWorld;
let object = "";
let count = 0;

beforeAll(async () => {
  world = await LockWorld.start("force-server");
});
afterAll(async () => {
  await world.clear();
  directory.remove();
});
beforeEach(() => {
  count += 1;
  object = `object-${count}`;
});

const judge = (): string => join(directory.path, object);
const lines = (): string[] => (existsSync(judge()) ? readFileSync(judge(), "utf8").split("\n") : []);

/** The lease is much longer than the grace, so that whoever waits only for the grace comes in too early. */
const SHORT = ["--duration", "3s", "--unlock-duration", "1s"];
const LONG = ["--duration", "1h", "--unlock-duration", "1s"];

/** An exec whose command writes to the judge until it is killed: TERM alone does not end it. */
const words = (name: string, flags: readonly string[] = SHORT): string[] => [
  "exec", object, "--wait", "50s", ...flags,
  "--", "sh", "-c", `trap '' TERM; while :; do echo ${name} >> ${judge()}; sleep 0.01; done`,
];

async function works(name: string): Promise<void> {
  await eventually(`${name} works`, () => lines().includes(name));
}

/** Nothing of an earlier command comes after the first line of a later one. */
function expectTurns(...names: string[]): void {
  const turns = lines().filter((line, index, all) => line !== "" && line !== all[index - 1]);
  expect(turns).toEqual(names);
}

const tokenOf = async (name = object): Promise<string> => String((await world.ticketsOf(name)).find(({ state }) => state === "locked")?.token);

const release = async (...flags: string[]): Promise<string> =>
  output(await world.run("release", object, "--force", "--token", await tokenOf(), ...flags));

async function end(...running: Running[]): Promise<void> {
  for (const one of running) {
    one.kill("SIGKILL");
    await one.finished();
  }
}

describe("a holder that cannot hear of a force", () => {
  test("because its wrapper is stopped: its command has ended before the next one starts", async () => {
    const first = world.start(words("first"));
    await works("first");
    first.kill("SIGSTOP");
    const told = await release();
    expect(told).toContain("free in at most ");
    const second = world.start(words("second"));
    await works("second");
    first.kill("SIGCONT");
    expect((await first.finished()).code).toBe(76);
    expectTurns("first", "second");
    await end(second);
  });

  test("because the network swallows everything: its command has ended before the next one starts", async () => {
    const proxy = await CuttableProxy.start(world.server.address);
    const first = world.start(words("first"), { LOCKD_CONNECT: proxy.address });
    await works("first");
    proxy.cut();
    await release();
    const second = world.start(words("second"));
    await works("second");
    expect((await first.finished()).code).toBe(76);
    expectTurns("first", "second");
    proxy.close();
    await end(second);
  });

  test("because its wrapper is stopped while its session is kicked: the same", async () => {
    const first = world.start(words("first"));
    await works("first");
    const session = (await world.ticketsOf(object))[0]?.holder.session ?? "";
    first.kill("SIGSTOP");
    output(await world.run("kick", "--", session));
    const second = world.start(words("second"));
    await works("second");
    first.kill("SIGCONT");
    expect((await first.finished()).code).toBe(76);
    expectTurns("first", "second");
    await end(second);
  });

  test("is waited for also by a server that was killed and started again", async () => {
    const data = join(directory.path, "data");
    const other = await TestServer.start({ directory: data });
    const env = { LOCKD_CONNECT: other.address };
    const first = world.start(words("first"), env);
    await works("first");
    first.kill("SIGSTOP");
    const [held] = await other.list(object);
    expect((await other.run(["release", object, "--force", "--token", String(held?.["token"])])).code).toBe(0);
    await other.kill();
    const again = await TestServer.start({ directory: data, listen: other.address });
    const second = world.start(words("second"), env);
    await works("second");
    first.kill("SIGCONT");
    expect((await first.finished()).code).toBe(76);
    expectTurns("first", "second");
    await end(second);
    await again.kill();
  });

  test("and is stated to be dead is waited for no longer than its unlock duration", async () => {
    const first = world.start(words("first", LONG));
    await works("first");
    first.kill("SIGSTOP");
    const early = await release();
    expect(early).toContain("free in at most 1h");
    const [told] = await world.ticketsOf(object);
    expect(told).toMatchObject({ state: "unlocking" });
    expect(Date.parse(told?.freeAt ?? "") - Date.now()).toBeGreaterThan(60_000);
    const second = world.start(["exec", object, "--", "true"]);
    await world.waits(object, second.pid);
    const late = output(await world.run("release", object, "--force", "--token", String(told?.token), "--dead"));
    expect(late).toContain("stated to be dead; free in 1s");
    expect((await second.finished()).code).toBe(0);
    expect((await world.events(object)).filter(({ event }) => event === "forced").map(({ reason }) => reason?.includes("the holder is dead"))).toEqual([false, true]);
    await end(first);
  });
});

describe("a holder that hears", () => {
  test("is out after its unlock duration at the latest, however long its lease, and free as soon as its command has ended", async () => {
    const first = world.start(words("first", LONG));
    await works("first");
    const second = world.start(words("second"));
    await world.waits(object, second.pid);
    await release();
    expect((await first.finished()).code).toBe(76);
    await works("second");
    expectTurns("first", "second");
    await end(second);
  });

  test("confirms even when it does not unlock: the bound in the listing falls from its lease to its unlock duration", async () => {
    const program = join(directory.path, "program.ts");
    const client = join(import.meta.dir, "../../src/client/client.ts");
    // a program that hears of the loss and goes on
    await Bun.write(program, `
      import { connect } from ${JSON.stringify(client)};
      const client = await connect({ servers: [process.argv[2]] });
      const lock = await client.lock(process.argv[3], { duration: 3_600_000, unlockDuration: 600_000 });
      lock.signal.addEventListener("abort", () => console.log("lost"));
      console.log("held");
      setInterval(() => undefined, 1_000);
    `);
    const child = Bun.spawn([process.execPath, "--no-env-file", program, world.server.address, object], { stdin: "ignore", stdout: "pipe", stderr: "inherit" });
    try {
      await eventually("it holds", async () => (await world.ticketsOf(object)).length === 1);
      await release();
      await eventually("it confirms", async () => Date.parse((await world.ticketsOf(object))[0]?.freeAt ?? "") - Date.now() <= 600_000);
      expect((await world.ticketsOf(object))[0]).toMatchObject({ state: "unlocking" });
    } finally {
      child.kill("SIGKILL");
      await child.exited;
    }
  });

  test("by --hold ends and is free at once", async () => {
    const holder = await world.holder(object, ...LONG);
    await release();
    expect((await holder.finished()).code).toBe(76);
    await eventually("it is free", async () => (await world.ticketsOf(object)).length === 0);
  });
});

test("nobody listens for a detached lock: a force ends it after its unlock duration", async () => {
  await world.lock(object, ...LONG);
  expect(await release()).toContain("free in 1s");
  output(await world.run("wait", object, "--wait", "50s"));
});

test("the duration of a lock that a command holds cannot be shortened behind its back", async () => {
  const result = await world.run("exec", object, "--duration", "10s", "--", "sh", "-c", `${LOCKD} renew --duration 500ms --connect ${world.server.address}; test $? = 64 && ${LOCKD} renew --duration 1m --connect ${world.server.address}`);
  expect(result.stderr).toContain("counts on 10s");
  expect(result.code).toBe(0);
});

/**
 * Programs that use the client library, under Bun and under Node at the same time, while connections
 * break, stall and vanish and the server dies. What they wrote to one append-only file is the judge.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "../../src/client/client.ts";
import { eventually, temporaryDirectory, TestServer } from "./kit.ts";
import { type Program, type Runtime, RUNTIMES, Workshop } from "./library-kit.ts";
import { CuttableProxy } from "./proxy.ts";
import { sectionsOf } from "./sections.ts";

setDefaultTimeout(60_000);

const directory = temporaryDirectory("library-faults");
let server: TestServer;
let workshop: Workshop;
let program = "";
let count = 0;

beforeAll(async () => {
  [server, workshop] = await Promise.all([TestServer.start({ directory: join(directory.path, "data") }), Workshop.open("library-faults-programs")]);
  program = join(workshop.path, "program.js");
  copyFileSync(join(import.meta.dir, "library-program.js"), program);
});
afterAll(async () => {
  await workshop.close();
  await server.kill();
  directory.remove();
});

/** kill -9 and a start on the same port with the same data. */
async function restart(): Promise<void> {
  const { address } = server;
  await server.kill();
  server = await TestServer.start({ directory: join(directory.path, "data"), listen: address });
}

/** One holder behind a proxy, and one behind it in the queue that talks to the server itself. */
interface Scene {
  runtime: Runtime;
  name: string;
  holder: Program;
  waiter: Program;
  path: string;
}

async function playScene(runtime: Runtime, address: string, durationMs: number): Promise<Scene> {
  count += 1;
  const name = `${runtime}-${count}`;
  const path = join(workshop.path, `${name}.log`);
  const start = (at: string): Program => workshop.start(runtime, program, at, name, path, String(durationMs), "2000", "lock");
  const holder = start(address);
  await holder.line("held");
  const waiter = start(server.address);
  await eventually("the second one waits", async () => (await server.list(name)).length === 2);
  return { runtime, name, holder, waiter, path };
}

const renewals = (from: Program): number => from.lines.filter((line) => line === "renewed").length;

/** Both runtimes at once, behind one proxy. */
async function inBoth(durationMs: number, play: (scenes: readonly Scene[], proxy: CuttableProxy) => Promise<void>): Promise<void> {
  const proxy = await CuttableProxy.start(server.address);
  try {
    await play(await Promise.all(RUNTIMES.map((runtime) => playScene(runtime, proxy.address, durationMs))), proxy);
  } finally {
    proxy.close();
  }
}

/** The holder gives back the lock that it got in the beginning, and only then does the next one begin. */
async function expectKept({ runtime, holder, waiter, path }: Scene): Promise<void> {
  holder.process.stdin.write("end\n");
  holder.process.stdin.end();
  expect([runtime, (await holder.line("released")).replace("released", "held")]).toEqual([runtime, await holder.line("held")]);
  expect(await holder.finished).toMatchObject({ code: 0, stderr: "" });
  await expectNext(waiter, path);
}

/** The holder stops by itself, for a reason that it is told, and only then does the next one begin. */
async function expectLost({ runtime, holder, waiter, path }: Scene, reason: RegExp): Promise<void> {
  expect([runtime, await holder.line("lost")]).toEqual([runtime, expect.stringMatching(reason)]);
  await expectNext(waiter, path);
  expect(await holder.finished).toMatchObject({ code: 0, stderr: "" });
}

async function expectNext(waiter: Program, path: string): Promise<void> {
  await waiter.line("held");
  waiter.process.stdin.write("end\n");
  waiter.process.stdin.end();
  expect(await waiter.finished).toMatchObject({ code: 0, stderr: "" });
  expect(sectionsOf(path)).toHaveLength(2);
}

test("a lock is kept with its token through broken connections and kill -9 of the server", async () => {
  await inBoth(5_000, async (scenes, proxy) => {
    const next = async (disturb: () => void | Promise<void>): Promise<void> => {
      const before = scenes.map(({ holder }) => renewals(holder));
      await disturb();
      await Promise.all(scenes.map(({ holder }, index) => holder.line("renewed", (before[index] ?? 0) + 1)));
    };
    await next(() => proxy.reset());
    await next(() => proxy.reset());
    await next(restart);
    await next(() => proxy.reset());
    await Promise.all(scenes.map(expectKept));
  });
});

test("a lock is kept with its token when the wire stalls for less than the duration", async () => {
  await inBoth(6_000, async (scenes, proxy) => {
    proxy.stall();
    await Bun.sleep(1_000);
    const before = scenes.map(({ holder }) => renewals(holder));
    proxy.flow();
    await Promise.all(scenes.map(({ holder }, index) => holder.line("renewed", (before[index] ?? 0) + 1)));
    await Promise.all(scenes.map(expectKept));
  });
});

test("a lock behind a black hole aborts its signal before the next one gets it", async () => {
  await inBoth(2_000, async (scenes, proxy) => {
    proxy.cut();
    await Promise.all(scenes.map((scene) => expectLost(scene, /^lost lost (?:unreachable|expired)$/)));
  });
});

test("a lock behind a wire that stalls too long aborts its signal before the next one gets it, and stays lost", async () => {
  await inBoth(2_000, async (scenes, proxy) => {
    proxy.stall();
    await Promise.all(scenes.map(({ holder }) => holder.line("lost")));
    proxy.flow();
    await Promise.all(scenes.map((scene) => expectLost(scene, /^lost lost (?:unreachable|expired)$/)));
  });
});

test("a lock of a server that is killed and comes back too late aborts its signal before the next one gets it", async () => {
  await inBoth(2_000, async (scenes) => {
    await server.kill();
    await Promise.all(scenes.map(({ holder }) => holder.line("lost")));
    await restart();
    await Promise.all(scenes.map((scene) => expectLost(scene, /^lost lost unreachable$/)));
  });
});

test("a value that is proclaimed while there is no server is told when it is back, and not when the leadership is over by then", async () => {
  await using client = await connect({ servers: [server.address] });
  const leadership = await client.campaign("proclaimed", { value: "one", duration: 10_000 });
  const brief = await client.campaign("brief", { value: "one", duration: 500, unlockDuration: 500 });
  await server.kill();
  const told = [leadership.proclaim("two"), leadership.proclaim("three")];
  const untold = brief.proclaim("two").catch((error: unknown) => error);
  expect(await untold).toMatchObject({ code: "lost", reason: "unreachable" });
  await restart();
  await Promise.all(told);
  expect([await client.leader("proclaimed"), await client.leader("brief")]).toMatchObject([{ value: "three", token: leadership.token }, null]);
  await leadership.resign();
});

test("a lock that is taken by force aborts its signal before the next one gets it", async () => {
  await inBoth(30_000, async (scenes) => {
    for (const { name, holder } of scenes) {
      const token = (await holder.line("held")).split(" ")[1] ?? "";
      expect((await server.run(["release", name, "--force", "--token", token])).code).toBe(0);
    }
    await Promise.all(scenes.map((scene) => expectLost(scene, /^lost lost forced$/)));
  });
});

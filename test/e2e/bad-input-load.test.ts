import { afterEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { encodeFrame } from "../../src/wire/frame.ts";
import { eventually, TestServer, temporaryDirectory } from "./kit.ts";
import { connectTo } from "./locks-client.ts";
import { output } from "./locks-kit.ts";
import { HELLO, RawClient } from "./raw-client.ts";

const cleanUp: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const undo of cleanUp.splice(0).reverse()) await undo();
});

async function start(prefix: readonly string[] = []): Promise<TestServer> {
  const directory = temporaryDirectory("load");
  cleanUp.push(directory.remove);
  const server = await TestServer.start({ directory: directory.path, prefix });
  cleanUp.push(() => server.kill());
  return server;
}

/** Resident memory of the server, MiB. */
const residentMiB = (server: TestServer): number =>
  Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${server.process.pid}/status`, "utf8"))?.[1]) / 1024;

/** Processor time of the server so far, milliseconds (100 ticks a second). */
function processorMs(server: TestServer): number {
  const fields = readFileSync(`/proc/${server.process.pid}/stat`, "utf8").replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

const isReady = async (server: TestServer): Promise<void> => {
  expect(output(await server.run(["status", "--json"]))).toContain('"ready":true');
};

describe("connections", () => {
  test("10,000 that are idle cost little memory, and a good client works beside them", async () => {
    const server = await start();
    const before = residentMiB(server);
    const port = Number(server.address.split(":")[1]);
    const hello = encodeFrame("HELLO", 0, HELLO);
    // both ends of each connection are in this machine; this process keeps some descriptors for itself
    const limit = Number(/^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1]);
    const count = Math.min(10_000, limit - 500);
    let greeted = 0;
    let closed = 0;
    const sockets: Bun.Socket[] = [];
    cleanUp.push(() => sockets.forEach((socket) => socket.terminate()));
    for (let opened = 0; opened < count; opened += 200) {
      const batch = Array.from({ length: Math.min(200, count - opened) }, () =>
        Bun.connect({
          hostname: "127.0.0.1",
          port,
          socket: {
            open: (socket) => void socket.write(hello),
            data: () => void (greeted += 1),
            close: () => void (closed += 1),
          },
        }),
      );
      sockets.push(...(await Promise.all(batch)));
    }
    await eventually("all are greeted", () => greeted >= count);
    expect(closed).toBe(0);
    expect(residentMiB(server) - before).toBeLessThan(200);
    const client = await connectTo(server.address);
    for (let cycle = 0; cycle < 50; cycle += 1) await (await client.lock("beside")).release();
    await client.close();
    const busyMs = processorMs(server);
    await Bun.sleep(500);
    expect(processorMs(server) - busyMs).toBeLessThan(400);
  });

  test("200 with 64 descriptors, one by one or in a burst: those over the limit are refused, the processor idles, and it recovers", async () => {
    const server = await start(["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]);
    const clients: RawClient[] = [];
    cleanUp.push(() => clients.forEach((client) => client.destroy()));
    const greet = async (): Promise<"greeted" | "refused"> => {
      try {
        const client = await RawClient.connect(server.address);
        clients.push(client);
        client.send("HELLO", 0, HELLO);
        await eventually("it is greeted or closed", () => client.closed || client.frames.length > 0);
        return client.frames[0]?.type === "HELLO" ? "greeted" : "refused";
      } catch {
        return "refused";
      }
    };
    const recovers = async (): Promise<void> => {
      expect(server.process.exitCode).toBeNull();
      const busyMs = processorMs(server);
      await Bun.sleep(500);
      expect(processorMs(server) - busyMs).toBeLessThan(250);
      for (const client of clients.splice(0)) client.destroy();
      await eventually("it serves again", async () => (await server.run(["status"])).code === 0);
    };
    const oneByOne: string[] = [];
    for (let attempt = 0; attempt < 200; attempt += 1) oneByOne.push(await greet());
    const greeted = oneByOne.filter((outcome) => outcome === "greeted").length;
    expect(greeted).toBeGreaterThan(5);
    expect(greeted).toBeLessThan(64);
    await recovers();
    const burst = await Promise.all(Array.from({ length: 200 }, greet));
    expect(burst).toContain("greeted");
    expect(burst).toContain("refused");
    await recovers();
    expect(server.log.filter((line) => line.includes("connections-full")).length).toBeGreaterThan(0);
    expect(server.log.filter((line) => line.includes('"level":"error"'))).toEqual([]);
    output(await server.run(["lock", "afterwards", "--wait", "0"]));
  });
});

describe("a client that never reads", () => {
  test("its answers: the memory stays bounded, and others are served", async () => {
    const server = await start();
    const client = await connectTo(server.address);
    await Promise.all(Array.from({ length: 2000 }, (_none, index) => client.lock(`${"n".repeat(1000)}/${index}`)));
    const before = residentMiB(server);
    const lazy = await RawClient.greeted(server.address);
    cleanUp.push(() => lazy.destroy());
    lazy.socket.pause();
    // 600 MB of answers
    for (let request = 1; request <= 600; request += 1) lazy.send("LISTTICKETS", request, { limit: 1000 });
    let worstMiB = 0;
    for (let cycle = 0; cycle < 100; cycle += 1) {
      await (await client.lock("served")).release();
      worstMiB = Math.max(worstMiB, residentMiB(server) - before);
      await Bun.sleep(10);
    }
    expect(worstMiB).toBeLessThan(200);
    expect(lazy.received).toBeLessThan(2 ** 26);
    await client.close();
    await isReady(server);
  });

  test("the events it follows: it is closed when too much waits for it, and others get all", async () => {
    const server = await start();
    const [client, reader] = [await connectTo(server.address), await connectTo(server.address)];
    const lazy = await RawClient.greeted(server.address);
    cleanUp.push(() => lazy.destroy());
    await lazy.ask("EVENTS", 1, { follow: true });
    lazy.socket.pause();
    let told = 0;
    const stop = new AbortController();
    const following = (async () => {
      for await (const event of reader.events({ follow: true, from: 1, signal: stop.signal })) if (event.object.startsWith("f")) told += 1;
    })();
    const commandLine = "c".repeat(4000);
    const rounds = 40;
    for (let round = 0; round < rounds; round += 1) {
      const locks = await Promise.all(Array.from({ length: 128 }, (_none, index) => client.lock(`f/${index}`, { commandLine })));
      await Promise.all(locks.map((lock) => lock.release()));
    }
    await eventually("the reader was told all", () => told === rounds * 256);
    stop.abort();
    await following;
    await eventually("the lazy one is closed", () => server.log.some((line) => line.includes('"connection-closed"') && line.includes('"slow"')));
    expect(residentMiB(server)).toBeLessThan(600);
    await Promise.all([client.close(), reader.close()]);
    await isReady(server);
  });
});

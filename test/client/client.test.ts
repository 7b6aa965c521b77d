import { afterEach, describe, expect, test } from "bun:test";
import { connect, type ConnectOptions, type LockdClient } from "../../src/client/client.ts";
import { FakeServer } from "./fake-server.ts";

const cleanUps: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function start(): Promise<FakeServer> {
  const server = await FakeServer.start();
  cleanUps.push(() => server.stop());
  return server;
}

async function connected(server: FakeServer, options: Partial<ConnectOptions> = {}): Promise<LockdClient> {
  const client = await connect({ servers: [server.address], ...options });
  cleanUps.push(() => client.close());
  return client;
}

describe("lock and release", () => {
  test("a free object is granted and given back", async () => {
    const server = await start();
    const client = await connected(server);
    const lock = await client.lock("a");
    expect(lock.objects).toEqual(["a"]);
    expect(lock.token).toBe(1);
    expect(lock.expiresIn()).toBeGreaterThan(9_000);
    await lock.release();
    expect(server.tickets).toEqual([]);
    expect(lock.expiresIn()).toBe(0);
  });
});

import { afterEach, describe, expect, test } from "bun:test";
import { FakeClock } from "../../src/clock/fake.ts";
import { greetingLimit } from "../../src/net/limits.ts";
import { RawClient, startWorld, until, type World } from "./kit.ts";

const worlds: World[] = [];
afterEach(async () => {
  await Promise.all(worlds.splice(0).map(({ server }) => server.stop({ drainMs: 0 })));
});

describe("the limit of connections before HELLO", () => {
  test("is always below that of all connections", () => {
    for (const connectionsMax of [2, 3, 10, 99, 100, 101, 1000, 20_000]) {
      for (const configured of [1, 50, 2000, 1_000_000]) {
        const limit = greetingLimit(configured, connectionsMax);
        expect(limit).toBeLessThan(connectionsMax);
        expect(limit).toBeGreaterThan(0);
        expect(limit).toBeLessThanOrEqual(configured);
      }
    }
  });

  test("turns away the next while all have just come, and lets it in for one that has had its time", async () => {
    const clock = new FakeClock();
    const world = startWorld({ limits: { connectionsMax: 10, greetingMax: 3 }, clock, timers: clock });
    worlds.push(world);
    const { server } = world;
    const known = await RawClient.greeted(server);
    const silent = [await RawClient.connect(server), await RawClient.connect(server), await RawClient.connect(server)];
    await until("all are there", () => server.connections === 4);

    const early = await RawClient.connect(server);
    await early.untilClosed();
    expect(silent.some(({ closed }) => closed)).toBe(false);

    clock.advance(1_000);
    const late = await RawClient.greeted(server);
    await silent[0]?.untilClosed();
    expect(silent.slice(1).some(({ closed }) => closed)).toBe(false);

    // those that are through do not count
    expect([server.connections, server.listening]).toEqual([4, true]);
    for (const client of [known, late]) {
      client.send("ECHO", 1, { still: "here" });
      expect((await client.next()).body).toEqual({ still: "here" });
    }
  });

  test("leaves room for those that are through: they may be as many as all connections", async () => {
    const world = startWorld({ limits: { connectionsMax: 6, greetingMax: 1 } });
    worlds.push(world);
    const clients: RawClient[] = [];
    for (let count = 0; count < 6; count += 1) clients.push(await RawClient.greeted(world.server));
    expect(world.server.connections).toBe(6);
    for (const client of clients) {
      client.send("ECHO", 1);
      expect((await client.next()).type).toBe("ECHOED");
    }
  });
});

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { eventually, TestServer, temporaryDirectory } from "./kit.ts";
import { connectTo } from "./locks-client.ts";
import { type EventLine, LockWorld, output, Running } from "./locks-kit.ts";

const files = temporaryDirectory("locks");
let world: LockWorld;

beforeAll(async () => {
  world = await LockWorld.start("locks-server");
});
afterAll(async () => {
  await world.clear();
  files.remove();
});

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

describe("exec", () => {
  test("critical sections under one lock never overlap, and their tokens rise", async () => {
    const journal = join(files.path, "journal");
    const section = `echo "enter $LOCKD_TOKEN" >> ${journal}; sleep 0.01; echo "leave $LOCKD_TOKEN" >> ${journal}`;
    const loop = async () => {
      for (let turn = 0; turn < 6; turn += 1) output(await world.run("exec", "x", "--", "sh", "-c", section));
    };
    await Promise.all([loop(), loop(), loop()]);
    const lines = readFileSync(journal, "utf8").trimEnd().split("\n");
    expect(lines.length).toBe(36);
    let last = 0;
    for (let index = 0; index < lines.length; index += 2) {
      const token = Number(/^enter (\d+)$/.exec(lines[index] ?? "")?.[1]);
      expect(lines[index + 1]).toBe(`leave ${token}`);
      expect(token).toBeGreaterThan(last);
      last = token;
    }
  });
});

describe("list and why", () => {
  test("say `no locks` for nobody, and nothing at all in JSON", async () => {
    expect(await world.run("list", "nobody")).toEqual({ code: 0, stdout: "no locks\n", stderr: "" });
    expect(await world.run("list", "nobody", "--json")).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(output(await world.run("why", "nobody"))).toBe("nobody is free\n");
  });

  test("name the holder and five waiters by their processes; positions fall by one at each release", async () => {
    const queue = [await world.holder("queue")];
    const waiters: Running[] = [];
    for (let place = 0; place < 5; place += 1) waiters.push(await world.waiter("queue"));
    let holder: Running | undefined = queue[0];
    let lastToken = 0;
    while (holder !== undefined) {
      const tickets = await world.ticketsOf("queue");
      expect(tickets.map(({ state, position, holder: { pid } }) => [state, position, pid])).toEqual([
        ["locked", undefined, holder.pid],
        ...waiters.map((waiter, index) => ["waiting", index + 1, waiter.pid]),
      ]);
      const why = await world.why("queue");
      expect(why.holders.map(({ holder: { pid } }) => pid)).toEqual([holder.pid]);
      expect(why.waiters.map(({ position, holder: { pid } }) => [position, pid])).toEqual(waiters.map((waiter, index) => [index + 1, waiter.pid]));
      expect(why.waitersTotal).toBe(waiters.length);
      const token = tickets[0]?.token ?? 0;
      expect(token).toBeGreaterThan(lastToken);
      expect(why.holders[0]?.token).toBe(token);
      lastToken = token;
      holder.closeStdin();
      expect((await holder.finished()).code).toBe(0);
      holder = waiters.shift();
      if (holder !== undefined) await holder.line(0);
    }
    expect(await world.ticketsOf("queue")).toEqual([]);
  });

  test("a line of JSON has the documented fields, those that apply", async () => {
    const held = await world.holder("fields", "--value", "the value", "--duration", "20s", "--unlock-duration", "7s");
    await world.waiter("fields", "--wait", "1m");
    const [locked, waiting] = await world.ticketsOf("fields");
    if (locked === undefined || waiting === undefined) throw new Error("two tickets were expected");
    const common = ["detached", "holder", "mode", "object", "since", "state", "ticket"];
    expect(Object.keys(locked).sort()).toEqual([...common, "expires", "freeAt", "token", "value"].sort());
    expect(Object.keys(waiting).sort()).toEqual([...common, "position", "waitDeadline"].sort());
    expect(locked).toMatchObject({ object: "fields", mode: "exclusive", detached: false, token: held.lock.token, value: "the value" });
    expect(locked.holder).toMatchObject({ host: hostname(), pid: held.pid, program: "lockd lock" });
    expect(Object.keys(locked.holder).sort()).toEqual(["address", "host", "name", "pid", "program", "session"]);
    for (const time of [locked.since, locked.expires, locked.freeAt, waiting.since, waiting.waitDeadline]) expect(time).toMatch(ISO);
    expect(Date.parse(locked.freeAt ?? "") - Date.parse(locked.expires ?? "")).toBe(7000);
    const left = Date.parse(waiting.waitDeadline ?? "") - Date.now();
    expect(left).toBeGreaterThan(30_000);
    expect(left).toBeLessThanOrEqual(60_000);
  });

  test("the text is an aligned table and sentences that name holder, token and queue", async () => {
    const held = await world.holder("table", "--value", "v");
    const waiting = await world.waiter("table", "--shared");
    const lines = output(await world.run("list", "table")).trimEnd().split("\n");
    const column = lines[0]?.indexOf("STATE") ?? -1;
    expect(lines[0]).toMatch(/^OBJECT +STATE +MODE +HOLDER +PID +PROGRAM +TOKEN +FOR +LEFT +POS +VALUE$/);
    expect(lines.map((line) => line.slice(column).split(" ")[0])).toEqual(["STATE", "locked", "waiting"]);
    expect(lines[1]).toContain(` ${held.pid} `);
    expect(lines[2]).toMatch(new RegExp(` ${waiting.pid} .* 1 +-$`));
    const why = output(await world.run("why", "table"));
    expect(why).toContain(`pid ${held.pid}`);
    expect(why).toContain(`token ${held.lock.token}`);
    expect(why).toMatch(new RegExp(`^1\\. .*pid ${waiting.pid}, lockd lock waits for .*, shared$`, "m"));
    expect(why).toContain("last events:");
  });

  test("the whole command line is shown only with --share-command, however long it is", async () => {
    const secret = world.start(["exec", "command", "--", "sleep", "1000", "5"]);
    await eventually("the lock is held", async () => (await world.ticketsOf("command")).length === 1);
    expect((await world.ticketsOf("command"))[0]?.holder).not.toHaveProperty("commandLine");
    secret.kill("SIGTERM");
    await secret.finished();
    const long = ["sh", "-c", "exec sleep 1000", "ü".repeat(3000)];
    for (const argv of [["exec", "command", "--share-command", "--", ...long], ["lock", "command", "--hold", "--share-command", "--value", "😀".repeat(999)]]) {
      const shared = world.start(argv);
      await eventually("the lock is held", async () => (await world.ticketsOf("command")).length === 1 || shared.ended);
      const [ticket] = await world.ticketsOf("command");
      expect(ticket?.holder.commandLine).toStartWith(argv[0] === "exec" ? "sh -c exec sleep 1000 ü" : "lockd lock command --hold");
      shared.kill("SIGTERM");
      await shared.finished();
    }
  });

  test("1,000 questions change nothing", async () => {
    await world.holder("asked");
    const before = (await world.ticketsOf("asked"))[0]?.ticket;
    const client = await connectTo(world.server.address);
    const numberOfEvents = (await world.events()).length;
    for (let asked = 0; asked < 1000; asked += 1) await client.why("asked");
    await client.close();
    expect((await world.ticketsOf("asked"))[0]?.ticket).toBe(before);
    expect((await world.events()).length).toBe(numberOfEvents);
  });
});

describe("events", () => {
  test("tell granted, waiting, failed, released, forced and expired with who, when and how long", async () => {
    const { handle, token } = await world.lock("story");
    await world.run("lock", "story", "--wait", "0");
    await world.run("unlock", handle);
    const second = await world.lock("story", "--unlock-duration", "500ms");
    await world.run("release", "story", "--force", "--token", String(second.token), "--reason", "for the test");
    await eventually("it is free", async () => (await world.ticketsOf("story")).length === 0);
    await world.lock("story", "--duration", "500ms", "--unlock-duration", "500ms");
    await eventually("it is free", async () => (await world.ticketsOf("story")).length === 0);
    const events = await world.events("story");
    expect(events.map(({ event }) => event).filter((event) => event !== "unlocking")).toEqual(
      expect.arrayContaining(["granted", "failed", "released", "forced", "expired"]),
    );
    expect(events.find(({ event }) => event === "granted")).toMatchObject({ token, waitedMs: 0, object: "story" });
    expect(events.find(({ event }) => event === "released")?.heldMs).toBeGreaterThanOrEqual(0);
    expect(events.find(({ event }) => event === "forced")?.reason).toContain("for the test");
    for (const { time } of events) expect(time).toMatch(ISO);
    const text = output(await world.run("events", "story"));
    expect(text.trimEnd().split("\n").length).toBe(events.length);
  });

  test("--from starts at that id, and a prefix leaves others out", async () => {
    await world.lock("from/a");
    await world.lock("from/b");
    const all = await world.events();
    const middle = all[Math.floor(all.length / 2)]?.id ?? 0;
    expect((await world.events("--from", String(middle))).map(({ id }) => id)).toEqual(all.map(({ id }) => id).filter((id) => id >= middle));
    expect((await world.events("from/")).map(({ object }) => object)).toEqual(["from/a", "from/b"]);
    expect(await world.events("--from", String((all.at(-1)?.id ?? 0) + 1))).toEqual([]);
  });

  test("list --watch and events --follow go on over a crash and a stop of the server, without gap or doubling", async () => {
    const directory = temporaryDirectory("watch");
    let server = await TestServer.start({ directory: directory.path });
    const { address } = server;
    const env = { LOCKD_CONNECT: address };
    const watching = new Running(["list", "--watch", "--json"], env);
    const following = new Running(["events", "--follow", "--json"], env);
    try {
      const cycle = async (object: string) => {
        const taken: { handle: string } = JSON.parse(output(await server.run(["lock", object, "--json"])));
        output(await server.run(["unlock", taken.handle]));
      };
      await eventually("both are told", async () => {
        await cycle("probe");
        return watching.lines.length > 0 && following.lines.length > 0;
      });
      await server.kill();
      server = await TestServer.start({ directory: directory.path, listen: address });
      await cycle("after-crash");
      expect(await server.stop()).toBe(0);
      server = await TestServer.start({ directory: directory.path, listen: address });
      await cycle("after-stop");
      const parse = (line: string): EventLine => JSON.parse(line);
      const all = output(await server.run(["events", "--json"])).trimEnd().split("\n").map(parse);
      expect(all.map(({ object }) => object)).toEqual(expect.arrayContaining(["probe", "after-crash", "after-stop"]));
      const last = all.at(-1)?.id;
      for (const running of [watching, following]) {
        await eventually("the last event is told", () => running.lines.map(parse).at(-1)?.id === last);
        const told = running.lines.map(parse);
        const first = told[0]?.id ?? 0;
        expect(told).toEqual(all.filter(({ id }) => id >= first));
        expect(told.map(({ id }) => id)).toEqual(told.map((_event, index) => first + index));
      }
      expect(following.lines.map(parse)[0]?.id).toBe(all[0]?.id ?? 0);
    } finally {
      watching.kill("SIGKILL");
      following.kill("SIGKILL");
      await server.kill();
      directory.remove();
    }
  });
});

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createServer, type Server } from "node:net";
import { lockd, TestServer, temporaryDirectory } from "./kit.ts";
import { errorOf, output, Running } from "./locks-kit.ts";

const files = temporaryDirectory("no-server");
/** Takes connections and says nothing. */
let silent: Server;
let silentAddress = "";
/** Nobody listens there: the port was free a moment ago. */
let closed = "";

const portOf = (server: Server): number => {
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
};

async function listening(): Promise<Server> {
  const server = createServer((socket) => socket.on("error", () => undefined));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

beforeAll(async () => {
  silent = await listening();
  silentAddress = `127.0.0.1:${portOf(silent)}`;
  const gone = await listening();
  closed = `127.0.0.1:${portOf(gone)}`;
  await new Promise((resolve) => gone.close(resolve));
});
afterAll(() => {
  silent.close();
  files.remove();
});

describe("without a server", () => {
  test("lock and exec try until --wait is over, then end with 69 and name the endpoints and why", async () => {
    const started = performance.now();
    const results = await Promise.all([
      lockd(["lock", "x", "--wait", "1500ms", "--connect", `${closed},127.0.0.1:1`, "--json"]),
      lockd(["exec", "x", "--wait", "1500ms", "--connect", `${closed},127.0.0.1:1`, "--json", "--", "true"]),
    ]);
    expect(performance.now() - started).toBeGreaterThan(1400);
    for (const finished of results) {
      const error = errorOf(finished, 69);
      expect(error).toMatchObject({ code: "unavailable", retryable: true });
      for (const endpoint of [closed, "127.0.0.1:1"]) expect(error.message).toContain(`${endpoint}: connection refused`);
      expect(error.hint).toContain("--connect");
    }
  });

  test("--wait 0 makes one round; the other commands do the same: 69", async () => {
    const commands = [
      ["lock", "x", "--wait", "0"], ["exec", "x", "--wait", "0", "--", "true"], ["unlock", "h".repeat(25)], ["renew", "h".repeat(25)], ["list"], ["list", "--watch"],
      ["wait", "x"], ["why", "x"], ["release", "x", "--force", "--token", "1"], ["status"], ["events"], ["events", "--follow"], ["sessions"], ["kick", "A".repeat(22)],
    ];
    for (const argv of commands) {
      const finished = await lockd(argv, { env: { LOCKD_CONNECT: closed } });
      expect([argv, finished.code, finished.stdout]).toEqual([argv, 69, ""]);
      expect(finished.stderr).toContain(closed);
    }
  });

  test("one that takes connections and never answers is given up after 2 s", async () => {
    const finished = await lockd(["status", "--connect", silentAddress]);
    expect(output(finished, 69)).toBe("");
    expect(finished.stderr).toContain(`${silentAddress}`);
    expect(finished.stderr).toContain("no answer");
  });

  test("a name that cannot be resolved is said to be one", async () => {
    const finished = await lockd(["status", "--connect", "no-such-host.invalid:4050"]);
    expect(output(finished, 69)).toBe("");
    expect(finished.stderr).toContain("no-such-host.invalid");
  });

  test("a wait without end is ended by a signal: 128+N", async () => {
    for (const argv of [["lock", "x", "--hold"], ["lock", "x"], ["exec", "x", "--", "true"]]) {
      const running = new Running(argv, { LOCKD_CONNECT: closed });
      await Bun.sleep(150);
      running.kill("SIGTERM");
      expect([argv, (await running.finished()).code]).toEqual([argv, 143]);
    }
  });
});

describe("several addresses", () => {
  test("are tried in turn until one answers", async () => {
    const server = await TestServer.start({ directory: files.path });
    try {
      for (const connect of [`${closed},${server.address}`, `${silentAddress},${server.address}`, `${closed},no-such-host.invalid:1,${server.address}`]) {
        const commands = [["status", "--connect", connect], ["exec", "turn", "--wait", "10s", "--connect", connect, "--", "true"]];
        for (const finished of await Promise.all(commands.map((argv) => lockd(argv)))) output(finished);
      }
    } finally {
      await server.kill();
    }
  });

  test("a server that comes while lock and exec wait is found", async () => {
    const directory = temporaryDirectory("late");
    const waiting = [new Running(["lock", "late/1"], { LOCKD_CONNECT: closed }), new Running(["exec", "late/2", "--", "echo", "ran"], { LOCKD_CONNECT: closed })];
    await Bun.sleep(200);
    const server = await TestServer.start({ directory: directory.path, listen: closed });
    try {
      for (const running of waiting) expect((await running.finished()).code).toBe(0);
    } finally {
      for (const running of waiting) running.kill("SIGKILL");
      await server.kill();
      directory.remove();
    }
  });
});

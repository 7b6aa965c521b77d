import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { closeSync, constants as files, existsSync, openSync, readFileSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { encodeFrame, FrameDecoder } from "../../src/wire/frame.ts";
import { clientHelloBody } from "../../src/wire/hello.ts";
import type { Frame } from "../../src/wire/types.ts";
import { receiveDatagrams } from "../observe/datagrams.ts";
import { ServerKit, type TestServer } from "./kit.ts";

let kit = new ServerKit();
beforeEach(() => void (kit = new ServerKit()));
afterEach(() => kit[Symbol.asyncDispose]());

const messages = (server: TestServer): unknown[] => server.log.map((entry) => entry["msg"]);
const jsonLines = (file: string): Record<string, unknown>[] =>
  readFileSync(file, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));

describe("ready", () => {
  test("is one line with the real addresses, logged when they answer", async () => {
    const server = kit.start({ case: "routes" });
    const ready = await server.logged("ready");
    expect(ready).toMatchObject({ level: "info", name: "n1", mode: "serve", pid: server.pid });
    const health = await fetch(`http://${String(ready["http"])}/readyz`);
    expect(health.status).toBe(200);
    expect(await health.json()).toMatchObject({ ok: true, checks: [{ name: "server", ok: true }] });
    expect(await ask(String(ready["listen"]))).toEqual({ type: "FIRSTED", id: 2, body: { listen: ready["listen"] } });
    expect(messages(server)).toEqual(["starting", "ready"]);
  });

  test("comes after every plugin was started, and is told on --ready-fd by a newline and its end", async () => {
    const server = kit.start({ settings: { "ready-fd": 3, http: null } });
    expect(await server.readyFd).toBe("\n");
    expect(await server.logged("ready")).toMatchObject({ http: "off" });
    await server.hasSaid("second started");
    expect(server.said).toEqual(["first set up", "second set up", "first started", "second started"]);
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
  });

  test("is never told on --ready-fd when the start fails", async () => {
    const server = kit.start({ case: "halfStart", settings: { "ready-fd": 3 } });
    expect(await server.readyFd).toBe("");
    expect(await server.exited).toBe(1);
  });

  test("a --ready-fd that is not open is a configuration error", async () => {
    const server = kit.start({ settings: { "ready-fd": 77 } });
    expect(await server.exited).toBe(78);
    expect(server.errors[0]).toContain("descriptor 77 is not open");
  });

  test("metrics of process, store and listener are served", async () => {
    const server = kit.start();
    const text = await (await fetch(`http://${String((await server.logged("ready"))["http"])}/metrics`)).text();
    expect(text).toContain('lockd_build_info{mode="serve",version="0.0.1"} 1\n');
    for (const name of ["process_resident_memory_bytes", "lockd_connections", "lockd_connections_max", "lockd_store_commits_total", "lockd_event_loop_delay_max_seconds"]) {
      expect(text).toMatch(new RegExp(`^${name} [0-9.e-]+$`, "m"));
    }
  });

  test("a message of a plugin is traced when that is asked for", async () => {
    const server = kit.start({ case: "routes", settings: { "trace-messages": true } });
    await ask(String((await server.logged("ready"))["listen"]));
    expect(await server.logged("frame", 3)).toMatchObject({ direction: "in", type: "FIRST" });
  });
});

describe("a start that fails", () => {
  test("in a plugin's start: what was set up is stopped in reverse, and the error names the plugin", async () => {
    const server = kit.start({ case: "halfStart" });
    expect(await server.exited).toBe(1);
    expect(server.errors).toEqual(["lockd: start plugin second: no room"]);
    expect(server.said).toEqual(["first set up", "third set up", "first started", "third stopped", "second stopped", "first stopped"]);
    expect(messages(server)).toEqual(["starting", "start-failed"]);
  });

  test("in a plugin's setup: a configuration error", async () => {
    const server = kit.start({ case: "setupThrows" });
    expect(await server.exited).toBe(78);
    expect(server.errors).toEqual(["lockd: set up plugin second: bad wiring"]);
    expect(server.said).toEqual(["first set up", "first stopped"]);
  });

  test.each(["listen", "http"])("because the address of --%s is in use: named, and all that was begun is ended", async (option) => {
    const holder = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } });
    const directory = kit.directory();
    const server = kit.start({ directory, settings: { [option]: `127.0.0.1:${holder.port}` } });
    expect(await server.exited).toBe(78);
    expect(server.errors[0]).toContain(`127.0.0.1:${holder.port}`);
    expect(server.errors[0]).toMatch(/in use/);
    expect(server.said.slice(-2)).toEqual(["second stopped", "first stopped"]);
    holder.stop();
    const next = kit.start({ directory });
    await next.logged("ready");
  });

  test("because another server has the data directory: a configuration error", async () => {
    const first = kit.start();
    await first.logged("ready");
    const second = kit.start({ directory: first.directory });
    expect(await second.exited).toBe(78);
    expect(second.errors[0]).toContain(String(first.pid));
    expect(second.said).toEqual([]);
  });

  test("is written to the log file as well", async () => {
    const directory = kit.directory();
    const file = join(directory, "log");
    const server = kit.start({ case: "halfStart", directory, settings: { "log-file": file } });
    expect(await server.exited).toBe(1);
    expect(jsonLines(file).at(-1)).toMatchObject({ level: "error", msg: "start-failed", error: "start plugin second: no room" });
    expect(server.errors).toEqual(["lockd: start plugin second: no room"]);
  });

  test("is a line of the log when that is JSON, beside the sentence for people", async () => {
    for (const [settings, expected] of [
      [{ "log-format": "json", listen: "0.0.0.0:0" }, { code: "config", exitCode: 78, error: expect.stringContaining("can be reached"), hint: expect.stringContaining("--insecure") }],
      [{ "log-format": "text", listen: "0.0.0.0:0" }, null],
    ] as const) {
      const server = kit.start({ settings });
      expect(await server.exited).toBe(78);
      expect(server.errors[0]).toStartWith("lockd: ");
      const lines = server.log.filter(({ msg }) => msg === "start-failed");
      expect(lines).toEqual(expected === null ? [] : [expect.objectContaining({ level: "error", ...expected })]);
    }
  });

  test.each(["listen", "http"])("because --%s can be reached by other machines: nothing is opened", async (option) => {
    const server = kit.start({ settings: { [option]: "0.0.0.0:0" } });
    expect(await server.exited).toBe(78);
    expect(server.errors[0]).toContain(`--${option}: 0.0.0.0 can be reached from other machines`);
    expect(server.errors[1]).toContain("--insecure");
    expect(existsSync(join(server.directory, "data"))).toBe(false);
  });

  test("and --insecure accepts such an address, with a warning", async () => {
    const server = kit.start({ settings: { listen: "0.0.0.0:0", insecure: true } });
    await server.logged("ready");
    expect(server.log[0]).toMatchObject({ level: "warn", msg: "reachable-without-authentication", options: "listen" });
  });
});

describe("the end", () => {
  test.each(["SIGTERM", "SIGINT"] as const)("%s drains: plugins stop in reverse, exit 0", async (signal) => {
    const server = kit.start();
    await server.logged("ready");
    server.kill(signal);
    expect(await server.exited).toBe(0);
    expect(server.said.slice(-2)).toEqual(["second stopped", "first stopped"]);
    expect(server.log.slice(2)).toMatchObject([{ msg: "stopping", reason: signal }, { msg: "stopped", code: 0 }]);
    expect(server.errors).toEqual([]);
  });

  test("what plugins hand to the store last is durable when the process ends", async () => {
    const server = kit.start({ case: "commits" });
    await server.logged("ready");
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
    await kit.start({ case: "commits", directory: server.directory }).hasSaid("found last, 5000000 bytes");
  });

  test("clients are told before their connection ends, and event streams do not hold it up", async () => {
    const server = kit.start({ case: "routes" });
    const ready = await server.logged("ready");
    const events = await fetch(`http://${String(ready["http"])}/first/events`);
    const client = await connect(String(ready["listen"]));
    await client.next();
    server.kill("SIGTERM");
    expect(await client.next()).toMatchObject({ type: "ERROR", id: 0, body: { code: "unavailable", retryable: true } });
    await client.closed;
    await events.text().catch(() => "");
    expect(await server.exited).toBe(0);
  });

  test("a signal during the start ends it at the next step", async () => {
    const server = kit.start({ case: "slowStart" });
    await server.hasSaid("starting slowly");
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
    expect(server.said).toEqual(["first set up", "first started", "starting slowly", "third started", "third stopped", "second stopped", "first stopped"]);
    expect(messages(server)).toEqual(["starting", "stopping", "stopped"]);
  });

  test.each([["SIGTERM", 143], ["SIGINT", 130]] as const)("a second signal (%s) ends at once with %i", async (signal, code) => {
    const server = kit.start({ case: "hangingStop" });
    await server.logged("ready");
    server.kill("SIGTERM");
    await server.hasSaid("hanging");
    server.kill(signal);
    expect(await server.exited).toBe(code);
    expect(server.log.at(-1)).toMatchObject({ level: "warn", msg: "ended-at-once" });
  });

  test("a plugin that cannot stop cleanly is named, and the exit code is 1", async () => {
    const server = kit.start({ case: "failingStop" });
    await server.logged("ready");
    server.kill("SIGTERM");
    expect(await server.exited).toBe(1);
    expect(await server.logged("stop-failed")).toMatchObject({ level: "error", error: "stop plugin second: cannot hand over" });
    expect(server.said.at(-1)).toBe("first stopped");
  });

  test("a plugin that cannot go on ends the server with 1 and a sentence, in good order", async () => {
    const server = kit.start({ case: "fails" });
    expect(await server.exited).toBe(1);
    expect(await server.logged("failed")).toMatchObject({ level: "error", error: "run plugin second: the quorum is gone" });
    expect(server.said.at(-1)).toBe("first stopped");
    expect(messages(server).slice(-3)).toEqual(["failed", "stopping", "stopped"]);
  });

  test.each([
    ["throwsLater", "uncaught-exception", "a defect"],
    ["rejectsLater", "unhandled-rejection", "a lost promise"],
  ])("%s: a defect ends the process at once, with its stack in the log", async (name, msg, error) => {
    const server = kit.start({ case: name });
    expect(await server.exited).toBe(1);
    expect(await server.logged(msg)).toMatchObject({ level: "error", error, stack: expect.stringContaining("process.ts") });
    expect(server.said).toEqual([]);
  });
});

describe("signals of a running server", () => {
  test("SIGUSR1 writes the summary and SIGUSR2 all of the state", async () => {
    const server = kit.start({ case: "routes" });
    await server.logged("ready");
    const states = (): unknown[] => server.log.filter((entry) => entry["plugin"] === "first").map((entry) => entry["line"]);
    server.kill("SIGUSR1");
    await server.logged("state", 5);
    expect(states()).toEqual(["detail summary", "two\nlines"]);
    expect(server.log.find((entry) => entry["msg"] === "state")).toMatchObject({ plugin: "lockd", line: expect.stringMatching(/^ready, up \d+ s/) });
    server.kill("SIGUSR2");
    await server.logged("state", 10);
    expect(states().slice(2)).toEqual(["detail full", "two\nlines"]);
  });

  test("SIGQUIT writes the state and dies by the signal", async () => {
    const server = kit.start();
    await server.logged("ready");
    server.kill("SIGQUIT");
    expect(await server.exited).toBe("SIGQUIT");
    expect(server.log.at(-1)).toMatchObject({ msg: "aborting" });
    expect(server.log.filter((entry) => entry["plugin"] === "second")).toMatchObject([{ line: "second full" }]);
    expect(server.said.at(-1)).toBe("second started");
  });

  test("terminal stops and a closed pipe are ignored by the kernel", async () => {
    const server = kit.start();
    await server.logged("ready");
    const ignored = BigInt(`0x${/^SigIgn:\s+(\w+)/m.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1] ?? "0"}`);
    for (const signal of ["SIGPIPE", "SIGTSTP", "SIGTTIN", "SIGTTOU"] as const) {
      expect([signal, (ignored >> BigInt(constants.signals[signal] - 1)) & 1n]).toEqual([signal, 1n]);
      server.kill(signal);
    }
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
  });

  test("SIGHUP opens the log file anew and says so there", async () => {
    const directory = kit.directory();
    const file = join(directory, "log");
    const server = kit.start({ directory, settings: { "log-file": file, "ready-fd": 3 } });
    await server.readyFd;
    renameSync(file, `${file}.1`);
    server.kill("SIGHUP");
    while (!existsSync(file) || !readFileSync(file, "utf8").includes("reloaded")) await Bun.sleep(5);
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
    expect(jsonLines(`${file}.1`).map((line) => line["msg"])).toEqual(["starting", "ready"]);
    expect(jsonLines(file)).toMatchObject([
      { msg: "log-reopened", file },
      { msg: "reloaded", changed: "nothing" },
      { msg: "stopping" },
      { msg: "stopped" },
    ]);
  });

  test("SIGHUP takes up the log level, goes on with a bad configuration, and says what it did", async () => {
    const directory = kit.directory();
    const file = join(directory, "level");
    writeFileSync(file, "info");
    const server = kit.start({ directory, environment: { TEST_LEVEL_FILE: file } });
    await server.logged("ready");
    writeFileSync(file, "bad");
    server.kill("SIGHUP");
    expect(await server.logged("reload-failed")).toMatchObject({ level: "error", error: "read configuration: bad" });
    writeFileSync(file, "error");
    server.kill("SIGHUP");
    expect(await server.logged("reloaded")).toMatchObject({ config: file, changed: "log-level from info to error" });
    // an info line from here on would be a failure
    server.kill("SIGUSR1");
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
    expect(server.log.at(-1)).toMatchObject({ msg: "reloaded" });
  });

  test("SIGHUP names options that wait for a restart, each time", async () => {
    const server = kit.start({ environment: { TEST_RENAME: "1" } });
    await server.logged("ready");
    for (const count of [1, 2]) {
      server.kill("SIGHUP");
      expect(await server.logged("restart-needed", count)).toMatchObject({ level: "warn", options: "name" });
    }
  });
});

describe("a log that nobody reads", () => {
  /** The write end of a full pipe, which blocks whoever writes to it. */
  function fullPipe(directory: string): { stderr: number; close: () => void } {
    const fifo = join(directory, "stderr");
    expect(Bun.spawnSync(["mkfifo", fifo]).exitCode).toBe(0);
    const filler = openSync(fifo, files.O_RDWR | files.O_NONBLOCK);
    const stderr = openSync(fifo, files.O_WRONLY);
    expect(() => {
      for (;;) writeSync(filler, "x".repeat(4096));
    }).toThrow("EAGAIN");
    return { stderr, close: () => [filler, stderr].forEach((fd) => closeSync(fd)) };
  }

  test("holds up neither the work nor the end of a server", async () => {
    const directory = kit.directory();
    const holder = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => {} } });
    const http = `127.0.0.1:${holder.port}`;
    holder.stop(true);
    const { stderr, close } = fullPipe(directory);
    const server = kit.start({ directory, settings: { http, "ready-fd": 3 }, stderr });
    expect(await server.readyFd).toBe("\n");
    for (let count = 0; count < 20; count += 1) {
      server.kill("SIGUSR2");
      expect((await fetch(`http://${http}/readyz`)).status).toBe(200);
    }
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
    close();
  });

  test("does not keep a process alive that met a defect", async () => {
    const directory = kit.directory();
    const { stderr, close } = fullPipe(directory);
    expect(await kit.start({ case: "throwsLater", directory, stderr }).exited).toBe("SIGALRM");
    close();
  });
});

describe("under a service manager", () => {
  test("it hears ready, the sign of life and stopping", async () => {
    const directory = kit.directory();
    const socket = join(directory, "notify");
    await using manager = await receiveDatagrams(socket);
    const server = kit.start({ directory, environment: { NOTIFY_SOCKET: socket, WATCHDOG_USEC: "100000" } });
    expect(await manager.next()).toMatch(/^READY=1\nSTATUS=serve on 127\.0\.0\.1:\d+$/);
    expect([await manager.next(), await manager.next(), await manager.next()]).toEqual(["WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]);
    await server.logged("ready");
    server.kill("SIGTERM");
    let last = await manager.next();
    while (last === "WATCHDOG=1") last = await manager.next();
    expect(last).toBe("STOPPING=1\nSTATUS=stopping");
    expect(await server.exited).toBe(0);
  });

  test("no sign of life comes from a server that is not well", async () => {
    const directory = kit.directory();
    const socket = join(directory, "notify");
    await using manager = await receiveDatagrams(socket);
    const server = kit.start({ case: "unhealthy", directory, environment: { NOTIFY_SOCKET: socket, WATCHDOG_USEC: "20000" } });
    expect(await manager.next()).toStartWith("READY=1");
    const { http } = await server.logged("ready");
    // several watchdog periods pass meanwhile
    for (let count = 0; count < 10; count += 1) {
      expect((await fetch(`http://${String(http)}/healthz`)).status).toBe(503);
      await Bun.sleep(10);
    }
    server.kill("SIGTERM");
    expect(await manager.next()).toStartWith("STOPPING=1");
  });

  test("a socket of another kind is a warning, not a failure", async () => {
    const server = kit.start({ environment: { NOTIFY_SOCKET: "vsock:2:1" } });
    await server.logged("ready");
    expect(server.log).toContainEqual(expect.objectContaining({ level: "warn", msg: "service-manager-unreachable" }));
  });
});

interface TestClient {
  send(frame: Uint8Array): void;
  next(): Promise<Frame>;
  closed: Promise<void>;
}

/** A client that has said HELLO; the first frame is the server's. */
async function connect(address: string): Promise<TestClient> {
  const decoder = new FrameDecoder({ frameBytesMax: 1 << 20 });
  const frames: Frame[] = [];
  const waiting: ((frame: Frame) => void)[] = [];
  const closed = Promise.withResolvers<void>();
  const [hostname = "", port = ""] = address.split(":");
  const socket = await Bun.connect({
    hostname,
    port: Number(port),
    socket: {
      data: (_, chunk) =>
        decoder.push(chunk, (frame) => {
          const waiter = waiting.shift();
          if (waiter === undefined) frames.push(frame);
          else waiter(frame);
        }),
      close: () => closed.resolve(),
    },
  });
  socket.write(encodeFrame("HELLO", 1, clientHelloBody({ role: "client", name: "t", host: "h", pid: 1, program: "test", software: "0.0.1", features: [] })));
  return {
    send: (frame) => void socket.write(frame),
    next: async () => frames.shift() ?? new Promise((resolve) => waiting.push(resolve)),
    closed: closed.promise,
  };
}

/** The answer to the message that the case `routes` handles. */
async function ask(address: string): Promise<Frame> {
  const client = await connect(address);
  expect(await client.next()).toMatchObject({ type: "HELLO", body: { name: "n1", software: "0.0.1" } });
  client.send(encodeFrame("FIRST", 2, {}));
  return client.next();
}

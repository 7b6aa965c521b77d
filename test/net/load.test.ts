/** Many connections, few descriptors, clients that die: against a server in its own process. */
import { afterEach, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import { connectionLimit, readDescriptors } from "../../src/net/descriptors.ts";
import { encodeFrame } from "../../src/wire/frame.ts";
import { HELLO, RawClient, startWorld, until } from "./kit.ts";

const parseStart = v.parser(v.object({ port: v.number(), connectionsMax: v.number() }));
const parseState = v.parser(v.object({ connections: v.number(), listening: v.boolean(), cpuMs: v.number(), rssBytes: v.number() }));

class ServerProcess {
  readonly #child: Bun.Subprocess<"pipe", "pipe", "inherit">;
  readonly #lines: AsyncIterator<string>;
  port = 0;
  connectionsMax = 0;

  private constructor(descriptors: number) {
    const program = fileURLToPath(new URL("server-process.ts", import.meta.url));
    this.#child = Bun.spawn(["sh", "-c", 'ulimit -n "$0" && exec "$@"', String(descriptors), process.execPath, program], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#lines = linesOf(this.#child.stdout);
  }

  static async start(descriptors: number): Promise<ServerProcess> {
    const server = new ServerProcess(descriptors);
    const { port, connectionsMax } = parseStart(JSON.parse(await server.#line()));
    server.port = port;
    server.connectionsMax = connectionsMax;
    return server;
  }

  async state(): Promise<v.InferOutput<typeof parseState.schema>> {
    void this.#child.stdin.write("state\n");
    await this.#child.stdin.flush();
    return parseState(JSON.parse(await this.#line()));
  }

  async stop(): Promise<void> {
    await this.#child.stdin.end();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 5000);
    await this.#child.exited;
    clearTimeout(timer);
  }

  async #line(): Promise<string> {
    const next = await this.#lines.next();
    if (next.done === true) throw new Error("the server ended");
    return next.value;
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}

const processes: ServerProcess[] = [];
const sockets: Socket[] = [];
async function start(descriptors: number): Promise<ServerProcess> {
  const server = await ServerProcess.start(descriptors);
  processes.push(server);
  return server;
}
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await Promise.all(processes.splice(0).map((server) => server.stop()));
});

/** Connects, says HELLO and keeps the socket; what becomes of it: greeted, or refused at whatever point. */
function tryConnect(port: number): Promise<"greeted" | "refused"> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    sockets.push(socket);
    socket.on("connect", () => socket.write(encodeFrame("HELLO", 0, HELLO)));
    socket.on("data", () => resolve("greeted"));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve("refused"));
  });
}

describe("more connections than descriptors", () => {
  test("are refused, cost no CPU, disturb nobody, and are let in when there is room", async () => {
    const server = await start(64);
    expect(server.connectionsMax).toBeGreaterThan(5);
    expect(server.connectionsMax).toBeLessThan(60);
    const outcomes = await Promise.all(Array.from({ length: 200 }, () => tryConnect(server.port)));
    const greeted = outcomes.filter((outcome) => outcome === "greeted").length;
    expect(greeted).toBeGreaterThanOrEqual(server.connectionsMax - 2);
    expect(greeted).toBeLessThanOrEqual(server.connectionsMax);

    const before = await server.state();
    await new Promise((resolve) => setTimeout(resolve, 500));
    const after = await server.state();
    expect(after.cpuMs - before.cpuMs).toBeLessThan(250);
    expect(after.connections).toBe(greeted);

    for (const socket of sockets.splice(0)) socket.destroy();
    for (let state = await server.state(); state.connections > 0 || !state.listening; ) state = await server.state();
    const again = await RawClient.greeted(server);
    again.send("ECHO", 1, { back: true });
    expect((await again.next()).body["back"]).toBe(true);
    again.socket.destroy();
  }, 20_000);
});

describe("ten thousand idle connections", () => {
  test("are held at a small price, and a new client is served as before", async () => {
    const { limit } = readDescriptors();
    const count = Math.min(10_000, (limit ?? 1024) - 500);
    const server = await start(count + 500);
    const empty = await server.state();
    for (let opened = 0; opened < count; opened += 250) {
      const outcomes = await Promise.all(Array.from({ length: Math.min(250, count - opened) }, () => tryConnect(server.port)));
      expect(outcomes).not.toContain("refused");
    }
    const full = await server.state();
    expect(full.connections).toBe(count);
    expect((full.rssBytes - empty.rssBytes) / count).toBeLessThan(20_000);
    const client = await RawClient.greeted(server);
    client.send("ECHO", 1);
    expect((await client.next()).type).toBe("ECHOED");
    await new Promise((resolve) => setTimeout(resolve, 2000));
    const later = await server.state();
    expect(later.cpuMs - full.cpuMs).toBeLessThan(1000);
    client.socket.destroy();
  }, 60_000);
});

describe("a flood without HELLO", () => {
  test("takes no memory and does not disturb a client", async () => {
    const server = await start(1024);
    const client = await RawClient.greeted(server);
    const before = await server.state();
    const announced = Buffer.from([0, 0, 0xff, 0xff, 0x83]);
    const flooders = Array.from({ length: 100 }, () => {
      const socket = connect(server.port, "127.0.0.1");
      sockets.push(socket);
      socket.on("error", () => undefined);
      socket.write(announced);
      for (let i = 0; i < 20; i++) socket.write(Buffer.alloc(64 * 1024, 0x81));
      return new Promise<void>((resolve) => socket.on("close", () => resolve()));
    });
    for (let i = 1; i <= 100; i++) {
      client.send("ECHO", i);
      expect((await client.next()).id).toBe(i);
    }
    await Promise.all(flooders);
    const after = await server.state();
    expect(after.rssBytes - before.rssBytes).toBeLessThan(64 << 20);
    expect(after.connections).toBe(1);
    client.socket.destroy();
  }, 20_000);
});

describe("a client process that is killed while it waits for an answer", () => {
  test("is noticed at once", async () => {
    const asked = Promise.withResolvers<void>();
    const { server } = startWorld({ register: (messages) => messages.registryFor("wait").on("WAIT", (body) => body, () => asked.resolve()) });
    const bytes = Buffer.concat([encodeFrame("HELLO", 0, HELLO), encodeFrame("WAIT", 1, {})]).toString("base64");
    const program = `require("net").connect(${server.port}, "127.0.0.1").write(Buffer.from("${bytes}", "base64"))`;
    const child = Bun.spawn(["node", "-e", program], { stdio: ["ignore", "inherit", "inherit"] });
    await asked.promise;
    expect(server.connections).toBe(1);
    child.kill("SIGKILL");
    await until("its connection is gone", () => server.connections === 0);
    await server.stop({ drainMs: 100 });
  });
});

describe("the limit of connections", () => {
  test("leaves descriptors for files and the store", () => {
    expect(connectionLimit(20_000, { limit: 1024, open: 20 })).toBe(940);
    expect(connectionLimit(100, { limit: 1024, open: 20 })).toBe(100);
    expect(connectionLimit(20_000, { limit: 64, open: 20 })).toBe(28);
    expect(connectionLimit(20_000, { limit: 16, open: 20 })).toBe(1);
    expect(connectionLimit(20_000, { limit: null, open: 0 })).toBe(20_000);
  });
});

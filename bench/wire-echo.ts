/**
 * Frames a second over loopback TCP against an ECHO handler: one client in lock-step, one pipelined,
 * many in lock-step. The server runs in its own process. Usage: bun bench/wire-echo.ts [seconds]
 */
import { connect, type Socket } from "node:net";
import { realClock, realTimers } from "../src/clock/real.ts";
import { startServer } from "../src/net/server.ts";
import { ASKS_NOBODY } from "../src/security/authenticator.ts";
import type { Logger } from "../src/observe/types.ts";
import { FrameDecoder, FrameEncoder, encodeFrame } from "../src/wire/frame.ts";
import { clientHelloBody } from "../src/wire/hello.ts";
import { Messages } from "../src/wire/registry.ts";
import type { Body, Frame } from "../src/wire/types.ts";

const PIPELINE = 256;
const CLIENTS = 64;
const BODY: Body = {
  request: "r-0123456789",
  objects: ["deploy/production/web"],
  wait: 5000,
  duration: 10_000,
  unlockDuration: 5000,
  mode: "exclusive",
  value: "a value of some length",
  queue: true,
};

const silent: Logger = {
  trace() {},
  debug() {},
  info() {},
  warn() {},
  error: (msg, fields) => console.error(msg, fields),
  enabled: () => false,
  child: () => silent,
};

function serve(): void {
  const messages = new Messages(silent);
  messages.registryFor("bench").on("ECHO", (body) => body, (connection, id, body) => connection.send("ECHOED", id, body));
  const clock = realClock();
  const server = startServer({
    listen: { host: "127.0.0.1", port: 0 },
    hello: { name: "bench", cluster: "bench", software: "0", features: [] },
    security: { tls: null, authenticator: ASKS_NOBODY },
    messages,
    logger: silent,
    clock,
    timers: realTimers(clock),
  });
  process.send?.(server.port);
}

interface Client {
  socket: Socket;
  onFrame: (frame: Frame) => void;
}

async function greeted(port: number): Promise<Client> {
  const socket = connect(port, "127.0.0.1");
  socket.setNoDelay(true);
  const decoder = new FrameDecoder({ frameBytesMax: 1 << 24 });
  const hello = Promise.withResolvers<void>();
  const client: Client = { socket, onFrame: () => hello.resolve() };
  socket.on("data", (chunk: Buffer) => decoder.push(chunk, (frame) => client.onFrame(frame)));
  socket.write(
    encodeFrame("HELLO", 0, clientHelloBody({ role: "client", name: "b", host: "b", pid: 1, program: "b", software: "0", features: [] })),
  );
  await hello.promise;
  return client;
}

/** Keeps `depth` requests in flight on one connection; returns the round-trip times in microseconds. */
async function run(client: Client, depth: number, seconds: number): Promise<number[]> {
  const done = Promise.withResolvers<void>();
  const encoder = new FrameEncoder();
  const sentAt = new Map<number, number>();
  const times: number[] = [];
  const endMs = performance.now() + seconds * 1000;
  let id = 0;
  const flush = (): void => {
    const bytes = encoder.take();
    if (bytes !== null) client.socket.write(bytes);
  };
  const send = (): void => {
    sentAt.set(++id, performance.now());
    if (encoder.bytes === 0) queueMicrotask(flush);
    encoder.append("ECHO", id, BODY);
  };
  client.onFrame = (frame) => {
    const nowMs = performance.now();
    times.push((nowMs - (sentAt.get(frame.id) ?? nowMs)) * 1000);
    sentAt.delete(frame.id);
    if (nowMs < endMs) send();
    else if (sentAt.size === 0) done.resolve();
  };
  for (let i = 0; i < depth; i++) send();
  await done.promise;
  return times;
}

function report(name: string, times: number[], seconds: number): void {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): string => (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(0);
  console.log(`${name.padEnd(28)} ${Math.round(times.length / seconds).toLocaleString("en").padStart(9)} requests/s   p50 ${at(0.5)} us   p99 ${at(0.99)} us`);
}

async function main(seconds: number): Promise<void> {
  const frame = encodeFrame("ECHO", 1, BODY);
  console.log(`frame of ${frame.length} bytes, ${seconds} s each`);
  const port = Promise.withResolvers<number>();
  const server = Bun.spawn([process.execPath, import.meta.path, "--serve"], {
    stdio: ["ignore", "inherit", "inherit"],
    ipc: (message) => port.resolve(Number(message)),
  });
  try {
    const clients = await Promise.all(Array.from({ length: CLIENTS }, () => port.promise.then(greeted)));
    const [first] = clients;
    if (first === undefined) return;
    await run(first, PIPELINE, 0.5);
    report("1 client, lock-step", await run(first, 1, seconds), seconds);
    report(`1 client, ${PIPELINE} in flight`, await run(first, PIPELINE, seconds), seconds);
    report(`${CLIENTS} clients, lock-step`, (await Promise.all(clients.map((client) => run(client, 1, seconds)))).flat(), seconds);
    for (const client of clients) client.socket.destroy();
  } finally {
    server.kill();
  }
}

if (process.argv.includes("--serve")) serve();
else await main(Number(process.argv[2] ?? 2));

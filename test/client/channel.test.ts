import { expect, test } from "bun:test";
import { connect } from "../../src/client/client.ts";
import type { Transport, TransportHandler } from "../../src/client/transport.ts";
import { FakeClock } from "../../src/clock/fake.ts";
import { asLockdError } from "../../src/errors.ts";
import { encodeFrame, FRAME_BYTES_MAX, FrameDecoder } from "../../src/wire/frame.ts";

/** A stream whose other end is the test. */
class Wire implements Transport {
  readonly written: Uint8Array[] = [];
  accepting = true;
  ended = false;
  destroyed = false;
  readonly handler: TransportHandler;

  constructor(handler: TransportHandler) {
    this.handler = handler;
    setImmediate(() => handler.opened());
  }

  write(bytes: Uint8Array): boolean {
    this.written.push(bytes);
    if (this.written.length === 1) {
      setImmediate(() => this.handler.data(encodeFrame("HELLO", 0, { protocol: 1, role: "server", name: "wire" })));
    }
    return this.accepting;
  }

  end(): void {
    this.ended = true;
  }

  destroy(): void {
    this.destroyed = true;
  }

  types(): string[] {
    const types: string[] = [];
    const decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
    for (const bytes of this.written) decoder.push(bytes, (frame) => void types.push(frame.type));
    return types;
  }
}

async function wired() {
  const wires: Wire[] = [];
  const clock = new FakeClock();
  const client = await connect({
    servers: ["127.0.0.1:1"],
    clock,
    timers: clock,
    resolve: async (host) => [host],
    dial: (_target, handler) => {
      const wire = new Wire(handler);
      wires.push(wire);
      return wire;
    },
  });
  const [wire] = wires;
  if (wire === undefined) throw new Error("nothing was dialled");
  return { client, clock, wire };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("requests of one turn share a write", async () => {
  const { client, wire } = await wired();
  for (let index = 0; index < 50; index += 1) void client.lock(`o${index}`, { wait: null });
  await turn();
  expect(wire.written).toHaveLength(2);
  expect(wire.types()).toHaveLength(1 + 1 + 50);
});

test("while the transport is full nothing more is written, and after its drain all that waited, in order", async () => {
  const { client, wire } = await wired();
  wire.accepting = false;
  void client.lock("a", { wait: null });
  await turn();
  expect(wire.written).toHaveLength(2);
  for (const object of ["b", "c"]) {
    void client.lock(object, { wait: null });
    await turn();
  }
  expect(wire.written).toHaveLength(2);
  wire.handler.drain();
  expect(wire.written).toHaveLength(3);
  expect(wire.types()).toEqual(["HELLO", "SESSION", "LOCK", "LOCK", "LOCK"]);
});

test("a server that does not read fills a bounded queue; then requests are refused with overflow", async () => {
  const { client, wire } = await wired();
  wire.accepting = false;
  void client.lock("first", { wait: null });
  await turn();
  const value = "v".repeat(1_000_000);
  let refused: unknown = null;
  let sent = 0;
  while (refused === null && sent < 100) {
    sent += 1;
    void client.lock(`o${sent}`, { wait: null, value }).catch((error: unknown) => {
      refused = error;
    });
    await turn();
  }
  expect(asLockdError(refused)).toMatchObject({ code: "overflow", retryable: true });
  expect(sent).toBeLessThan(20);
  const status = await client.status().catch((error: unknown) => asLockdError(error));
  expect(status).toMatchObject({ code: "overflow" });
});

test("a silent server gets one PING and is left 2 s later; one that answers is kept", async () => {
  const { clock, wire } = await wired();
  await clock.advanceAsync(1500);
  expect(wire.types().filter((type) => type === "PING")).toHaveLength(1);
  wire.handler.data(encodeFrame("PONG", 99, {}));
  await clock.advanceAsync(1499);
  expect(wire.types().filter((type) => type === "PING")).toHaveLength(1);
  await clock.advanceAsync(1);
  expect(wire.types().filter((type) => type === "PING")).toHaveLength(2);
  await clock.advanceAsync(1999);
  expect(wire.destroyed).toBe(false);
  await clock.advanceAsync(1);
  expect(wire.destroyed).toBe(true);
});

test("a PING of the server is answered with its id", async () => {
  const { wire } = await wired();
  wire.handler.data(encodeFrame("PING", 17, {}));
  await turn();
  const frames: [string, number][] = [];
  new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX }).push(wire.written[1] ?? new Uint8Array(), ({ type, id }) => {
    frames.push([type, id]);
  });
  expect(frames).toEqual([["PONG", 17]]);
});

test("answers cut into single bytes are put together", async () => {
  const { client, wire } = await wired();
  const status = client.status().catch((error: unknown) => asLockdError(error));
  await turn();
  for (const byte of encodeFrame("ERROR", 1, { code: "denied", message: "no" })) wire.handler.data(Uint8Array.of(byte));
  expect(await status).toMatchObject({ code: "denied", message: "no" });
});

test("close lets what is queued leave, and cuts a connection that does not end within a second", async () => {
  const { client, clock, wire } = await wired();
  await client.close();
  expect(wire.ended).toBe(true);
  expect(wire.destroyed).toBe(false);
  await clock.advanceAsync(1000);
  expect(wire.destroyed).toBe(true);
});

test("an ended connection leaves no timer behind", async () => {
  const { client, clock, wire } = await wired();
  await client.close();
  wire.handler.closed(null);
  expect(clock.pending).toBe(0);
});

import { expect, test } from "bun:test";
import { connect } from "../../src/client/client.ts";
import type { Transport, TransportHandler } from "../../src/client/transport.ts";
import { FakeClock } from "../../src/clock/fake.ts";
import { asLockdError } from "../../src/errors.ts";
import { encodeFrame, FRAME_BYTES_MAX, FrameDecoder } from "../../src/wire/frame.ts";
import type { Frame } from "../../src/wire/types.ts";

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

  frames(): Frame[] {
    const frames: Frame[] = [];
    const decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
    for (const bytes of this.written) decoder.push(bytes, (frame) => void frames.push(frame));
    return frames;
  }

  types(): string[] {
    return this.frames().map((frame) => frame.type);
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
  expect(wire.frames().slice(1)).toEqual([{ type: "PONG", id: 17, body: {} }]);
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

test("a LOCKED that waited in the socket while the process stood still is not reported as held by the old clock", async () => {
  const { client, clock, wire } = await wired();
  let granted = false;
  const lock = client.lock("x", { wait: null }).then(() => {
    granted = true;
  });
  lock.catch(() => undefined);
  await turn();
  const [sessionId, lockId] = [1, 2];
  wire.handler.data(encodeFrame("SESSION", sessionId, { session: client.session, generation: 1, grace: 5000, resumed: false, tickets: [] }));
  clock.suspend(60_000);
  const grant = {
    request: "1", objects: ["x"], handle: "h", token: 1, left: 10_000, duration: 10_000, unlockDuration: 5000, processed: lockId, grant: 1,
  };
  wire.handler.data(encodeFrame("LOCKED", lockId, grant));
  await turn();
  expect(granted).toBe(false);
  await clock.advanceAsync(500);
  // only a renewal can tell
  const renew = wire.frames().findLast((frame) => frame.type === "RENEW");
  if (renew === undefined) throw new Error("no RENEW was sent");
  wire.handler.data(encodeFrame("RENEWED", renew.id, { processed: renew.id, lost: [], mismatch: false }));
  await lock;
  expect(granted).toBe(true);
});

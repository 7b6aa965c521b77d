/** One connection over a socket and a clock that the test plays. */
import { describe, expect, test } from "bun:test";
import { FakeClock } from "../../src/clock/fake.ts";
import { SERVER_LIMITS, type ServerLimits } from "../../src/net/limits.ts";
import { type ConnectionContext, ServerConnection } from "../../src/net/server-connection.ts";
import type { ByteSocket } from "../../src/net/socket.ts";
import { ASKS_NOBODY } from "../../src/security/authenticator.ts";
import { encodeFrame, FrameDecoder } from "../../src/wire/frame.ts";
import { Messages } from "../../src/wire/registry.ts";
import type { Connection, Frame } from "../../src/wire/types.ts";
import { HELLO, memoryLogger } from "./kit.ts";

class PlayedSocket implements ByteSocket {
  readonly calls: string[] = [];
  readonly frames: Frame[] = [];
  /** bytes of the next writes that are taken; null: all */
  room: number | null = null;
  writes = 0;
  readonly #decoder = new FrameDecoder({ frameBytesMax: 1 << 26 });

  write(data: Uint8Array, offset: number, length: number): number {
    this.writes++;
    const taken = Math.min(length, this.room ?? length);
    if (this.room !== null) this.room -= taken;
    this.#decoder.push(data.slice(offset, offset + taken), (frame) => this.frames.push(frame));
    return taken;
  }

  shutdown = (): void => void this.calls.push("shutdown");
  end = (): void => void this.calls.push("end");
  terminate = (): void => void this.calls.push("terminate");
  pause = (): void => void this.calls.push("pause");
  resume = (): void => void this.calls.push("resume");
}

interface Stage {
  connection: ServerConnection;
  socket: PlayedSocket;
  clock: FakeClock;
  logger: ReturnType<typeof memoryLogger>;
  /** flushes that are due at the end of the turn */
  due: ServerConnection[];
  /** Ends the turn of the event loop. */
  turn(): void;
  receive(type: string, id: number, body?: Frame["body"]): void;
  /** Moves the clock second by second with a check each, as the server's sweep does. */
  pass(ms: number): void;
  types(): string[];
}

function stage(limits: Partial<ServerLimits> = {}, handler: (connection: Connection, id: number) => void | Promise<void> = () => {}): Stage {
  const clock = new FakeClock();
  const logger = memoryLogger();
  const messages = new Messages(logger);
  messages.registryFor("test").on("ASK", (body) => body, handler);
  const due: ServerConnection[] = [];
  const context: ConnectionContext = {
    hello: { name: "n", cluster: "c", software: "s", features: [] },
    roles: ["client"],
    authenticator: () => ASKS_NOBODY,
    admitted: () => undefined,
    messages,
    limits: { ...SERVER_LIMITS, ...limits },
    logger,
    trace: null,
    monotonicMs: () => clock.monotonicMs(),
    flushSoon: (connection) => void due.push(connection),
  };
  const socket = new PlayedSocket();
  const connection = new ServerConnection({ id: 1, address: "1.2.3.4:5", loopback: false, socket, context });
  return {
    connection,
    socket,
    clock,
    logger,
    due,
    turn() {
      for (const each of due.splice(0)) each.flush();
    },
    receive: (type, id, body = {}) => connection.received(encodeFrame(type, id, body)),
    pass(ms) {
      for (let passed = 0; passed < ms; passed += 1000) {
        clock.advance(1000);
        connection.check(clock.monotonicMs());
        this.turn();
      }
    },
    types: () => socket.frames.map((frame) => frame.type),
  };
}

function greeted(limits: Partial<ServerLimits> = {}, handler?: (connection: Connection, id: number) => void | Promise<void>): Stage {
  const on = stage(limits, handler);
  on.receive("HELLO", 0, HELLO);
  on.socket.frames.length = 0;
  on.socket.writes = 0;
  return on;
}

describe("a connection's output", () => {
  test("of one chunk leaves in one write, of one turn too", () => {
    const on = greeted({}, (connection, id) => connection.send("ANSWER", id, {}));
    on.connection.received(Buffer.concat([encodeFrame("ASK", 1, {}), encodeFrame("ASK", 2, {}), encodeFrame("ASK", 3, {})]));
    expect([on.socket.writes, on.types()]).toEqual([1, ["ANSWER", "ANSWER", "ANSWER"]]);
    expect(on.due).toEqual([]);
    on.connection.send("PUSH", 0, {});
    on.connection.send("PUSH", 0, {});
    expect([on.socket.writes, on.due.length]).toEqual([1, 1]);
    on.turn();
    expect([on.socket.writes, on.types().length]).toEqual([2, 5]);
  });

  test("over the limit ends it as slow, but not when the socket takes it", () => {
    const on = greeted({ outputBytesMax: 10_000 });
    for (let i = 0; i < 5; i++) on.connection.send("PUSH", 0, { pad: "x".repeat(9_000) });
    expect(on.connection.closed).toBe(false);
    on.turn();
    on.socket.room = 0;
    on.connection.send("PUSH", 0, { pad: "x".repeat(9_000) });
    on.turn();
    expect(on.connection.closed).toBe(false);
    on.connection.send("PUSH", 0, { pad: "x".repeat(9_000) });
    expect(on.connection.closed).toBe(true);
    expect(on.socket.calls).toContain("terminate");
    expect(on.logger.lines.at(-1)).toMatchObject({ msg: "connection-closed", fields: { reason: "slow" } });
  });

  test("that stands still for the limit of silence ends it as slow, even while nothing is read", () => {
    const on = greeted({ outputBytesHigh: 10 });
    on.socket.room = 0;
    on.connection.send("PUSH", 0, { pad: "x".repeat(100) });
    on.turn();
    expect(on.socket.calls).toEqual(["pause"]);
    on.pass(50_000);
    on.socket.room = 20;
    on.connection.drained();
    on.pass(50_000);
    expect(on.connection.closed).toBe(false);
    on.pass(20_000);
    expect(on.connection.closed).toBe(true);
    expect(on.logger.lines.at(-1)?.fields["reason"]).toBe("slow");
  });

  test("that is high pauses the reading until half of it is gone", () => {
    const on = greeted({ outputBytesHigh: 1000 });
    on.socket.room = 0;
    on.connection.send("PUSH", 0, { pad: "x".repeat(1500) });
    on.turn();
    expect(on.socket.calls).toEqual(["pause"]);
    on.socket.room = 600;
    on.connection.drained();
    expect(on.socket.calls).toEqual(["pause"]);
    on.socket.room = 500;
    on.connection.drained();
    expect(on.socket.calls).toEqual(["pause", "resume"]);
  });
});

describe("a silent connection", () => {
  test("is asked, and closed when it does not answer", () => {
    const on = greeted();
    on.pass(29_000);
    expect(on.types()).toEqual([]);
    on.pass(1_000);
    expect(on.types()).toEqual(["PING"]);
    on.pass(29_000);
    expect([on.types(), on.connection.closed]).toEqual([["PING"], false]);
    on.pass(1_000);
    expect(on.connection.closed).toBe(true);
    expect(on.logger.lines.at(-1)?.fields["reason"]).toBe("silent");
  });

  test("that answers each PING lives for ever", () => {
    const on = greeted();
    for (let i = 0; i < 100; i++) {
      on.pass(31_000);
      on.receive("PONG", on.socket.frames.at(-1)?.id ?? 0);
    }
    expect(on.connection.closed).toBe(false);
    expect(on.types().length).toBe(100);
    expect(new Set(on.socket.frames.map((frame) => frame.id)).size).toBe(100);
  });

  test("is not called silent for what was not read from it", async () => {
    const gate = Promise.withResolvers<void>();
    const on = greeted({ runningMax: 0 }, () => gate.promise);
    on.receive("ASK", 1);
    expect(on.socket.calls).toEqual(["pause"]);
    on.pass(300_000);
    expect(on.connection.closed).toBe(false);
    gate.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    on.turn();
    expect(on.socket.calls).toEqual(["pause", "resume"]);
    on.pass(29_000);
    expect(on.types()).toEqual([]);
    on.pass(1_000);
    expect(on.types()).toEqual(["PING"]);
  });

  test("gets its time to answer after this process itself was stopped", () => {
    const on = greeted();
    on.clock.advance(600_000);
    on.connection.check(on.clock.monotonicMs());
    expect(on.connection.closed).toBe(false);
    on.pass(29_000);
    expect(on.connection.closed).toBe(false);
    on.pass(1_000);
    expect(on.connection.closed).toBe(true);
  });
});

describe("the end of a connection", () => {
  test("is told to its listeners once, later, and to those that come too late as well", async () => {
    const on = greeted();
    const told: string[] = [];
    on.connection.onClose(() => told.push("first"));
    on.connection.onClose(() => {
      throw new Error("a defect");
    });
    on.connection.onClose(() => told.push("third"));
    on.connection.socketClosed();
    on.connection.socketClosed();
    expect(told).toEqual([]);
    on.connection.onClose(() => told.push("late"));
    await Promise.resolve();
    expect(told).toEqual(["first", "third", "late"]);
    expect(on.logger.lines.at(-1)?.msg).toBe("close-listener-failed");
  });

  test("by closeWith comes after what is queued was written; what is sent then is dropped", () => {
    const on = greeted();
    on.socket.room = 10;
    on.connection.send("PUSH", 0, { pad: "x".repeat(100) });
    on.connection.closeWith("overflow", "serve: too much");
    on.connection.send("LATE", 0, {});
    on.turn();
    expect(on.socket.calls).toEqual([]);
    on.socket.room = null;
    on.connection.drained();
    expect(on.types()).toEqual(["PUSH", "ERROR"]);
    expect({ ...on.socket.frames[1]?.body }).toEqual({ code: "overflow", message: "serve: too much", retryable: true });
    expect(on.socket.calls).toEqual(["shutdown"]);
    on.receive("ASK", 1);
    on.connection.peerEnded();
    expect(on.socket.calls).toEqual(["shutdown", "end"]);
    expect(on.types().length).toBe(2);
  });

  test("by closeWith is enforced when the other side does not close", () => {
    const on = greeted();
    on.connection.closeWith("of my own", "no \ud83e");
    on.turn();
    expect({ ...on.socket.frames[0]?.body }).toEqual({ code: "of my own", message: "no \ufffd", retryable: false });
    on.pass(1_000);
    expect(on.socket.calls).toEqual(["shutdown"]);
    on.pass(1_000);
    expect(on.socket.calls).toEqual(["shutdown", "terminate"]);
  });

  test("of the other side's output is followed by a PING while answers are due, by the end when they are given", () => {
    let answer = (): void => {};
    const on = greeted({}, (connection, id) => {
      answer = () => connection.send("ANSWER", id, {});
    });
    on.receive("ASK", 1);
    on.connection.peerEnded();
    expect([on.types(), on.socket.calls]).toEqual([["PING"], []]);
    answer();
    on.turn();
    expect([on.types(), on.socket.calls]).toEqual([["PING", "ANSWER"], ["end"]]);
  });

  test("before HELLO is quiet", () => {
    const on = stage();
    on.connection.peerEnded();
    expect(on.socket.calls).toEqual(["terminate"]);
    expect(on.logger.lines.filter((line) => line.level !== "debug")).toEqual([]);
  });
});

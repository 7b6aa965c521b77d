import { describe, expect, test } from "bun:test";
import { LockdError } from "../../src/errors.ts";
import { NOBODY_ASKED } from "../../src/security/rules.ts";
import { Messages } from "../../src/wire/registry.ts";
import type { Body, Connection } from "../../src/wire/types.ts";
import { memoryLogger } from "../net/kit.ts";

const asIs = (body: Body): Body => body;

function connection(): Connection & { sent: [string, number, Body][] } {
  const sent: [string, number, Body][] = [];
  return {
    id: 1,
    identity: { principal: NOBODY_ASKED, role: "client", name: "n", host: "h", pid: 1, program: "p", software: "s", features: [], address: "a" },
    closed: false,
    sent,
    send: (type, id, body) => void sent.push([type, id, body]),
    closeWith() {},
    onClose() {},
  };
}

describe("the registry of messages", () => {
  test("refuses a type that is taken and names both plugins", () => {
    const messages = new Messages(memoryLogger());
    messages.registryFor("lock").on("LOCK", asIs, () => {});
    const again = (): void => messages.registryFor("raft").on("LOCK", asIs, () => {});
    expect(again).toThrow("register message LOCK: plugin raft and plugin lock both want it");
    expect(again).toThrow(LockdError);
    expect(messages.types).toEqual(["LOCK"]);
  });

  test("refuses the types of the connection itself", () => {
    const registry = new Messages(memoryLogger()).registryFor("lock");
    for (const type of ["HELLO", "PING", "PONG", "ERROR", "UNKNOWN"]) {
      expect(() => registry.on(type, asIs, () => {})).toThrow("both want it");
    }
  });

  test("gives the handler what the parser made of the body", () => {
    const messages = new Messages(memoryLogger());
    const seen: unknown[] = [];
    messages.registryFor("p").on("A", (body) => ({ size: Object.keys(body).length }), (_, id, parsed) => void seen.push([id, parsed]));
    messages.dispatch(connection(), { type: "A", id: 4, body: { a: 1, b: 2 } });
    expect(seen).toEqual([[4, { size: 2 }]]);
  });

  test("does not reach a type through the prototype of anything", () => {
    const to = connection();
    new Messages(memoryLogger()).dispatch(to, { type: "constructor", id: 1, body: {} });
    expect(to.sent).toEqual([["UNKNOWN", 1, { type: "constructor" }]]);
  });

  test("settles when the handler has, and answers its rejection", async () => {
    const messages = new Messages(memoryLogger());
    const gate = Promise.withResolvers<void>();
    messages.registryFor("p").on("A", asIs, () => gate.promise);
    const to = connection();
    const running = messages.dispatch(to, { type: "A", id: 1, body: {} });
    expect(running).toBeInstanceOf(Promise);
    expect(to.sent).toEqual([]);
    gate.reject(new LockdError("unavailable", "serve: not yet", { hint: "wait" }));
    await running;
    expect(to.sent).toEqual([["ERROR", 1, { code: "unavailable", message: "serve: not yet", hint: "wait", retryable: true }]]);
  });

  test("answers nothing where no answer is expected, but logs a defect", () => {
    const logger = memoryLogger();
    const messages = new Messages(logger);
    const registry = messages.registryFor("p");
    registry.on("A", asIs, () => {
      throw new LockdError("invalid", "no");
    });
    registry.on("B", asIs, () => {
      throw new TypeError("a defect");
    });
    const to = connection();
    messages.dispatch(to, { type: "A", id: 0, body: {} });
    messages.dispatch(to, { type: "B", id: 0, body: {} });
    expect(to.sent).toEqual([]);
    expect(logger.lines.map(({ level, msg }) => [level, msg])).toEqual([["debug", "message-refused"], ["error", "handler-failed"]]);
  });
});

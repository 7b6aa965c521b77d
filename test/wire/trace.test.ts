import { describe, expect, test } from "bun:test";
import { redact, traceToLogger } from "../../src/wire/trace.ts";
import { memoryLogger } from "../net/kit.ts";

describe("a traced frame", () => {
  test("shows no handle and no secret at any depth, but the fencing token", () => {
    const logger = memoryLogger();
    const body = {
      session: "public",
      secret: new Uint8Array([1, 2, 3]),
      handle: "h-secret-1",
      parents: ["h-secret-2"],
      auth: { name: "x", answer: "h-secret-3" },
      authToken: "h-secret-4",
      tickets: [{ grant: { handle: "h-secret-5", token: 17 } }],
    };
    traceToLogger(logger)("out", { type: "SESSION", id: 3, body }, { id: 12 });
    const [line] = logger.lines;
    expect(line?.fields).toMatchObject({ direction: "out", connection: 12, type: "SESSION", id: 3 });
    const shown = String(line?.fields["body"]);
    expect(shown).not.toContain("h-secret");
    expect(JSON.parse(shown)).toEqual({
      session: "public",
      secret: "[redacted]",
      handle: "[redacted]",
      parents: "[redacted]",
      auth: "[redacted]",
      authToken: "[redacted]",
      tickets: [{ grant: { handle: "[redacted]", token: 17 } }],
    });
  });

  test("is cut where it is long, and shows bytes by their length", () => {
    expect(redact({ data: new Uint8Array(9) })).toEqual({ data: "[9 bytes]" });
    expect(String(redact("x".repeat(1000))).length).toBe(257);
    expect(redact(Array.from({ length: 100 }, () => 1))).toHaveLength(33);
    let deep: unknown = "bottom";
    for (let i = 0; i < 30; i++) deep = [deep];
    expect(JSON.stringify(redact(deep))).not.toContain("bottom");
  });
});

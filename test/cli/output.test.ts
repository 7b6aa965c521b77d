import { describe, expect, test } from "bun:test";
import { openSync } from "node:fs";
import { ClosedPipeError, TerminalOutput, wantsColour } from "../../src/cli/terminal-output.ts";
import { reportError } from "../../src/cli/report-error.ts";
import { LockdError } from "../../src/errors.ts";
import { isTerminal } from "../../src/terminal.ts";

const errno = (code: string): Error => Object.assign(new Error(`${code}: it broke`), { code });

function output(stdout: (data: string | Uint8Array) => Promise<unknown>, json = false): TerminalOutput {
  return new TerminalOutput({ json, colour: false, sinks: { stdout, stderr: () => undefined } });
}

describe("output", () => {
  test("is written in the order of the calls, also when nobody waited", async () => {
    const taken: string[] = [];
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let calls = 0;
    const out = output(async (data) => {
      calls += 1;
      await gates[calls - 1]?.promise;
      taken.push(String(data));
    });
    const [first, second] = [out.write("a"), out.result({}, "b")];
    gates[1]?.resolve();
    // far more turns than an unordered write would need
    for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
    expect(taken).toEqual([]);
    gates[0]?.resolve();
    await Promise.all([first, second]);
    expect(taken).toEqual(["a", "b\n"]);
  });

  test("ends each text with one newline, and an empty one writes nothing", async () => {
    const taken: unknown[] = [];
    const out = output(async (data) => void taken.push(data));
    await out.result({}, "a\n");
    await out.result({}, "");
    await out.write(new Uint8Array([1]));
    expect(taken).toEqual(["a\n", new Uint8Array([1])]);
  });

  test("to a closed pipe ends the command without a word and as SIGPIPE would", async () => {
    const error = await output(() => Promise.reject(errno("EPIPE"))).write("x").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ClosedPipeError);
    expect(reportError(error, { json: true, stack: true })).toEqual({ exitCode: 141, text: "" });
  });

  test("whose reader leaves while nothing is written ends the wait soon, and no wait otherwise", async () => {
    let unread = false;
    const sinks = { stdout: async () => undefined, stderr: () => undefined, isUnread: async () => unread };
    const out = new TerminalOutput({ json: false, colour: false, sinks });
    expect(await out.whileRead(Bun.sleep(1200).then(() => "worked"))).toBe("worked");
    await expect(out.whileRead(Promise.reject(new Error("broke")))).rejects.toThrow("broke");
    const endless = out.whileRead(new Promise<never>(() => undefined)).catch((thrown: unknown) => thrown);
    unread = true;
    expect(await endless).toBeInstanceOf(ClosedPipeError);
    // where nobody can be asked, only a write tells
    expect(await output(async () => undefined).whileRead(Bun.sleep(1200).then(() => "worked"))).toBe("worked");
  });

  test("that cannot be written is an error that says so, and later writes are still tried", async () => {
    let calls = 0;
    const out = output(async () => {
      calls += 1;
      if (calls === 1) throw errno("ENOSPC");
    });
    const error = await out.write("x").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LockdError);
    expect(error instanceof LockdError && [error.code, error.message]).toEqual(["failed", "write standard output: ENOSPC: it broke"]);
    await out.write("y");
    expect(calls).toBe(2);
  });
});

test("pipes, files, closed descriptors and /dev/null are no terminals", () => {
  expect([isTerminal(openSync("/dev/null", "w")), isTerminal(openSync(import.meta.path, "r")), isTerminal(999)]).toEqual([false, false, false]);
  expect(wantsColour({ NO_COLOR: "1" })).toBe(false);
});

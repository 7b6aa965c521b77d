/**
 * The client in Python that was written from docs/protocol.md keeps what lockd promises, beside itself and
 * beside lockd's own commands.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { environment, eventually, temporaryDirectory, TestServer } from "../e2e/kit.ts";
import { CuttableProxy } from "../e2e/proxy.ts";
import { readPage } from "./page.ts";

const WORKER = resolve(import.meta.dir, "worker.py");
const directory = temporaryDirectory("python");
const running = new Set<Bun.Subprocess>();
let server: TestServer;

beforeAll(async () => {
  server = await TestServer.start({ directory: join(directory.path, "data") });
});

afterAll(async () => {
  for (const child of running) child.kill("SIGKILL");
  await server.stop();
  directory.remove();
});

interface Worker {
  /** ends what it holds */
  end(): void;
  /** exit code and output, when it has ended */
  finished: Promise<{ code: number; output: string; errors: string }>;
}

function work(words: readonly string[], options: { journal?: string; address?: string; stdin?: string } = {}): Worker {
  const child = Bun.spawn(["python3", WORKER, ...words], {
    env: environment({ LOCKD_CONNECT: options.address ?? server.address, JOURNAL: options.journal ?? "/dev/null" }),
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  running.add(child);
  if (options.stdin !== undefined) {
    child.stdin.write(options.stdin);
    child.stdin.end();
  }
  const finished = Promise.all([child.exited, new Response(child.stdout).text(), new Response(child.stderr).text()]).then(([code, output, errors]) => {
    running.delete(child);
    return { code, output: output.trim(), errors };
  });
  return { end: () => void child.stdin.end(), finished };
}

interface Note {
  what: string;
  pid: string;
  token: number;
}

function notes(journal: string): Note[] {
  if (!existsSync(journal)) return [];
  const lines = readFileSync(journal, "utf8").split("\n").filter((line) => line !== "");
  return lines.map((line) => {
    const [what = "", pid = "", token = ""] = line.split(" ");
    return { what, pid, token: Number(token) };
  });
}

const journalOf = (name: string): string => join(directory.path, `${name}.journal`);
const noted = (journal: string, what: string, count = 1): Promise<void> =>
  eventually(`${count} times ${what} in ${journal}`, () => notes(journal).filter((note) => note.what === what).length >= count);

describe("the Python client", () => {
  test("reads and writes every frame of the page to the same bytes", async () => {
    const shown = readPage().frames.map(({ bytes }) => Buffer.from(bytes).toString("hex"));
    const { code, output, errors } = await work(["frames"], { stdin: shown.join("\n") }).finished;
    expect([code, errors]).toEqual([0, ""]);
    expect(output.split("\n")).toEqual(shown);
  });

  test("excludes another one, and tokens rise from each holder to the next", async () => {
    const journal = journalOf("rounds");
    const workers = ["a", "b", "c"].map(() => work(["rounds", "python/rounds", "15"], { journal }));
    for (const worker of workers) expect(await worker.finished).toEqual({ code: 0, output: "", errors: "" });
    const all = notes(journal);
    expect(all).toHaveLength(90);
    for (let index = 0; index < all.length; index += 2) {
      const [enter, leave] = [all[index], all[index + 1]];
      expect([enter?.what, leave?.what, leave?.pid, leave?.token]).toEqual(["enter", "leave", enter?.pid, enter?.token]);
    }
    const tokens = all.filter(({ what }) => what === "enter").map(({ token }) => token);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    expect(new Set(all.map(({ pid }) => pid)).size).toBe(3);
  });

  test("excludes lockd's own commands, and is excluded by them", async () => {
    const journal = journalOf("mixed");
    const holder = work(["hold", "python/mixed", "5000", "5000"], { journal });
    await noted(journal, "enter");
    expect((await server.run(["exec", "python/mixed", "--wait", "0", "--", "true"])).code).toBe(75);
    holder.end();
    expect((await holder.finished).code).toBe(0);
    const child = server.spawn(["exec", "python/mixed", "--", "sh", "-c", "echo in; read end"]);
    const reader = child.stdout.getReader();
    await reader.read();
    expect(await work(["try", "python/mixed", "0"]).finished).toEqual({ code: 75, output: "timedout", errors: "" });
    child.stdin.end();
    await child.exited;
    expect((await work(["try", "python/mixed", "5000"]).finished).code).toBe(0);
  });

  test("keeps a lock by renewals for three times its duration and more", async () => {
    const journal = journalOf("kept");
    const holder = work(["hold", "python/kept", "1200", "5000"], { journal });
    await noted(journal, "enter");
    const [ticket] = await server.list("python/kept");
    await Bun.sleep(3 * 1200);
    const [later] = await server.list("python/kept");
    expect([later?.["state"], later?.["token"]]).toEqual(["locked", ticket?.["token"]]);
    holder.end();
    expect(await holder.finished).toEqual({ code: 0, output: "", errors: "" });
    expect(notes(journal).map(({ what }) => what)).toEqual(["enter", "leave"]);
  });

  test("keeps its place while it waits for longer than the grace of its session", async () => {
    const journal = journalOf("waits");
    const holder = work(["hold", "python/waits", "5000", "1500"], { journal });
    await noted(journal, "enter");
    const waiter = work(["hold", "python/waits", "5000", "1500"], { journal });
    await eventually("the second one waits", async () => (await server.list("python/waits")).length === 2);
    await Bun.sleep(2500);
    holder.end();
    await noted(journal, "enter", 2);
    waiter.end();
    for (const worker of [holder, waiter]) expect((await worker.finished).code).toBe(0);
  });

  test("whose network is cut notices the loss before the next one gets the lock", async () => {
    const journal = journalOf("cut");
    const proxy = await CuttableProxy.start(server.address);
    const holder = work(["hold", "python/cut", "900", "5000"], { journal, address: proxy.address });
    await noted(journal, "enter");
    const next = work(["hold", "python/cut", "5000", "5000"], { journal });
    await eventually("the next one waits", async () => (await server.list("python/cut")).length === 2);
    proxy.cut();
    await noted(journal, "enter", 2);
    expect(notes(journal).map(({ what }) => what)).toEqual(["enter", "lost", "enter"]);
    const [first, , second] = notes(journal);
    expect(second?.token).toBeGreaterThan(first?.token ?? Infinity);
    next.end();
    await next.finished;
    expect((await holder.finished).output).toBe("unavailable");
    proxy.close();
  });

  test("whose lock is released by force stops, and hears that it was lost", async () => {
    const journal = journalOf("forced");
    const holder = work(["hold", "python/forced", "60000", "5000"], { journal });
    await noted(journal, "enter");
    const token = notes(journal)[0]?.token ?? 0;
    expect((await server.run(["release", "python/forced", "--token", String(token), "--force"])).code).toBe(0);
    expect(await holder.finished).toEqual({ code: 75, output: "lost", errors: "" });
    expect(notes(journal).map(({ what }) => what)).toEqual(["enter", "lost"]);
  });

  test("raises the code of what the server refuses", async () => {
    const blocker = work(["hold", "python/errors", "60000", "5000"], { journal: journalOf("errors") });
    await noted(journalOf("errors"), "enter");
    const outcomes = await Promise.all([
      work(["try", "python/errors", "0"]).finished,
      work(["try", "python/errors", "200"]).finished,
      work(["try", "", "0"]).finished,
      work(["try", "x".repeat(1025), "0"]).finished,
      work(["try", "python/errors", "-1"]).finished,
    ]);
    expect(outcomes.map(({ output }) => output)).toEqual(["timedout", "timedout", "invalid", "invalid", "invalid"]);
    expect(outcomes.map(({ errors }) => errors)).toEqual(["", "", "", "", ""]);
    blocker.end();
    expect((await blocker.finished).code).toBe(0);
  });

  test("run by itself holds a lock for a while, or says how it is used", async () => {
    const run = async (...words: readonly string[]): Promise<[number, string, string]> => {
      const child = Bun.spawn(["python3", resolve(WORKER, "../../../examples/python/lockd_client.py"), ...words], {
        env: environment({ LOCKD_CONNECT: server.address }),
        stdout: "pipe",
        stderr: "pipe",
      });
      return [await child.exited, await new Response(child.stdout).text(), await new Response(child.stderr).text()];
    };
    expect(await run()).toEqual([1, "", expect.stringMatching(/^usage: lockd_client.py OBJECT SECONDS /)]);
    expect(await run("python/main", "0.1")).toEqual([0, expect.stringMatching(/^python\/main is held, token \d+\n$/), ""]);
    expect(await run("", "0.1")).toEqual([1, "", expect.stringMatching(/^lockd_client.py: invalid: /)]);
    expect(await server.list("python/main")).toEqual([]);
  });

  test("needs nothing but the standard library, and stays about sixty lines beside its CBOR", () => {
    const source = readFileSync(resolve(import.meta.dir, "../../examples/python/lockd_client.py"), "utf8");
    expect([...source.matchAll(/^(?:import|from) (.+)$/gm)].map((match) => match[1])).toEqual(["base64, os, socket, struct, sys, threading, time"]);
    const end = source.indexOf("if __name__");
    const lines = source.slice(source.indexOf("class Lock:"), end).split("\n").filter((line) => /^\s*[^\s#]/.test(line));
    expect(lines.length).toBeLessThan(80);
    expect(source.slice(end).trimEnd().split("\n").length).toBeLessThan(10);
  });
});

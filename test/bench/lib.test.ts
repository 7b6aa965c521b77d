import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describeMachine, mountOf, type Machine } from "../../bench/lib/machine.ts";
import { readOptions } from "../../bench/lib/options.ts";
import { publish, renderReport, reportRow, summarise, type Report } from "../../bench/lib/report.ts";
import { alternate } from "../../bench/lib/rounds.ts";
import { timeCommandMs } from "../../bench/lib/spawned.ts";
import { freePort, Stage, untilReady } from "../../bench/lib/stage.ts";
import { median, quantile, spreadOf } from "../../bench/lib/statistics.ts";
import { formatNumber, renderTable } from "../../bench/lib/table.ts";
import { requireTool } from "../../bench/lib/tools.ts";
import { driveCycles, readNumbers } from "../../bench/peers/load.ts";
import { readyAddress, residentBytes } from "../../bench/peers/lockd.ts";

// not the system's folder for temporary files: that may be in memory, which a stage refuses
const parent = fileURLToPath(new URL("../../.tmp", import.meta.url));
mkdirSync(parent, { recursive: true });
const folder = mkdtempSync(join(parent, "bench-test-"));
let machine: Machine;
beforeAll(async () => {
  machine = await describeMachine(folder, { peer: "1" });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("statistics", () => {
  test("the median is the middle, or the mean of the two in the middle, in any order", () => {
    expect(median([9, 1, 5])).toBe(5);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([7])).toBe(7);
  });

  test("quantiles rise with the share and stay within the sample", () => {
    const sample = fc.array(fc.integer({ min: -1000, max: 1000 }), { minLength: 1, maxLength: 50 });
    fc.assert(
      fc.property(sample, fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }), (values, a, b) => {
        const [low, high] = [quantile(values, Math.min(a, b)), quantile(values, Math.max(a, b))];
        expect(low).toBeLessThanOrEqual(high + 1e-9);
        expect(low).toBeGreaterThanOrEqual(Math.min(...values));
        expect(high).toBeLessThanOrEqual(Math.max(...values));
      }),
    );
  });

  test("an empty sample has no quantile", () => expect(() => median([])).toThrow("at least one value"));

  test("a spread is median, 99th percentile and largest", () => {
    expect(spreadOf(Array.from({ length: 101 }, (_, place) => place))).toEqual({ p50: 50, p99: 99, max: 100 });
  });
});

describe("table", () => {
  test("aligns the first column left, the others right, and leaves no space at the ends", () => {
    expect(renderTable(["case", "a"], [["long name", "1"], ["x", "22"]])).toBe("case        a\n---------  --\nlong name   1\nx          22\n");
  });

  test("refuses a row with a cell too few", () => expect(() => renderTable(["a", "b"], [["x"]])).toThrow("a cell for every column"));

  test("shows three digits, thousands apart, and a dash for nothing", () => {
    expect([12345.6, 99.44, 0.00123, 0, null].map(formatNumber)).toEqual(["12,346", "99.4", "0.00123", "0", "-"]);
  });
});

describe("rounds", () => {
  test("measure each contestant once a round, and the order turns", async () => {
    const order: string[] = [];
    const contestant = (name: string) => ({ name, measure: (round: number) => Promise.resolve(order.push(`${name}${round}`)) });
    const samples = await alternate([contestant("a"), contestant("b"), contestant("c")], 3);
    expect(order).toEqual(["a0", "b0", "c0", "b1", "c1", "a1", "c2", "a2", "b2"]);
    expect(samples.get("b")).toEqual([2, 4, 9]);
  });

  test("refuse two contestants of one name and a run without rounds", async () => {
    const one = { name: "a", measure: () => Promise.resolve(1) };
    await expect(alternate([one, one], 1)).rejects.toThrow("different names");
    await expect(alternate([one], 0)).rejects.toThrow("at least one round");
  });
});

describe("options", () => {
  const defaults = { rounds: 5, levels: [1, 2] };
  test("are the defaults with what was given", () => {
    expect(readOptions(["--levels", "4,8", "--rounds", "1.5"], defaults)).toEqual({ rounds: 1.5, levels: [4, 8] });
    expect(readOptions([], defaults)).toEqual({ rounds: 5, levels: [1, 2] });
  });

  test("that are unknown or not numbers are usage errors", () => {
    const bad = [["--nope", "1"], ["rounds", "1"], ["--rounds"], ["--rounds", "x"], ["--rounds", ""], ["--rounds", "1,2"], ["--rounds", "-1"], ["--levels", "1,,2"], ["--toString", "1"]];
    for (const argv of bad) expect(() => readOptions(argv, defaults)).toThrow(expect.objectContaining({ code: "usage" }));
  });
});

describe("report", () => {
  const row = reportRow({ case: "one", measure: "cycles/s" }, new Map([["lockd", [3, 1, 2]], ["peer", [4, 4, 4]]]), (value) => value * 100);
  const report = (): Report => ({ name: "sample", contestants: ["lockd", "peer"], rows: [row], options: { rounds: 3 }, machine });

  test("divides our median by the peer's", () => {
    expect(summarise(report(), row)).toEqual({ medians: { lockd: 200, peer: 400 }, ratio: 0.5 });
  });

  test("has no ratio where the peer was not measured, or there is none", () => {
    const alone = { case: "two", measure: "s", samples: { lockd: [1] } };
    expect(summarise(report(), alone)).toEqual({ medians: { lockd: 1, peer: null }, ratio: null });
    expect(renderReport({ ...report(), contestants: ["lockd"], rows: [alone] })).not.toContain("lockd/");
  });

  test("prints the ratio last", () => {
    expect(renderReport(report())).toBe(
      "sample: medians of 3 rounds\ncase   measure  lockd  peer  lockd/peer\n----  --------  -----  ----  ----------\none   cycles/s    200   400        0.50\n",
    );
  });

  test("leaves a file with samples, medians, options and the machine", () => {
    const text = readFileSync(publish(report(), folder), "utf8");
    const result: unknown = JSON.parse(text);
    expect(result).toMatchObject({
      name: "sample",
      date: expect.stringMatching(/^\d{4}-.*Z$/),
      options: { rounds: 3 },
      rows: [{ case: "one", samples: { lockd: [300, 100, 200] }, medians: { lockd: 200 }, ratio: 0.5 }],
      machine: { cores: expect.any(Number), kernel: expect.any(String), versions: { peer: "1", bun: Bun.version } },
    });
    expect(existsSync(join(folder, "sample.json.tmp"))).toBe(false);
  });
});

describe("machine", () => {
  const mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /mnt/with\\040space xfs rw 0 0\n/dev/c /mnt ext2 rw 0 0\noverlay / overlay rw 0 0\n";
  test("finds the mount that holds a path: the longest, of equals the last", () => {
    expect(mountOf("/tmp/x", mounts)?.fileSystem).toBe("tmpfs");
    expect(mountOf("/tmpfoo", mounts)?.fileSystem).toBe("overlay");
    expect(mountOf("/mnt/with space/x", mounts)?.device).toBe("/dev/b");
    expect(mountOf("/x", "")).toBeNull();
  });
});

describe("stage", () => {
  test("gives new folders and clears everything away, processes included", async () => {
    const stage = Stage.open("test", folder);
    const inside = stage.folder("data");
    const started = stage.start(["sleep", "600"]);
    expect(existsSync(inside)).toBe(true);
    expect(await residentBytes(started.pid)).toBeGreaterThan(0);
    await stage[Symbol.asyncDispose]();
    expect(existsSync(stage.directory)).toBe(false);
    expect(await started.exited).not.toBe(0);
    expect(existsSync(`/proc/${started.pid}`)).toBe(false);
  });

  test("clears away at a signal, too", async () => {
    const program = `import { Stage } from ${JSON.stringify(join(import.meta.dir, "../../bench/lib/stage.ts"))};
      const stage = Stage.open("signal", ${JSON.stringify(folder)});
      const started = stage.start(["sleep", "600"]);
      console.log(JSON.stringify({ directory: stage.directory, pid: started.pid }));`;
    const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe" });
    const reader = child.stdout.getReader();
    const line = new TextDecoder().decode((await reader.read()).value);
    const { pid } = readNumbers(JSON.parse(line), "pid");
    const directory = /"directory":"([^"]+)"/.exec(line)?.[1] ?? "";
    expect(existsSync(directory)).toBe(true);
    child.kill("SIGTERM");
    expect(await child.exited).toBe(143);
    expect(existsSync(directory)).toBe(false);
    expect(existsSync(`/proc/${pid}`)).toBe(false);
  });

  test("passes stderr on line by line, also what came before the reader", async () => {
    await using stage = Stage.open("test", folder);
    const started = stage.start(["sh", "-c", "printf 'one\\ntwo' >&2; printf ' and a half\\nlast' >&2"]);
    await started.exited;
    const lines: string[] = [];
    for await (const line of started.stderrLines()) lines.push(line);
    expect(lines).toEqual(["one", "two and a half"]);
    expect(started.lastWords()).toBe("one | two and a half | last");
  });

  test("says with its last words that a server ended before it was ready", async () => {
    await using stage = Stage.open("test", folder);
    const started = stage.start(["sh", "-c", "echo no luck >&2; exit 3"]);
    const waiting = untilReady(started, "sample", () => Promise.resolve(null));
    await expect(waiting).rejects.toThrow(expect.objectContaining({ code: "unavailable", message: expect.stringContaining("no luck") }));
  });

  test("gives the JSON that a program prints, and the error of one that fails", async () => {
    await using stage = Stage.open("test", folder);
    expect(await stage.runJson(["echo", '{"a":1}'])).toEqual({ a: 1 });
    await expect(stage.runJson(["sh", "-c", "echo why >&2; exit 2"])).rejects.toThrow("ended with 2: why");
  });

  test("refuses a file system in memory", () => {
    expect(() => Stage.open("test", "/dev/shm")).toThrow(expect.objectContaining({ code: "config" }));
  });

  test("names a port on which nobody listens", async () => {
    const socket = connect(await freePort(), "127.0.0.1");
    const error = await new Promise<NodeJS.ErrnoException>((resolve) => socket.on("error", resolve));
    expect(error.code).toBe("ECONNREFUSED");
  });
});

describe("load", () => {
  test("counts only cycles that began and ended within the measured time", async () => {
    let runs = 0;
    const result = await driveCycles([() => (runs++, Bun.sleep(5))], { warmupSeconds: 0.05, seconds: 0.1 });
    expect(result.cycles).toBeGreaterThan(0);
    expect(result.cycles).toBeLessThan(runs);
    expect(result.cycles).toBeLessThanOrEqual(100 / 4);
    expect(result.p50Ms).toBeGreaterThanOrEqual(4);
  });

  test("fails when no cycle ended, and when a cycle fails", async () => {
    await expect(driveCycles([() => Bun.sleep(60)], { warmupSeconds: 0, seconds: 0.02 })).rejects.toThrow("none ended");
    await expect(driveCycles([() => Promise.reject(new Error("held"))], { warmupSeconds: 0, seconds: 0.02 })).rejects.toThrow("held");
  });

  test("reads the numbers of a result, and misses what is not there", () => {
    expect(readNumbers({ cycles: 3, other: "x" }, "cycles")).toEqual({ cycles: 3 });
    for (const bad of [{ cycles: "3" }, {}, null, 3]) expect(() => readNumbers(bad, "cycles")).toThrow("cycles is missing");
  });

  test("finds the address in the ready line of the log and in no other line", () => {
    expect(readyAddress('{"msg":"ready","listen":"127.0.0.1:4050"}')).toBe("127.0.0.1:4050");
    for (const other of ["ready", "{}", "null", '{"msg":"starting","listen":"x"}', '{"msg":"ready"}']) expect(readyAddress(other)).toBeNull();
  });

  test("times every run of a command, and stops at one that fails", () => {
    expect(timeCommandMs(["true"], 3)).toHaveLength(3);
    expect(() => timeCommandMs(["sh", "-c", "echo no >&2; exit 4"], 3)).toThrow("ended with 4: no");
  });

  test("names the package of a tool that is missing", () => {
    expect(() => requireTool("no-such-tool", "some-package")).toThrow(expect.objectContaining({ code: "config", hint: expect.stringContaining("some-package") }));
  });
});

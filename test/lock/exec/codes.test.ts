/** What the caller sees of a command's end, and what the command sees of its start. */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash, randomBytes } from "node:crypto";
import { chmodSync, readdirSync, readlinkSync, writeFileSync } from "node:fs";
import { ExecWorld, TEST_MS_MAX, childrenOf } from "./kit.ts";

setDefaultTimeout(TEST_MS_MAX);
let world: ExecWorld;
beforeEach(() => {
  world = new ExecWorld();
});
afterEach(() => world.close());

describe("the exit code", () => {
  test.each([0, 1, 3, 42, 126, 127, 255])("of the command comes back: %d", async (code) => {
    const result = await world.run(["sh", "-c", `exit ${code}`]);
    expect(result.code).toBe(code);
    expect(result.signal).toBeNull();
    expect(result.journal).toEqual(["waiting", "held", "released"]);
  });

  test.each([9, 15, 1, 2, 3, 6, 11, 34, 40])("is 128+N when signal %d ended the command", async (signal) => {
    const result = await world.run(["sh", "-c", `kill -${signal} $$`]);
    expect(result.code).toBe(128 + signal);
    expect(result.journal).toContain("released");
  });

  test("is 127 for a command that does not exist, and the lock is released", async () => {
    const result = await world.run(["no-such-command-anywhere"]);
    expect(result.code).toBe(127);
    expect(result.stderr).toContain("no-such-command-anywhere");
    expect(result.stderr).toContain("no such file");
    expect(result.journal).toContain("released");
  });

  test("is 126 for a file that cannot be run, and for a directory", async () => {
    const plain = world.path("plain");
    writeFileSync(plain, "#!/bin/sh\n");
    chmodSync(plain, 0o644);
    expect((await world.run([plain])).code).toBe(126);
    expect((await world.run([world.directory])).code).toBe(126);
  });

  test("of a script without a first line is the script's, as in a shell", async () => {
    const script = world.path("script");
    writeFileSync(script, "exit 9\n");
    chmodSync(script, 0o755);
    expect((await world.run([script])).code).toBe(9);
  });
});

describe("the command gets", () => {
  test("its arguments byte for byte, flags and dashes included", async () => {
    const words = ["-c", "--help", "--", "--wait", "", " a  b ", "ä€😀", "$HOME", "*", "a\nb", "'\""];
    const result = await world.run(["python3", "-c", "import sys; print(repr(sys.argv[1:]))", ...words]);
    const expected = await new Response(Bun.spawn(["python3", "-c", "import sys; print(repr(sys.argv[1:]))", ...words]).stdout).text();
    expect(result.stdout).toBe(expected);
    expect(result.stdout).toContain("'--help', '--', '--wait', ''");
  });

  test("what is written to its stdin, 100 MB without a change", async () => {
    const block = randomBytes(1 << 20);
    const hash = createHash("sha256");
    const run = world.start(world.fake(), ["sha256sum"], { stdin: "pipe" });
    const stdin = run.process.stdin;
    if (stdin === undefined || typeof stdin === "number") throw new Error("stdin is a pipe");
    for (let count = 0; count < 100; count++) {
      block.writeUInt32LE(count, count * 7);
      hash.update(block);
      stdin.write(Uint8Array.from(block));
      await stdin.flush();
    }
    await stdin.end();
    expect((await run.end()).stdout).toBe(`${hash.digest("hex")}  -\n`);
  });

  test("stdin untouched: what it does not read is left for the next", async () => {
    const file = world.path("lines");
    writeFileSync(file, "one\ntwo\nthree\n");
    const inner = await world.run(["sh", "-c", "read a; echo $a; cat"], {}, { stdin: Bun.file(file) });
    expect(inner.stdout).toBe("one\ntwo\nthree\n");
  });

  test("only the descriptors 0, 1 and 2", async () => {
    const list = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))";
    // the listing itself opens 3
    expect((await world.run(["python3", "-c", list])).stdout).toBe("[0, 1, 2, 3]\n");
    const dirty = ["bash", "-c", 'exec 3</dev/null 4</dev/null 9</dev/null; exec "$@"', "bash"];
    expect((await world.run(["python3", "-c", list], {}, { before: dirty })).stdout).toBe("[0, 1, 2, 3]\n");
  });

  test("and no helper keeps one that lockd was given", async () => {
    const given = world.path("given");
    const before = ["bash", "-c", `exec 3>${given} 4>${given}; exec "$@"`, "bash"];
    const run = world.start(world.fake(), ["sh", "-c", "echo up; sleep 60"], { before });
    await run.said("up");
    const helpers = childrenOf(run.pid);
    expect(helpers.length).toBe(2);
    for (const helper of helpers) {
      const open = readdirSync(`/proc/${helper.pid}/fd`).map((name) => readlinkSync(`/proc/${helper.pid}/fd/${name}`));
      expect(open).not.toContain(given);
    }
    run.process.kill("SIGTERM");
    expect((await run.end()).code).toBe(143);
  });

  test("blocking stdio, as it was given to lockd", async () => {
    const flags = "import fcntl,os; print([fcntl.fcntl(n, fcntl.F_GETFL) & os.O_NONBLOCK for n in (0,1,2)])";
    expect((await world.run(["python3", "-c", flags], {}, { before: ["env"] })).stdout).toBe("[0, 0, 0]\n");
  });

  test("the lock in its environment, and every other variable byte for byte", async () => {
    const show = "import os,sys; sys.stdout.buffer.write(b'\\n'.join(k+b'='+v for k,v in sorted(os.environb.items()) if k.startswith(b'LOCKD_') or k==b'ODD'))";
    const before = ["bash", "-c", `export ODD=$'\\xff\\xfe=x'; exec "$@"`, "bash"];
    const run = world.start(world.fake(), ["python3", "-c", `${show}; sys.stdout.flush()`], { before });
    const bytes = (await run.end()).stdout;
    expect(bytes).toMatch(/LOCKD_DEADLINE=\d+\n/);
    expect(bytes).toContain("LOCKD_HANDLE=secret\nLOCKD_OBJECT=x\nLOCKD_TOKEN=7\n");
    const hex = await world.run(["python3", "-c", "import os; print(os.environb[b'ODD'].hex())"], {}, { before });
    expect(hex.stdout).toBe("fffe3d78\n");
  });

  test("the soft and hard limit of open files that lockd was given", async () => {
    const before = ["bash", "-c", 'ulimit -Sn 300; ulimit -Hn 5000; "$@"; exit $?', "bash"];
    expect((await world.run(["sh", "-c", "ulimit -Sn; ulimit -Hn"], {}, { before })).stdout).toBe("300\n5000\n");
  });

  test("no ignored and no blocked signal by default, also not SIGPIPE", async () => {
    const result = await world.run(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]);
    expect(result.stdout).toBe("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
  });

  test.each([
    ["nohup", ["nohup"], "0000000000000001"],
    ["trap '' HUP USR1 USR2", ["bash", "-c", `trap '' HUP USR1 USR2; "$@"; exit $?`, "bash"], "0000000000000a01"],
    ["a shell's background job", ["sh", "-c", `"$@" & wait $!`, "sh"], "0000000000000006"],
  ])("signals ignored that were ignored for lockd: %s", async (_, before, mask) => {
    const result = await world.run(["grep", "SigIgn", "/proc/self/status"], {}, { before });
    expect(result.stdout).toBe(`SigIgn:\t${mask}\n`);
  });

  test("signals blocked that were blocked for lockd", async () => {
    const block = "import signal,os,sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.execvp(sys.argv[1], sys.argv[1:])";
    const result = await world.run(["grep", "SigBlk", "/proc/self/status"], {}, { before: ["python3", "-c", block] });
    expect(result.stdout).toBe("SigBlk:\t0000000000000200\n");
  });

  test("working directory, umask and priority as they were", async () => {
    const before = ["bash", "-c", `cd ${world.directory}; umask 037; exec nice -n 5 "$@"`, "bash"];
    const result = await world.run(["sh", "-c", "pwd; umask; nice"], {}, { before });
    expect(result.stdout).toBe(`${world.directory}\n0037\n5\n`);
  });
});

test("what the command leaves in the background neither keeps the lock nor is killed", async () => {
  const mark = world.path("mark");
  const run = world.start(world.fake(), ["sh", "-c", `(trap '' HUP; sleep 0.3; echo done >${mark}) >/dev/null 2>&1 & echo started`]);
  expect((await run.end()).journal).toEqual(["waiting", "held", "released"]);
  expect(await Bun.file(mark).exists()).toBe(false);
  const end = performance.now() + 5_000;
  while (!(await Bun.file(mark).exists()) && performance.now() < end) await Bun.sleep(20);
  expect(await Bun.file(mark).exists()).toBe(true);
});

test("a release that is never answered does not hold up the command's code", async () => {
  const result = await world.run(["sh", "-c", "exit 5"], { releaseAnswers: false });
  expect(result.code).toBe(5);
  expect(result.stderr).toContain("could not be released");
});

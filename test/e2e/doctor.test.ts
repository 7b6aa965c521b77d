import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { environment, type Finished, LOCKD, lockd, temporaryDirectory, TestServer } from "./kit.ts";
import { identityFlags, issue, makeAuthority, secretFile } from "./security-kit.ts";

const directory = temporaryDirectory("doctor");
const path = (...names: readonly string[]): string => join(directory.path, ...names);
let server: TestServer;

interface Answer {
  check: string;
  state: "ok" | "warning" | "failed";
  summary: string;
  hint?: string;
  [detail: string]: unknown;
}

beforeAll(async () => {
  server = await TestServer.start({ directory: path("data") });
});
afterAll(async () => {
  await server.kill();
  directory.remove();
});

const flags = (): readonly string[] => ["--data", server.directory, "--connect", server.address];

/** The checks of `doctor --json`, and its exit code. */
async function answers(argv: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<{ code: number; all: readonly Answer[]; of: (check: string) => Answer }> {
  const { code, stdout, stderr } = await lockd(["doctor", "--json", ...argv], { env });
  expect(stderr).toBe("");
  return parsed({ code, stdout, stderr });
}

function parsed({ code, stdout }: Finished) {
  const all = stdout.trimEnd().split("\n").map((line): Answer => JSON.parse(line));
  const of = (check: string): Answer => {
    const found = all.find((answer) => answer.check === check);
    if (found === undefined) throw new Error(`no check ${check} in:\n${stdout}`);
    return found;
  };
  // the exit code says what the states say, and whatever is not in order comes with what to do
  expect(code).toBe(all.some(({ state }) => state === "failed") ? 1 : 0);
  expect(all.filter(({ state, hint }) => state !== "ok" && hint === undefined)).toEqual([]);
  return { code, all, of };
}

describe("doctor on a machine with a running server", () => {
  test("finds nothing that failed, and says how fast disk and server are", async () => {
    const { code, of } = await answers(flags());
    expect(code).toBe(0);
    const { software, kernel } = of("version");
    expect(`lockd ${String(software)}\n`).toBe((await lockd(["--version"])).stdout);
    expect(String(kernel)).not.toBe("");
    expect(of("configuration").state).toBe("ok");
    expect(of("exec").state).toBe("ok");
    expect(of("data-directory")).toMatchObject({ state: "ok", path: server.directory, exists: true, mode: "0700" });
    expect(Number(of("file-system")["freeBytes"])).toBeGreaterThan(0);
    const sync = of("sync");
    expect(Number(sync["medianMs"])).toBeGreaterThan(0);
    expect(Number(sync["worstMs"])).toBeGreaterThanOrEqual(Number(sync["medianMs"]));
    expect(Number(sync["commitsPerSecond"])).toBe(Math.round(1000 / Number(sync["medianMs"])));
    expect(Number(of("limits")["openFiles"])).toBeGreaterThan(0);
    expect(Number(of("clock")["elapsedMs"])).toBeGreaterThan(0);
    const answer = of(`server ${server.address}`);
    expect(answer).toMatchObject({ state: "ok", name: server.ready.name, mode: "serve", ready: true, version: software });
    expect(Number(answer["roundTripMs"])).toBeGreaterThan(0);
  });

  test("tells people the same in lines, each with its state, and a sum at the end", async () => {
    const { code, stdout } = await lockd(["doctor", ...flags()]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ok {7}version: lockd \d/);
    expect(stdout).toMatch(/^ok {7}sync: median [\d.]+ ms, worst [\d.]+ ms: about [\d,]+ commits a second/m);
    expect(stdout).toContain(`\nok       server ${server.address}: node ${server.ready.name}, lockd `);
    expect(stdout).toMatch(/\n(\d+) checks: \d+ ok, \d+ warnings, 0 failed\n$/);
    expect(stdout.trimEnd().split("\n").at(-1)).toStartWith(String(stdout.match(/^(?:ok|warning|failed) /gm)?.length));
  });

  test("changes nothing in the data directory", async () => {
    const look = () => readdirSync(server.directory).map((name) => `${name} ${name.endsWith("-wal") ? "" : readFileSync(join(server.directory, name)).length}`);
    const before = look();
    await answers(flags());
    expect(look()).toEqual(before);
  });

  test("reaches it with TLS and credentials as all commands do, and says when they are wrong", async () => {
    const authority = await makeAuthority(path("ca"));
    const identity = await issue(authority, "server", path("server"), "--host", "127.0.0.1");
    const secret = secretFile(path("secret"));
    const other = secretFile(path("other-secret"));
    const secured = await TestServer.start({ directory: path("secured"), flags: [...identityFlags(identity), "--secret-file", secret.path] });
    const ask = (file: string) => answers(["--data", path("secured"), "--connect", secured.address, "--tls-ca", identity.ca, "--secret-file", file]);
    expect((await ask(secret.path)).of(`server ${secured.address}`).state).toBe("ok");
    expect((await ask(other.path)).of(`server ${secured.address}`)).toMatchObject({ state: "failed", error: "denied" });
    const plain = await answers(["--connect", secured.address]);
    expect(plain.of(`server ${secured.address}`).state).toBe("failed");
    await secured.kill();
  });
});

describe("doctor says what is wrong with", () => {
  test("servers: one that nobody runs, one that is silent, one that is something else, within its time, beside one that is well", async () => {
    const silent = await listener(() => undefined);
    const foreign = await listener((write) => write("HTTP/1.1 400 Bad Request\r\n\r\n"));
    const startMs = performance.now();
    const { code, of } = await answers(["--data", server.directory, "--connect", `127.0.0.1:1,${silent.address},${foreign.address},${server.address}`]);
    // two rounds of the library's own limits would be more
    expect(performance.now() - startMs).toBeLessThan(10_000);
    expect(code).toBe(1);
    expect(of("server 127.0.0.1:1")).toMatchObject({ state: "failed", error: "unavailable", summary: expect.stringContaining("connection refused") });
    expect(of(`server ${silent.address}`)).toMatchObject({ state: "failed", error: "unavailable", summary: expect.stringContaining("no answer within") });
    expect(of(`server ${foreign.address}`).state).toBe("failed");
    expect(of(`server ${server.address}`).state).toBe("ok");
    silent.server.close();
    foreign.server.close();
  });

  test("a server that stands still behind an open connection", async () => {
    const stopped = await TestServer.start({ directory: path("stopped") });
    stopped.signal("SIGSTOP");
    const { of } = await answers(["--connect", stopped.address]);
    expect(of(`server ${stopped.address}`)).toMatchObject({ state: "failed", error: "unavailable" });
    stopped.signal("SIGCONT");
    await stopped.kill();
  });

  test("the default address, when nobody named one, only as a warning", async () => {
    const { of } = await answers(["--data", server.directory]);
    // a server of this machine may well be there
    expect(["ok", "warning"]).toContain(of("server 127.0.0.1:4050").state);
  });

  test("the configuration: an unknown key, a bad value, an unknown variable; the other checks go on", async () => {
    const file = path("wrong.toml");
    for (const [text, what] of [["listne = 'x'", 'unknown key "listne"'], ["listen = 'x'", "has no port"], ["[lock]\nnope = 1", 'unknown key "nope" in [lock]']] as const) {
      writeFileSync(file, text);
      const { code, of } = await answers(["--config", file, ...flags()]);
      expect(code).toBe(1);
      expect(of("configuration")).toMatchObject({ state: "failed", summary: expect.stringContaining(what) });
      expect(of(`server ${server.address}`).state).toBe("ok");
    }
    // what is right in the environment still counts
    const { of } = await answers(["--data", server.directory], { LOCKD_LISTNE: "x", LOCKD_CONNECT: server.address });
    expect(of(`server ${server.address}`).state).toBe("ok");
    expect(of("configuration")).toMatchObject({ state: "failed", summary: expect.stringContaining("LOCKD_LISTNE"), hint: expect.stringContaining("LOCKD_LISTEN") });
  });

  test("values that are dubious, with where they come from", async () => {
    const file = path("dubious.toml");
    writeFileSync(file, `insecure = true\nlog-level = "trace"\nsecret-file = "open-secret"\ntoken-file = "missing"\n`);
    chmodSync(file, 0o666);
    writeFileSync(path("open-secret"), "0123456789abcdef0123456789abcdef\n");
    chmodSync(path("open-secret"), 0o644);
    const { of } = await answers(["--config", file, ...flags(), "--secret-file", path("open-secret")]);
    expect(of("insecure")).toMatchObject({ state: "warning", summary: expect.stringContaining(`${file}:1`) });
    expect(of("tracing")).toMatchObject({ state: "warning", summary: expect.stringContaining(`${file}:2`) });
    expect(of("secret-file")).toMatchObject({ state: "warning", summary: expect.stringContaining("--secret-file"), mode: "0644" });
    expect(of("token-file")).toMatchObject({ state: "failed", summary: expect.stringContaining("ENOENT") });
    expect(of("configuration-file")).toMatchObject({ state: "warning", mode: "0666" });
  });

  test("a data directory that others may look into, that is a file, that is not there", async () => {
    mkdirSync(path("wide"));
    chmodSync(path("wide"), 0o755);
    expect((await answers(["--data", path("wide")])).of("data-directory")).toMatchObject({ state: "warning", mode: "0755" });
    expect(readdirSync(path("wide"))).toEqual([]);
    writeFileSync(path("file"), "");
    expect((await answers(["--data", path("file")])).of("data-directory")).toMatchObject({ state: "failed", summary: expect.stringContaining("is not a directory") });
    const missing = await answers(["--data", path("no", "such")]);
    expect(missing.of("data-directory")).toMatchObject({ state: "warning", exists: false });
    expect(missing.of("sync").summary).toContain(`(in ${directory.path})`);
    expect(readdirSync(directory.path)).not.toContain("no");
  });

  test("memory as a data directory, and one without room", async () => {
    const mount = path("memory");
    mkdirSync(mount);
    await inNamespace(`mount -t tmpfs -o size=1g,mode=700 tmpfs ${mount}`, ["--data", mount], ({ of }) =>
      expect(of("file-system")).toMatchObject({ state: "warning", fileSystem: "tmpfs", summary: expect.stringContaining("it is memory") }));
    await inNamespace(`mount -t tmpfs -o size=1m,mode=700 tmpfs ${mount} && { head -c 2m /dev/zero > ${mount}/full || true; }`, ["--data", mount], ({ of }) => {
      expect(of("file-system")).toMatchObject({ state: "failed", freeBytes: 0 });
      expect(of("sync")).toMatchObject({ state: "failed", summary: expect.stringContaining("ENOSPC") });
    });
  });

  test("a data directory of somebody else, for a user who is not root", async () => {
    mkdirSync(path("private"), { mode: 0o700 });
    chmodSync(directory.path, 0o755);
    const run = Bun.spawn(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", LOCKD, "doctor", "--json", "--data", path("private"), "--connect", server.address], { env: environment({ HOME: "/" }), stdout: "pipe", stderr: "pipe" });
    const [code, stdout, stderr] = await Promise.all([run.exited, new Response(run.stdout).text(), new Response(run.stderr).text()]);
    expect(stderr).toBe("");
    const { of } = parsed({ code, stdout, stderr });
    expect(of("data-directory")).toMatchObject({ state: "failed", summary: expect.stringContaining("this user (65534) may not write there") });
    expect(of("sync")).toMatchObject({ state: "failed", summary: expect.stringContaining("EACCES") });
    expect(of(`server ${server.address}`).state).toBe("ok");
  });

  test("variables that bring code of others in, and tells no value of any", async () => {
    const { all, of } = await answers(flags(), { BUN_OPTIONS: "--smol", LOCKD_HANDLE: "very-secret" });
    expect(of("environment")).toMatchObject({ state: "warning", dangerous: ["BUN_OPTIONS"], variables: ["LOCKD_HANDLE"] });
    expect(JSON.stringify(all)).not.toContain("very-secret");
  });

  test("a low limit of open files", async () => {
    const limited = async (limit: number) => {
      const run = Bun.spawn(["prlimit", `--nofile=${limit}:${limit}`, LOCKD, "doctor", "--json", ...flags()], { env: environment(), stdout: "pipe", stderr: "pipe" });
      const [code, stdout, stderr] = await Promise.all([run.exited, new Response(run.stdout).text(), new Response(run.stderr).text()]);
      return parsed({ code, stdout, stderr }).of("limits");
    };
    expect(await limited(1024)).toMatchObject({ state: "warning", openFiles: 1024, connections: 960 });
    expect(await limited(100)).toMatchObject({ state: "failed", openFiles: 100 });
    expect((await limited(8192)).state).toBe("ok");
  });

  test("a disk whose syncs hang, in bounded time, and one whose syncs fail", async () => {
    const strace = async (inject: string) => {
      const run = Bun.spawn(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", `inject=fdatasync:${inject}`, LOCKD, "doctor", "--json", ...flags()], { env: environment(), stdout: "pipe", stderr: "pipe" });
      const [code, stdout, stderr] = await Promise.all([run.exited, new Response(run.stdout).text(), new Response(run.stderr).text()]);
      return parsed({ code, stdout, stderr }).of("sync");
    };
    expect(await strace("delay_enter=4000000")).toMatchObject({ state: "failed", summary: expect.stringContaining("no sync of 4 KiB has ended") });
    expect(await strace("error=EIO")).toMatchObject({ state: "failed", summary: expect.stringContaining("EIO") });
    expect(await strace("delay_enter=50000")).toMatchObject({ state: "warning" });
  });
});

/** Runs doctor where a file system can be mounted that nobody else sees. */
async function inNamespace(setUp: string, argv: readonly string[], check: (answer: ReturnType<typeof parsed>) => void): Promise<void> {
  const run = Bun.spawn(["unshare", "--mount", "bash", "-c", `${setUp} && exec "$@"`, "bash", LOCKD, "doctor", "--json", "--connect", server.address, ...argv], { env: environment(), stdout: "pipe", stderr: "pipe" });
  const [code, stdout, stderr] = await Promise.all([run.exited, new Response(run.stdout).text(), new Response(run.stderr).text()]);
  expect([stdout === "", stderr.replace(/^head: .*\n/, "")]).toEqual([false, ""]);
  check(parsed({ code, stdout, stderr }));
}

/** A program at an address that is no lockd; `greet` is called for each connection. */
async function listener(greet: (write: (text: string) => void) => void): Promise<{ server: Server; address: string }> {
  const listening = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    greet((text) => socket.end(text));
  });
  await new Promise<void>((done) => listening.listen(0, "127.0.0.1", done));
  const bound = listening.address();
  return { server: listening, address: typeof bound === "object" && bound !== null ? `127.0.0.1:${bound.port}` : "" };
}

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildExecutable } from "../../scripts/compile.ts";
import { environment, LOCKD, lockd } from "../e2e/kit.ts";
import { artifact, install, installByPipe, Place, serveFolder, sha256, standIn, writeRelease } from "./kit.ts";

/** The build under test as a release: packed once. A copy is used, since a build may replace dist/lockd. */
const shared = new Place();
let folder = "";
let version = "";
let executable = "";

beforeAll(async () => {
  executable = join(shared.folder("build"), "lockd");
  copyFileSync(LOCKD, executable);
  version = (await lockd(["--version"])).stdout.trim().replace("lockd ", "");
  folder = writeRelease(shared.folder("release"), { [artifact(version)]: readFileSync(executable) });
});
afterAll(() => shared[Symbol.dispose]());

describe("the executable of this build", () => {
  test("comes by curl | sh to a user who has nothing, and its demo works there, the address still in the environment", async () => {
    using place = new Place();
    using server = serveFolder(folder);
    const { code, stdout, stderr } = await installByPipe(place, server.url, { user: "nobody", env: { LOCKD_DOWNLOAD_URL: server.url } });
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain(`installed lockd ${version} as ${place.home}/.local/bin/lockd\n`);
    const bin = join(place.home, ".local/bin");
    expect(place.installed(bin)).toEqual(["lockd"]);
    expect(statSync(join(bin, "lockd")).mode & 0o777).toBe(0o755);
    expect(sha256(readFileSync(join(bin, "lockd")))).toBe(sha256(readFileSync(executable)));

    // the last line can be typed as it stands, whether PATH leads to it or not
    for (const [path, name] of [["/usr/bin:/bin", join(bin, "lockd")], [`/usr/bin:/bin:${bin}`, "lockd"]] as const) {
      const demo = Bun.spawn(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", join(bin, "lockd"), "demo"], {
        env: { PATH: path, HOME: place.home, TMPDIR: place.folder("tmp"), LOCKD_DOWNLOAD_URL: server.url },
        cwd: place.home,
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
      });
      const [told, complaints] = await Promise.all([new Response(demo.stdout).text(), new Response(demo.stderr).text()]);
      expect([await demo.exited, complaints.includes("lockd: ")]).toEqual([0, false]);
      expect(told).toEndWith(` Next: \`${name} serve\`, then \`${name} exec --help\`.\n`);
    }
    expect(place.installed(place.folder("tmp"))).toEqual([]);
  });

  test("is one file that carries the names of its sources: a stack trace shows them with no map beside it", async () => {
    using place = new Place();
    const build = place.folder("own");
    await buildExecutable({ outfile: join(build, "lockd") });
    expect(readdirSync(build)).toEqual(["lockd"]);
    const plugin = join(build, "plugin.js");
    const go = '{ name: "go", summary: "goes", load: async () => ({ run: async ({ values }) => values.string("undeclared") }) }';
    writeFileSync(plugin, `export default { name: "trace", version: "1.0.0", requires: { lockd: "^1" }, commands: [${go}] };`);
    const child = Bun.spawn([join(build, "lockd"), "go", "--plugin", plugin, "--log-level", "debug"], { env: environment(), stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    expect(await new Response(child.stderr).text()).toMatch(/\n {4}at assert \(src\/errors\.ts:\d+:\d+\)\n[^]*\(src\/cli\/run\.ts:\d+:\d+\)/);
  });

  test("is replaced while a server runs from it: the server serves on, the next start is the new one", async () => {
    using place = new Place();
    const installed = join(place.bin, "lockd");
    const first = await install(place, { args: ["--from", folder, "--bin-dir", place.bin] });
    expect([first.code, first.stderr]).toEqual([0, ""]);
    const server = Bun.spawn([installed, "serve", "--listen", "127.0.0.1:0", "--http", "off", "--data", place.folder("data"), "--log-format", "json"], {
      env: environment(),
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    });
    try {
      const address = await listenAddress(server.stderr);
      const client = { env: { LOCKD_CONNECT: address } };
      const [handle = ""] = (await lockd(["lock", "x", "--duration", "5m"], client)).stdout.split(" ");

      const other = writeRelease(place.folder("next"), { [artifact("99.0.0")]: standIn("99.0.0") });
      const second = await install(place, { args: ["--from", other, "--bin-dir", place.bin] });
      expect([second.code, second.stderr]).toEqual([0, ""]);
      expect(second.stdout).toContain("what runs keeps the old version until it is started again");

      expect(readlinkSync(`/proc/${server.pid}/exe`)).toBe(`${installed} (deleted)`);
      // its code is loaded when it is needed: also what the server had not used before
      expect((await lockd(["why", "x"], client)).code).toBe(0);
      expect((await lockd(["exec", "y", "--", "true"], client)).code).toBe(0);
      expect((await lockd(["unlock", handle], client)).code).toBe(0);
      const next = Bun.spawnSync([installed, "--version"], { env: { PATH: "/usr/bin:/bin" } });
      expect(next.stdout.toString()).toBe("lockd 99.0.0\n");
    } finally {
      server.kill("SIGTERM");
    }
    expect(await server.exited).toBe(0);
  });

  test("for another processor is refused with its own words (65)", async () => {
    using place = new Place();
    const foreign = new Uint8Array(readFileSync(executable).subarray(0, 4 << 20));
    // e_machine: neither x64 nor arm64
    foreign[18] = 0xf3;
    const release = writeRelease(place.folder("release"), { [artifact(version)]: foreign });
    const { code, stderr } = await install(place, { args: ["--from", release, "--bin-dir", place.bin] });
    expect([code, stderr]).toEqual([65, expect.stringMatching(/try the new lockd: .*(?:Exec format|syntax|cannot execute)/i)]);
    expect(place.installed()).toBeNull();
  });
});

async function listenAddress(stream: ReadableStream<Uint8Array>): Promise<string> {
  const found = Promise.withResolvers<string>();
  const read = async (): Promise<void> => {
    const decoder = new TextDecoder();
    let text = "";
    for await (const chunk of stream) {
      text += decoder.decode(chunk, { stream: true });
      const line = text.split("\n").find((one) => one.includes('"msg":"ready"'));
      const address = line === undefined ? undefined : /"listen":"([^"]+)"/.exec(line)?.[1];
      if (address !== undefined) found.resolve(address);
    }
    found.reject(new Error(`lockd serve ended: ${text}`));
  };
  void read();
  return found.promise;
}

/** The programs of examples/clients under Bun and Node, and the library as the package that a release has. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildLibrary, packageName, packLibrary } from "../../scripts/library.ts";
import { environment, eventually, temporaryDirectory, TestServer } from "./kit.ts";
import { Program, RUNTIMES, Workshop } from "./library-kit.ts";

setDefaultTimeout(60_000);

const examples = resolve(import.meta.dir, "../../examples/clients");
const directory = temporaryDirectory("library-examples");
let server: TestServer;
let workshop: Workshop;

beforeAll(async () => {
  [server, workshop] = await Promise.all([TestServer.start({ directory: join(directory.path, "data") }), Workshop.open("library-examples-programs")]);
  for (const name of ["nightly.mjs", "scheduler.mjs"]) copyFileSync(join(examples, name), join(workshop.path, name));
});
afterAll(async () => {
  await workshop.close();
  await server.kill();
  directory.remove();
});

for (const runtime of RUNTIMES) {
  describe(`under ${runtime}`, () => {
    test("nightly does its job, and not while somebody else does", async () => {
      const alone = await workshop.run(runtime, "nightly.mjs", server.address);
      expect(alone).toMatchObject({ code: 0, stderr: "" });
      expect(alone.stdout).toMatch(/^(step [123] under token \d+\n){3}done\n$/);
      const other = await server.run(["lock", "nightly"]);
      expect(await workshop.run(runtime, "nightly.mjs", server.address)).toMatchObject({ code: 0, stderr: "", stdout: expect.stringMatching(/^not now: \S+ on \S+ does it\n$/) });
      expect((await server.run(["unlock", other.stdout.split(" ")[0] ?? ""])).code).toBe(0);
    });

    test("nightly stops when its lock is taken", async () => {
      const program = workshop.start(runtime, "nightly.mjs", server.address);
      const token = (await program.line("step 1")).split(" ").at(-1) ?? "";
      const forced = await server.run(["release", "nightly", "--force", "--token", token]);
      const { code, stdout, stderr } = await program.finished;
      // fast enough to be done before it was taken: then it is done, and nothing was taken
      if (forced.code === 66) expect([code, stdout.includes("done")]).toEqual([0, true]);
      else expect([code, stdout.includes("done"), stderr]).toEqual([1, false, expect.stringContaining("stopped: ")]);
    });

    test("scheduler leads once at a time, tells what it does, and hands over when it is stopped", async () => {
      const leader = async (): Promise<string> => (await server.run(["leader", "scheduler"])).stdout;
      const first = workshop.start(runtime, "scheduler.mjs", server.address, "first");
      await first.line("leading");
      const second = workshop.start(runtime, "scheduler.mjs", server.address, "second");
      await eventually("the second one stands by", async () => (await server.list("scheduler")).length === 2);
      expect(await leader()).toStartWith("first: ");
      await eventually("the next round is told", async () => /^first: round (?:[2-9]|\d\d)/.test(await leader()));
      first.process.kill("SIGTERM");
      expect(await first.finished).toMatchObject({ code: 0, stderr: "" });
      await second.line("leading");
      expect((await server.run(["release", "scheduler", "--force", "--token", (await second.line("leading")).split(" ").at(-1) ?? ""])).code).toBe(0);
      // out of work, and a candidate again
      await second.line("lost");
      await second.line("leading", 2);
      await eventually("the other one tells its round", async () => (await leader()).startsWith("second: round"));
      second.process.kill("SIGTERM");
      expect(await second.finished).toMatchObject({ code: 0, stderr: "" });
      expect(await server.list("scheduler")).toEqual([]);
    });
  });
}

async function packageFile(): Promise<string> {
  const packed = await packLibrary(directory.path);
  expect(packed).toBe(join(directory.path, packageName));
  return packed;
}

async function buildFolder(): Promise<string> {
  const folder = join(directory.path, "built/client");
  await buildLibrary(folder);
  const open = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => (statSync(join(folder, path)).mode & 0o444) === 0o444);
  expect(open).toEqual(expect.arrayContaining(["lockd.js", "package.json", "types/client/index.d.ts", "README.md", "LICENSE"]));
  expect(statSync(folder).mode & 0o777).toBe(0o755);
  return folder;
}

for (const [name, make] of [["package of a release", packageFile], ["folder of a build", buildFolder]] as const) test(`the ${name} is installed by npm without a network, and works under its name`, async () => {
  const packed = await make();
  const home = join(directory.path, `program of the ${name}`);
  mkdirSync(home);
  const npm = Bun.spawn(["npm", "install", "--offline", "--silent", "--no-audit", "--no-fund", packed], { cwd: home, env: environment(), stdout: "pipe", stderr: "pipe" });
  expect([await npm.exited, await new Response(npm.stderr).text()]).toEqual([0, ""]);
  const script = `import { connect } from "lockd";
    const client = await connect({ servers: [${JSON.stringify(server.address)}] });
    console.log(await client.withLock("packed", {}, (signal, lock) => lock.objects[0]));
    await client.close();`;
  const { code, stdout, stderr } = await new Program(["node", "--input-type=module", "--eval", script], home).finished;
  expect([code, stdout, stderr]).toEqual([0, "packed\n", ""]);
});

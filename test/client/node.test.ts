import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeServer } from "./fake-server.ts";

test("the library runs in Node: lock, reconnect, renewal, hand-over, and the process ends by itself", async () => {
  const directory = await mkdtemp(join(tmpdir(), "lockd-client-"));
  const server = await FakeServer.start();
  try {
    const built = await Bun.build({
      entrypoints: [join(import.meta.dir, "node-program.ts")],
      target: "node",
      format: "esm",
      outdir: directory,
      naming: "program.mjs",
    });
    expect(built.success).toBe(true);
    expect(await Bun.file(join(directory, "program.mjs")).text()).not.toContain("bun:");
    const node = Bun.spawn(["node", join(directory, "program.mjs"), server.address], { stdout: "pipe", stderr: "pipe" });
    await server.arrived("LOCK", 2);
    server.cut();
    const [output, errors, code] = await Promise.all([
      new Response(node.stdout).text(),
      new Response(node.stderr).text(),
      node.exited,
    ]);
    expect([errors, code]).toEqual(["", 0]);
    const result: unknown = JSON.parse(output);
    expect(result).toMatchObject({ tokens: [1, 2], runtime: "node" });
    expect(server.of("SESSION")).toHaveLength(2);
    expect(server.tickets).toEqual([]);
  } finally {
    await server.stop();
    await rm(directory, { recursive: true });
  }
}, 30_000);

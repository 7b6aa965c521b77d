import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { encodeFrame } from "../../src/wire/frame.ts";

const BODY = { text: "größer 🦀", short: "a", long: "b".repeat(500), numbers: [0, -1, 2 ** 40, 1.5], bytes: new Uint8Array([1, 255]) };

/** Decodes a frame under Node, encodes it again, and says what it does with a malformed one. */
const program = (frame: string, hello: string, hex: string): string => `
  import { FrameDecoder, encodeFrame } from ${JSON.stringify(frame)};
  import ${JSON.stringify(hello)};
  const decoder = new FrameDecoder({ frameBytesMax: 1 << 20 });
  for (const byte of Buffer.from("${hex}", "hex")) {
    decoder.push(Uint8Array.of(byte), (frame) => console.log(Buffer.from(encodeFrame(frame.type, frame.id, frame.body)).toString("hex")));
  }
  try { decoder.push(Uint8Array.of(0, 0, 0, 1, 0xc1), () => {}); } catch (error) { console.log(error.code); }
`;

test("frames and the handshake work under Node as under Bun", async () => {
  const folder = await mkdtemp(join(tmpdir(), "lockd-frame-"));
  try {
    const expected = Buffer.from(encodeFrame("LOCK", 7, BODY)).toString("hex");
    const source = (name: string): string => fileURLToPath(new URL(`../../src/wire/${name}.ts`, import.meta.url));
    const entry = join(folder, "entry.ts");
    await Bun.write(entry, program(source("frame"), source("hello"), expected));
    const built = await Bun.build({ entrypoints: [entry], target: "node", format: "esm", outdir: join(folder, "out"), naming: "program.mjs" });
    expect(built.success).toBe(true);
    const child = Bun.spawn(["node", join(folder, "out", "program.mjs")], { stdio: ["ignore", "pipe", "inherit"] });
    expect((await new Response(child.stdout).text()).trim().split("\n")).toEqual([expected, "protocol"]);
    expect(await child.exited).toBe(0);
  } finally {
    await rm(folder, { recursive: true });
  }
});

/** Every program of docs/client.md does what the page says, under Bun and under Node, against a real server. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryDirectory, TestServer } from "./kit.ts";
import { RUNTIMES, Workshop } from "./library-kit.ts";

setDefaultTimeout(60_000);

interface Block {
  heading: string;
  language: string;
  text: string;
  /** what it prints, by its own comments */
  prints: readonly string[];
}

const ADDRESS = "127.0.0.1:4050";
const page = readFileSync(join(import.meta.dir, "../../docs/client.md"), "utf8");

const blocks: readonly Block[] = Array.from(page.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm), (match) => {
  const [, language = "", text = ""] = match;
  const heading = page.slice(0, match.index).match(/^## .*$/gm)?.at(-1)?.slice(3) ?? "";
  return { heading, language, text, prints: Array.from(text.matchAll(/\/\/ → (.*)$/gm), ([, line = ""]) => line) };
});

const directory = temporaryDirectory("library-page");
let server: TestServer;
let workshop: Workshop;

beforeAll(async () => {
  [server, workshop] = await Promise.all([TestServer.start({ directory: join(directory.path, "data") }), Workshop.open("library-page-programs")]);
});
afterAll(async () => {
  await workshop.close();
  await server.kill();
  directory.remove();
});

test("the page has programs in JavaScript and TypeScript, and each says what it prints", () => {
  expect(blocks.length).toBeGreaterThan(9);
  expect(new Set(blocks.map(({ language }) => language))).toEqual(new Set(["js", "ts"]));
  expect(blocks.filter(({ prints }) => prints.length === 0)).toEqual([]);
});

for (const [index, { heading, language, text, prints }] of blocks.entries()) {
  describe(`the program of "${heading}" (${language})`, () => {
    for (const runtime of RUNTIMES) {
      test(`prints under ${runtime} what it says, ends by itself and leaves no lock`, async () => {
        const source = workshop.file(`program-${index}.${language}`, text.replaceAll(ADDRESS, server.address));
        const path = language === "ts" ? await lowered(source, index) : source;
        const { code, stdout, stderr } = await workshop.run(runtime, path);
        expect([stdout.trimEnd().split("\n"), stderr, code]).toEqual([[...prints], "", 0]);
        expect(await server.list()).toEqual([]);
      });
    }
  });
}

for (const resolution of ["bundler", "nodenext"] as const) {
  test(`the types suffice for a strict program that finds modules as ${resolution} does, and refuse a wrong one`, async () => {
    const good = blocks.flatMap(({ language, text }, index) => (language === "ts" ? [workshop.file(`types-${index}.ts`, text)] : []));
    expect(await workshop.check(resolution, ...good)).toMatchObject({ stdout: "", code: 0 });
    const bad = workshop.file("types-bad.ts", 'import { connect } from "lockd";\nconst client = await connect({ servers: ["x"] });\nconst n: string = (await client.lock("y", { wait: "1s" })).token;\n');
    const refused = await workshop.check(resolution, bad);
    expect(refused.stdout).toContain("Type 'string' is not assignable to type 'number");
    expect(refused.stdout).toContain("Type 'number' is not assignable to type 'string'");
    const inner = workshop.file("types-inner.ts", 'import { connect } from "lockd";\nconst client = await connect({ servers: ["x"] });\n(await client.lock("y")).again();\n');
    expect((await workshop.check(resolution, inner)).stdout).toContain("Property 'again' does not exist");
  });
}

/** The program as JavaScript that Node 20 takes. */
async function lowered(source: string, index: number): Promise<string> {
  const built = await Bun.build({ entrypoints: [source], target: "node", format: "esm", external: ["lockd"] });
  const [output] = built.outputs;
  if (output === undefined) throw new Error(built.logs.join("\n"));
  return workshop.file(`lowered-${index}.mjs`, await output.text());
}

/**
 * The tree is as CONTRIBUTING.md asks, and every rule that says so finds what it is there to find.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { codeRules, importCycles, machineTraces, missingBenches, shortFile, type Rule } from "./tidy/rules.ts";
import { importsOf, readSource } from "./tidy/source.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const tracked = listTree();
const isCode = (path: string): boolean => /\.(?:ts|tsx|mts)$/.test(path);
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const sources = tracked.filter(isCode).map((path) => readSource(path, read(path)));
const texts = tracked.filter((path) => /\.(?:ts|tsx|mts|mjs|js|json|md|sh|go|toml|yml|yaml|service|html|css)$|^\.ci\/|^\.[a-z]+rc$/.test(path));

describe("the tree", () => {
  test("is not empty, so that the rules below have something to look at", () => {
    expect(sources.map((source) => source.path)).toContain("src/errors.ts");
    expect(texts).toContain("package-lock.json");
  });

  for (const [name, rule] of Object.entries(codeRules)) {
    test(`keeps ${name}`, () => expect(sources.flatMap(rule)).toEqual([]));
  }

  test("has no file in src and plugins that is too long", () => {
    expect(sources.filter(({ path }) => /^(?:src|plugins)\//.test(path)).flatMap(shortFile)).toEqual([]);
  });

  test("has no import cycle", () => expect(importCycles(sources)).toEqual([]));

  test("carries no path of a build machine and no address of a registry", () => {
    expect(texts.flatMap((path) => machineTraces(path, read(path)))).toEqual([]);
  });

  test("has every benchmark that its pages name", () => {
    const benches = new Set(tracked.map((path) => /^bench\/([a-z0-9-]+)\.ts$/.exec(path)?.[1] ?? ""));
    const pages = tracked.filter((path) => path.endsWith(".md"));
    expect(pages.flatMap((path) => missingBenches(path, read(path), benches))).toEqual([]);
  });
});

describe("a rule finds what it forbids and leaves alone what it allows", () => {
  const cases: readonly (readonly [rule: string, path: string, bad: readonly string[], good: readonly string[]])[] = [
    [
      "noAny",
      "src/x.ts",
      ["let x: any;", "f(y as any)", "type T = any[];", "Map<string, any>", "x as unknown as T", "// @ts-" + "ignore\nx()", "(a: any): void"],
      ['const arity = "any";', "// any of them\n", "Promise.any(x)", "const s: string = `: any ${x}`;", "/: any/.test(x)", "anyone: company"],
    ],
    ["noDefaultExport", "src/x.ts", ["export default 1;", "const a = 1;\nexport { a as default };"], ["export const x = 1;", '"export default"']],
    ["noDefaultExport", "examples/plugins/x.ts", [], ["export default definePlugin({});"]],
    ["noBarrel", "src/x.ts", ['export * from "./y.ts";'], ['export { y } from "./y.ts";', "export const two = 1 * 2;"]],
    ["headComment", "src/x.ts", ["export const x = 1;", 'import "./y.ts";\n// late'], ["/** Owns x. */", "// Owns x.", "#!/usr/bin/env bun\n/** Owns x. */"]],
    ["headComment", "test/x.test.ts", [], ['import { test } from "bun:test";']],
    ["nothingUnfinished", "src/x.ts", ["// TO" + "DO: later", "/* FIX" + "ME */"], ['const x = "TO' + 'DO";', "// todo lists are stored"]],
    ["noSkippedTest", "test/x.test.ts", ["test.only('x', f)", "describe.skip('x', f)", "it.skipIf(no)('x', f)", "test.todo('x')"], ["contest.only", "test('x.only', f)", "test.each([1])('x', f)"]],
    [
      "layers",
      "src/cli/x.ts",
      ['import { a } from "../../plugins/lock/a.ts";', 'const a = await import("../../plugins/lock/a.ts");', 'import type { A } from "../../plugins/lock/a.ts";', 'import "../../test/kit.ts";'],
      ['import { a } from "../errors.ts";', 'import { a } from "plugins";', '// import "../../plugins/lock/a.ts"'],
    ],
    ["layers", "plugins/sync/x.ts", ['import { a } from "../lock/a.ts";', 'export { a } from "../../bench/a.ts";'], ['import { a } from "./core/a.ts";', 'import { a } from "../../src/errors.ts";']],
    ["layers", "bin/lockd.ts", [], ['import { a } from "../plugins/lock/a.ts";']],
    [
      "pureCore",
      "plugins/lock/core/x.ts",
      ['import { join } from "node:path";', 'import { Database } from "bun:sqlite";', "const t = Date.now();", "Math.random()", "performance.now()", "setTimeout(f, 1)", "Bun.file(x)"],
      ['import { assert } from "../../../src/errors.ts";', "// Date.now() is forbidden", "tick(nowMs)", "Bun.hash.wyhash(value)", 'const name = "Math.random()";'],
    ],
    ["pureCore", "plugins/lock/driver.ts", [], ["const t = Date.now();"]],
  ];
  for (const [name, path, bad, good] of cases) {
    for (const sample of bad) test(`${name} in ${path} refuses ${JSON.stringify(sample)}`, () => expect(apply(name, path, sample)).not.toEqual([]));
    for (const sample of good) test(`${name} in ${path} accepts ${JSON.stringify(sample)}`, () => expect(apply(name, path, sample)).toEqual([]));
  }

  test("shortFile refuses 451 lines and accepts 450", () => {
    expect(shortFile(readSource("src/x.ts", "x\n".repeat(451)))).toHaveLength(1);
    expect(shortFile(readSource("src/x.ts", "x\n".repeat(450)))).toEqual([]);
  });

  test("importCycles spells a cycle out, and does not take a diamond, a type or a lazy import for one", () => {
    const tree = (files: Readonly<Record<string, string>>): string[] =>
      importCycles(Object.entries(files).map(([path, text]) => readSource(path, text)));
    expect(tree({ "src/a.ts": 'import { b } from "./b.ts";', "src/b.ts": 'export { c } from "../src/a.ts";' })).toEqual(["src/a.ts -> src/b.ts -> src/a.ts"]);
    expect(tree({ "a.ts": 'import "./a.ts";' })).toEqual(["a.ts -> a.ts"]);
    const diamond = { "a.ts": 'import "./b.ts";\nimport "./c.ts";', "b.ts": 'import "./d.ts";', "c.ts": 'import "./d.ts";', "d.ts": "" };
    expect(tree(diamond)).toEqual([]);
    expect(tree({ "a.ts": 'import type { B } from "./b.ts";', "b.ts": 'import { a } from "./a.ts";' })).toEqual([]);
    expect(tree({ "a.ts": 'const b = () => import("./b.ts");', "b.ts": 'import { a } from "./a.ts";' })).toEqual([]);
  });

  test("machineTraces finds paths of a machine, registries and package addresses, and no others", () => {
    const path = (...parts: readonly string[]): string => ["", ...parts].join("/");
    for (const bad of [path("work", "main", "x"), `cd ${path("home", "ann")}`, path("root", "x"), ["https:/", "registry.example", "x"].join("/"), `"res${""}olved": "x"`]) {
      expect(machineTraces("a.md", `first\n${bad}\n`)).toEqual([expect.stringContaining("a.md:2: ")]);
    }
    for (const good of [`/$bunfs${path("root", "x")}`, "/var/lib/lockd", "a/work/b", "https://example.org/home/x", "/work", path("home", "u", "x"), path("home", "alice")]) {
      expect(machineTraces("a.md", good)).toEqual([]);
    }
  });

  test("missingBenches finds names in commands and in paths", () => {
    const there = new Set(["lock-cycle", "startup"]);
    expect(missingBenches("a.md", "npm run bench -- lock-cycle startup --rounds 5", there)).toEqual([]);
    expect(missingBenches("a.md", "npm run bench -- NAME… and bench/run.ts, bench/startup.ts", there)).toEqual([]);
    expect(missingBenches("a.md", "`npm run bench -- lock-cycle gone`", there)).toEqual([expect.stringContaining("gone")]);
    expect(missingBenches("a.md", "see bench/lost.ts", there)).toEqual([expect.stringContaining("lost")]);
  });
});

describe("a source is taken apart", () => {
  test("into imports of every form, with their lines", () => {
    const text = `/** x */
import { a,
  b } from "./a.ts";
import type { T } from './t.ts';
import "side";
export { c } from "./c.ts";
const lazy = () => import("./lazy.ts");
const no = 'import "fake"'; // import "commented"
`;
    expect(importsOf(readSource("x.ts", text))).toEqual([
      { specifier: "./a.ts", kind: "static", line: 3 },
      { specifier: "./t.ts", kind: "type", line: 4 },
      { specifier: "side", kind: "static", line: 5 },
      { specifier: "./c.ts", kind: "static", line: 6 },
      { specifier: "./lazy.ts", kind: "dynamic", line: 7 },
    ]);
  });

  test("with nested templates, patterns and divisions kept apart from text", () => {
    const { code, comments } = readSource("x.ts", "const x = `a ${b ? `c ${d}` : {}} e`; // f\nconst y = /[/\"]g/ / h / 2; const z = 'i\\'j' + k;");
    expect(code.replace(/\s+/g, " ")).toBe("const x = ` ${b ? ` ${d}` : {}} `; const y = / / / h / 2; const z = ' ' + k;");
    expect(comments.trim()).toBe("// f");
  });
});

function apply(name: string, path: string, sample: string): string[] {
  const rule: Rule | undefined = codeRules[name];
  if (rule === undefined) throw new Error(`no rule ${name}`);
  return rule(readSource(path, sample));
}

/** What git tracks and is there; in a tree without git (an archive) all files but those of tools. */
function listTree(): string[] {
  const git = Bun.spawnSync(["git", "-c", "safe.directory=*", "ls-files", "-z"], { cwd: root });
  const paths = git.success
    ? git.stdout.toString().split("\0")
    : [...new Bun.Glob("**/*").scanSync({ cwd: root, dot: true })].filter((path) => !/^(?:node_modules|dist|\.git|\.tmp)\//.test(path));
  return paths.filter((path) => path !== "" && existsSync(join(root, path))).sort();
}

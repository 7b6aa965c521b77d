/**
 * The habits of CONTRIBUTING.md that a program can check, one function each: a file in, findings out.
 * Pure; knows neither the disk nor the test runner.
 */
import { importsOf, lineAt, type Source } from "./source.ts";

/** `path:line: what is wrong` */
export type Finding = string;
export type Rule = (source: Source) => Finding[];

const LINES_MAX = 450;

/** Types that switch the checker off. */
export const noAny: Rule = (source) => [
  ...matches(source, source.code, /(?:[:<|&,=(]|\bas\b|\bextends\b|\bsatisfies\b|\bkeyof\b)\s*any\b(?!\s*[:.(])/g, "the type any"),
  ...matches(source, source.code, /\bas\s+unknown\s+as\b/g, "a cast by way of unknown"),
  ...matches(source, source.comments, /@ts-(?:ignore|nocheck)\b/g, "a directive that silences the checker"),
];

/** An external plugin is the one file whose default export is its interface. */
export const noDefaultExport: Rule = (source) =>
  source.path.startsWith("examples/plugins/")
    ? []
    : matches(source, source.code, /\bexport\s+default\b|\bexport\s*\{[^}]*\bas\s+default\b/g, "a default export");

export const noBarrel: Rule = (source) => matches(source, source.code, /\bexport\s+\*/g, "a re-export of everything");

export const shortFile: Rule = (source) => {
  const lines = source.text.split("\n").length - 1;
  return lines > LINES_MAX
    ? [`${source.path}: ${lines} lines, at most ${LINES_MAX}: give each subject its own file`]
    : [];
};

/** What the file owns stands in its first lines; a test says it in its names. */
export const headComment: Rule = (source) =>
  source.path.endsWith(".test.ts") || /^(?:#![^\n]*\n)?\/[/*]/.test(source.text) ? [] : [`${source.path}:1: no comment that says what the file owns`];

export const nothingUnfinished: Rule = (source) => matches(source, source.comments, /\b(?:TODO|FIXME|XXX|HACK)\b/g, "unfinished work");

/** A test that is passed over looks like one that passed. */
export const noSkippedTest: Rule = (source) =>
  matches(source, source.code, /\b(?:test|it|describe)\s*\.\s*(?:only|skip|todo|skipIf|todoIf|if)\b/g, "a test that is skipped or alone");

/** The core knows no plugin; a plugin reaches another only through the host; programs are at the edge. */
export const layers: Rule = (source) =>
  importsOf(source).flatMap(({ specifier, line }) => {
    const target = resolveImport(source.path, specifier);
    if (target === null) return [];
    const [from, plugin] = source.path.split("/");
    const [to, other] = target.split("/");
    const wrong =
      (from === "src" && to === "plugins") ||
      (from === "plugins" && to === "plugins" && plugin !== other) ||
      ((from === "src" || from === "plugins") && to !== "src" && to !== "plugins" && target !== "package.json");
    return wrong ? [`${source.path}:${line}: imports ${target}, which this layer must not know`] : [];
  });

// Bun.hash is a function of its arguments alone
const IMPURE = /\b(?:Date\s*\.\s*now|new\s+Date|Math\s*\.\s*random|performance\s*\.|crypto\s*\.|set(?:Timeout|Interval|Immediate)|process\s*\.|Bun\s*\.(?!\s*hash\b)|fetch\s*\()/g;

/** A protocol core gets time, randomness and storage handed in, or it cannot be simulated. */
export const pureCore: Rule = (source) => {
  if (!/^plugins\/[^/]+\/core\//.test(source.path)) return [];
  const imports = importsOf(source)
    .filter(({ specifier }) => /^(?:node|bun):|^bun$|sqlite/.test(specifier))
    .map(({ specifier, line }) => `${source.path}:${line}: a core imports ${specifier}`);
  return [...imports, ...matches(source, source.code, IMPURE, "time, chance or the outside world in a core")];
};

export const codeRules: Readonly<Record<string, Rule>> = {
  noAny,
  noDefaultExport,
  noBarrel,
  headComment,
  nothingUnfinished,
  noSkippedTest,
  layers,
  pureCore,
};

/** Traces of the machine that a file was written on; for files of every kind. */
export function machineTraces(path: string, text: string): Finding[] {
  const patterns: readonly (readonly [RegExp, string])[] = [
    // homes of nobody in particular are how examples and tests speak of a home
    [/(?<![\w$.])\/(?:work|root|(?:home|Users)(?!\/(?:\w|user|alice|bob)\b))\/[\w.-]+/g, "an absolute path of somebody's machine"],
    [/https?:\/\/[^\s/"']*(?:registry|artifactory|verdaccio|nexus)[^\s"']*/g, "the address of a package registry"],
    [/"resolved"\s*:/g, "a package address in the lock file"],
  ];
  return patterns.flatMap(([pattern, what]) =>
    [...text.matchAll(pattern)].map((match) => `${path}:${lineAt(text, match.index)}: ${what}: ${match[0]}`),
  );
}

/** Benchmarks that a page tells its reader to run, and that are not there. */
export function missingBenches(path: string, text: string, benches: ReadonlySet<string>): Finding[] {
  const commands = [...text.matchAll(/npm run bench -- ((?:[a-z][a-z0-9-]*(?: (?=[a-z]))?)+)/g)].flatMap((match) => (match[1] ?? "").split(" "));
  const files = [...text.matchAll(/\bbench\/([a-z][a-z0-9-]*)\.ts\b/g)].map((match) => match[1] ?? "");
  const named = new Set([...commands, ...files].filter((name) => name !== "" && name !== "run"));
  return [...named].filter((name) => !benches.has(name)).map((name) => `${path}: names the benchmark ${name}, which does not exist`);
}

/** Import cycles, each once, as `a -> b -> a`. Types and lazy imports load nothing, so they close none. */
export function importCycles(sources: readonly Source[]): Finding[] {
  const targets = new Map(sources.map((source) => [source.path, staticTargets(source)]));
  const finished = new Set<string>();
  const cycles: Finding[] = [];
  const visit = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path);
    if (start >= 0) {
      cycles.push([...trail.slice(start), path].join(" -> "));
      return;
    }
    if (finished.has(path)) return;
    for (const target of targets.get(path) ?? []) visit(target, [...trail, path]);
    finished.add(path);
  };
  for (const source of sources) visit(source.path, []);
  return cycles;
}

function staticTargets(source: Source): string[] {
  return importsOf(source)
    .filter(({ kind }) => kind === "static")
    .map(({ specifier }) => resolveImport(source.path, specifier))
    .filter((target) => target !== null);
}

/** The path that a relative specifier means; null for a package. */
export function resolveImport(from: string, specifier: string): string | null {
  if (!specifier.startsWith(".")) return null;
  const parts = from.split("/").slice(0, -1);
  for (const part of specifier.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== ".") parts.push(part);
  }
  return parts.join("/");
}

function matches(source: Source, where: string, pattern: RegExp, what: string): Finding[] {
  return [...where.matchAll(pattern)].map((match) => `${source.path}:${lineAt(where, match.index)}: ${what}: ${match[0].trim()}`);
}

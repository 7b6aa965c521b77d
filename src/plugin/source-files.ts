/**
 * The files that an external plugin consists of: which they are, whether they are to be trusted, their
 * digest, and that they import nothing from elsewhere on the disk. Runs none of their code.
 */
import { lstatSync, readdirSync, readFileSync, realpathSync, type Stats, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { LockdError } from "../errors.ts";
import { pluginRefused } from "./graph.ts";
import { distrust, distrustOf, TRUST_HINT } from "./trust.ts";

/** A folder with more is something else than a plugin, and was hardly meant. */
const FILES_MAX = 1_000;
const BYTES_MAX = 64 * 1024 * 1024;

const LOADERS: Readonly<Record<string, "ts" | "js">> = { ts: "ts", mts: "ts", js: "js", mjs: "js" };
const ENTRIES = ["index.ts", "index.js"] as const;

export interface PluginSource {
  /** the real path of the file to import */
  entry: string;
  /** contents by real path; of a folder all files but those that begin with a dot */
  files: ReadonlyMap<string, Uint8Array>;
  /** lower-case hex: of the file; of a folder, of the list that sha256sum makes of its files */
  sha256: string;
}

/** Finds, checks and reads a plugin's files. Throws LockdError `config` that names the path. */
export function readPluginSource(path: string, uid: number): PluginSource {
  try {
    const isFolder = statSync(path).isDirectory();
    const reason = distrust(path, uid);
    if (reason !== null) throw pluginRefused(path, reason, TRUST_HINT);
    const real = realpathSync(path);
    const source = isFolder ? readFolder(path, real, uid) : readFile(path, real);
    checkImports(path, source);
    return source;
  } catch (error) {
    if (error instanceof LockdError) throw error;
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    throw pluginRefused(path, REASONS[code] ?? "it cannot be read", undefined, error);
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "no such file or folder",
  ENOTDIR: "no such file or folder",
  EACCES: "permission denied",
  ELOOP: "too many symbolic links",
};

function readFile(path: string, real: string): PluginSource {
  if (!statSync(real).isFile()) throw pluginRefused(path, "it is neither a file nor a folder");
  if (loaderOf(real) === undefined) {
    throw pluginRefused(path, `a plugin is a file ending in .${Object.keys(LOADERS).join(", .")}, or a folder with ${ENTRIES.join(" or ")}`);
  }
  const bytes = readFileSync(real);
  return { entry: real, files: new Map([[real, bytes]]), sha256: sha256(bytes) };
}

function readFolder(path: string, real: string, uid: number): PluginSource {
  const entry = ENTRIES.map((name) => join(real, name)).find((candidate) => statSync(candidate, { throwIfNoEntry: false })?.isFile() === true);
  if (entry === undefined) throw pluginRefused(path, `the folder has neither ${ENTRIES.join(" nor ")}`);
  const files = new Map<string, Uint8Array>();
  let bytes = 0;
  const visit = (folder: string): void => {
    for (const name of readdirSync(folder)) {
      if (name.startsWith(".")) continue;
      const file = join(folder, name);
      // a line of sha256sum must say one thing only
      if (/[\\\p{Cc}\ufffd]/u.test(name)) throw pluginRefused(path, `the name ${JSON.stringify(name)} of one of its files has a backslash or characters that are not text`);
      const stat = statOf(path, file);
      const reason = distrustOf(file, stat, uid);
      if (reason !== null) throw pluginRefused(path, reason, TRUST_HINT);
      if (stat.isDirectory()) {
        visit(file);
        continue;
      }
      const data = readFileSync(file);
      bytes += data.length;
      files.set(file, data);
      if (files.size > FILES_MAX || bytes > BYTES_MAX) {
        throw pluginRefused(path, `the folder has more than ${FILES_MAX} files or ${BYTES_MAX / 2 ** 20} MiB`, "name the folder of the plugin alone, without what it is developed with");
      }
    }
  };
  visit(real);
  const lines = [...files]
    .map(([file, data]) => ({ name: `./${relative(real, file)}`, data }))
    .sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)))
    .map(({ name, data }) => `${sha256(data)}  ${name}\n`);
  return { entry, files, sha256: sha256(lines.join("")) };
}

/** Links out of the folder would escape the digest. */
function statOf(path: string, file: string): Stats {
  const stat = lstatSync(file);
  if (!stat.isDirectory() && !stat.isFile()) throw pluginRefused(path, `${file} is neither a file nor a folder`);
  return stat;
}

const sha256 = (data: Uint8Array | string): string => new Bun.CryptoHasher("sha256").update(data).digest("hex");

const loaderOf = (file: string): "ts" | "js" | undefined => LOADERS[/\.([a-z]+)$/.exec(file)?.[1] ?? ""];

/**
 * Follows the imports by relative path: what they lead to must be among the files that were checked and
 * are part of the digest. Imports that are computed while the plugin runs cannot be seen.
 */
function checkImports(path: string, { entry, files }: PluginSource): void {
  const seen = new Set([entry]);
  for (const file of seen) {
    const loader = loaderOf(file);
    if (loader === undefined) continue;
    for (const specifier of importsOf(path, file, loader, files.get(file) ?? new Uint8Array())) {
      const target = /^\.{0,2}\//.test(specifier) ? join(specifier.startsWith("/") ? "/" : dirname(file), specifier) : null;
      if (target === null) continue;
      const found = candidatesOf(target).find((candidate) => files.has(candidate));
      if (found === undefined) {
        throw pluginRefused(path, `${file} imports ${specifier}, which is not part of the plugin`, "a plugin of several files is a folder that holds all of them");
      }
      seen.add(found);
    }
  }
}

/** In the order in which the runtime tries them: TypeScript may be imported under the name of its output. */
const candidatesOf = (target: string): string[] =>
  ["", ".ts", ".mts", ".js", ".mjs", ".json", "/index.ts", "/index.js"].map((suffix) => target + suffix).concat(target.replace(/\.(m?)js$/, ".$1ts"));

function importsOf(path: string, file: string, loader: "ts" | "js", code: Uint8Array): string[] {
  try {
    return new Bun.Transpiler({ loader }).scanImports(code).map((found) => found.path);
  } catch (error) {
    throw syntaxError(path, file, error);
  }
}

/** The first of the parser's complaints, with its place. */
export function syntaxError(path: string, file: string, error: unknown): LockdError {
  const [first]: unknown[] = error instanceof AggregateError ? error.errors : [error];
  const message = first instanceof Error ? first.message : String(first);
  const position = first instanceof BuildMessage ? first.position : null;
  const place = position === null ? file : `${file}:${position.line}:${position.column}`;
  return pluginRefused(path, `syntax error at ${place}: ${message}`, undefined, error);
}

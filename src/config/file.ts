/**
 * The configuration file as a source of options: TOML, core options at the top level, one section a
 * plugin. Knows no option by name and no other source.
 */
import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { LockdError } from "../errors.ts";
import { fileErrorCode, fileProblem } from "../file-errors.ts";
import { didYouMean } from "../suggest.ts";
import { quoted } from "../text.ts";
import { isTable, keyLine, type Table } from "./toml.ts";
import type { ConfigValue, OptionSpec, SectionSpec } from "./types.ts";
import { parseToml } from "./values.ts";

const FILE_BYTES_MAX = 1024 * 1024;

/** A file that was read and is well-formed TOML; its values are not validated yet. */
export interface ConfigFile {
  path: string;
  text: string;
  table: Table;
}

/** What the file says, by section; the top level has the name "". */
export type FileValues = ReadonlyMap<string, ReadonlyMap<string, ConfigValue>>;

/**
 * Reads and parses a file. `null` when it does not exist and `ifMissing` allows that, or may not be
 * read and `ifDenied` allows that. Throws LockdError `config` naming path, line and column.
 */
export async function readConfigFile(
  path: string,
  tolerate: { missing: boolean; denied: boolean },
): Promise<ConfigFile | null> {
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    const code = fileErrorCode(error);
    if (tolerate.missing && (code === "ENOENT" || code === "ENOTDIR")) return null;
    if (tolerate.denied && code === "EACCES") return null;
    throw new LockdError("config", `read configuration ${path}: ${fileProblem(error)}`, { cause: error });
  }
  if (bytes.length > FILE_BYTES_MAX) {
    throw new LockdError("config", `read configuration ${path}: larger than ${FILE_BYTES_MAX} bytes`);
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new LockdError("config", `read configuration ${path}: not UTF-8`, { cause: error });
  }
  // loaded only when there is a file: most client commands have none
  const { parse, TomlError } = await import("smol-toml");
  try {
    return { path, text, table: parse(text) };
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const reason = error.message.split("\n", 1)[0] ?? "malformed";
    throw new LockdError("config", `read configuration ${path}:${error.line}:${error.column}: ${reason}`, { cause: error });
  }
}

/**
 * Validates everything in the file against the declarations. `otherSections` are left alone: they
 * belong to plugins that are not loaded. Throws LockdError `config` for the first bad key or value.
 */
export function fileValues(
  file: ConfigFile,
  core: readonly OptionSpec[],
  sections: readonly SectionSpec[],
  otherSections: readonly string[],
): FileValues {
  const result = new Map<string, Map<string, ConfigValue>>([["", new Map()]]);
  const names = [...sections.map((section) => section.name), ...otherSections];
  for (const [key, value] of Object.entries(file.table)) {
    const spec = core.find((option) => option.name === key && option.noFile !== true);
    if (spec !== undefined) {
      result.get("")?.set(key, checked(file, "", spec, value));
    } else if (isTable(value) && names.includes(key)) {
      const section = sections.find((candidate) => candidate.name === key);
      if (section !== undefined) result.set(key, sectionValues(file, section, value));
    } else {
      throw unknownKey(file, "", key, [...fileNames(core), ...names], sections);
    }
  }
  return result;
}

/** One option of the core, whatever else is in the file; null when it is not there. */
export function optionInFile(file: ConfigFile, spec: OptionSpec): ConfigValue | null {
  const value = Object.hasOwn(file.table, spec.name) ? file.table[spec.name] : undefined;
  return value === undefined || spec.noFile === true ? null : checked(file, "", spec, value);
}

function sectionValues(file: ConfigFile, section: SectionSpec, table: Table): Map<string, ConfigValue> {
  const values = new Map<string, ConfigValue>();
  for (const [key, value] of Object.entries(table)) {
    const spec = section.options.find((option) => option.name === key && option.noFile !== true);
    if (spec === undefined) throw unknownKey(file, section.name, key, fileNames(section.options), []);
    values.set(key, checked(file, section.name, spec, value));
  }
  return values;
}

const fileNames = (specs: readonly OptionSpec[]): string[] =>
  specs.filter((spec) => spec.noFile !== true).map((spec) => spec.name);

function checked(file: ConfigFile, section: string, spec: OptionSpec, value: unknown): ConfigValue {
  const parsed = parseToml(spec, value, dirname(file.path));
  if ("problem" in parsed) {
    throw new LockdError("config", `${placeOf(file, section, spec.name)}: ${spec.name}: ${parsed.problem}`);
  }
  const line = keyLine(file.text, section, spec.name);
  return { value: parsed.value, origin: { kind: "file", path: file.path, ...(line === null ? {} : { line }) } };
}

function unknownKey(
  file: ConfigFile,
  section: string,
  key: string,
  accepted: readonly string[],
  sections: readonly SectionSpec[],
): LockdError {
  const home = sections.find((candidate) => fileNames(candidate.options).includes(key));
  const where = section === "" ? "" : ` in [${section}]`;
  return new LockdError("config", `${placeOf(file, section, key)}: unknown key ${quoted(key)}${where}`, {
    hint:
      home !== undefined
        ? `${key} belongs under [${home.name}]`
        : (didYouMean(key, accepted) ?? `accepted: ${[...accepted].sort().join(", ")}`),
  });
}

function placeOf(file: ConfigFile, section: string, key: string): string {
  const line = keyLine(file.text, section, key);
  return `read configuration ${file.path}${line === null ? "" : `:${line}`}`;
}

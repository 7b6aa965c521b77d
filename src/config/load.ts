/**
 * Flags over environment over file over defaults: one validated configuration with the origin of
 * each value. Knows no option by name but `config`, which says where the file is.
 */
import { assert, LockdError } from "../errors.ts";
import { type Environment, refuseUnknownVariables, unknownVariables, variableOf, variableText } from "./environment.ts";
import { type ConfigFile, type FileValues, fileValues, optionInFile, readConfigFile } from "./file.ts";
import { isTable } from "./toml.ts";
import type { Config, ConfigValue, OptionSpec, OptionValue, SectionSpec } from "./types.ts";
import { parseList, parseText } from "./values.ts";

/** A flag as it was given: its spelling, and its texts in order (more than one only for lists). */
export interface GivenFlag {
  flag: string;
  texts: readonly string[];
}

export interface LoadRequest {
  /** by option name */
  flags: ReadonlyMap<string, GivenFlag>;
  environment: Environment;
  /** read if it exists and no other is named; null: none */
  defaultFile: string | null;
  /** whether a default file that this user may not read is passed over, as client commands do */
  skipDeniedFile: boolean;
  core: readonly OptionSpec[];
  /** options of the plugins that are loaded */
  sections: readonly SectionSpec[];
  /**
   * Plugins that are not loaded: their sections of the file are left alone, and their options are
   * asked for only when a variable of the environment is not known otherwise.
   */
  others?: {
    names: readonly string[];
    /** whether there may be plugins besides, whose names are not known: then unknown sections are left alone, too */
    more?(): Promise<boolean>;
    options(): Promise<readonly OptionSpec[]>;
  };
  /** what relative paths in flags and environment are relative to */
  directory: string;
}

type Sources = Pick<LoadRequest, "flags" | "environment" | "directory">;

/** Throws LockdError: `usage` for a bad flag, `config` for everything else. */
export async function loadConfig(request: LoadRequest): Promise<Config> {
  const { core, sections, environment } = request;
  const specs = [...core, ...sections.flatMap((section) => section.options)];
  assert(new Set(specs.map((spec) => spec.name)).size === specs.length, "option names are unique");
  if (unknownVariables(environment, specs).length > 0) {
    refuseUnknownVariables(environment, [...specs, ...((await request.others?.options()) ?? [])]);
  }

  const path = configPath(request);
  const explicit = path !== null && path !== request.defaultFile;
  const tolerate = { missing: !explicit, denied: !explicit && request.skipDeniedFile };
  const file = path === null ? null : await readConfigFile(path, tolerate);
  const values: FileValues =
    file === null ? new Map() : fileValues(file, core, sections, await otherSections(request, file));
  return {
    file: file?.path ?? null,
    core: resolveOptions(request, core, values.get("")),
    sections: new Map(
      sections.map((section) => [section.name, resolveOptions(request, section.options, values.get(section.name))]),
    ),
  };
}

/** Sections of the file that belong to plugins that are not loaded. */
async function otherSections({ sections, others }: LoadRequest, file: ConfigFile): Promise<readonly string[]> {
  if (others === undefined) return [];
  const known = new Set([...sections.map(({ name }) => name), ...others.names]);
  const unknown = Object.entries(file.table).flatMap(([key, value]) => (isTable(value) && !known.has(key) ? [key] : []));
  return unknown.length > 0 && (await others.more?.()) === true ? [...others.names, ...unknown] : others.names;
}

/**
 * One option of the core ahead of all others, because it decides which others there are. A file that
 * cannot be read for lack of rights is passed over; nothing else in it is looked at.
 */
export async function optionAhead(
  request: Pick<LoadRequest, "flags" | "environment" | "defaultFile" | "directory" | "core">,
  name: string,
): Promise<ConfigValue> {
  const spec = request.core.find((option) => option.name === name);
  assert(spec !== undefined, `option ${name} is declared`);
  const given = fromFlag(spec, request.flags, request.directory) ?? fromEnvironment(spec, request);
  if (given !== null) return given;
  const path = configPath(request);
  const explicit = path !== request.defaultFile;
  const file = path === null ? null : await readConfigFile(path, { missing: !explicit, denied: !explicit });
  return (file === null ? null : optionInFile(file, spec)) ?? defaultOf(spec);
}

/** Values of options from flags alone: those of one command, which no file and no variable sets. */
export function flagValues(
  specs: readonly OptionSpec[],
  flags: ReadonlyMap<string, GivenFlag>,
  directory: string,
): Map<string, ConfigValue> {
  return new Map(specs.map((spec) => [spec.name, fromFlag(spec, flags, directory) ?? defaultOf(spec)]));
}

function resolveOptions(
  request: LoadRequest,
  specs: readonly OptionSpec[],
  file: ReadonlyMap<string, ConfigValue> | undefined,
): Map<string, ConfigValue> {
  const values = new Map<string, ConfigValue>();
  for (const spec of specs) {
    // all sources are looked at, so that a bad variable is not hidden by a flag
    const flag = fromFlag(spec, request.flags, request.directory);
    const variable = fromEnvironment(spec, request);
    values.set(spec.name, flag ?? variable ?? file?.get(spec.name) ?? defaultOf(spec));
  }
  return values;
}

function configPath(request: Sources & Pick<LoadRequest, "core" | "defaultFile">): string | null {
  const spec = request.core.find((option) => option.name === "config");
  const value =
    spec === undefined
      ? null
      : (fromFlag(spec, request.flags, request.directory) ?? fromEnvironment(spec, request))?.value;
  return typeof value === "string" ? value : request.defaultFile;
}

function fromFlag(
  spec: OptionSpec,
  flags: ReadonlyMap<string, GivenFlag>,
  directory: string,
): ConfigValue | null {
  const given = flags.get(spec.name);
  if (given === undefined) return null;
  assert(spec.noFlag !== true, `option ${spec.name} has a flag`);
  const [text, ...more] = given.texts;
  assert(text !== undefined, `flag ${given.flag} has a value`);
  assert(more.length === 0 || spec.type === "list", `flag ${given.flag} is given once`);
  const parsed =
    spec.type === "list"
      ? parseList(spec, given.texts.flatMap((item) => item.split(",")), directory)
      : parseText(spec, text, directory);
  if ("problem" in parsed) throw new LockdError("usage", `${given.flag}: ${parsed.problem}`);
  return { value: parsed.value, origin: { kind: "flag", flag: given.flag } };
}

function fromEnvironment(spec: OptionSpec, request: Pick<Sources, "environment" | "directory">): ConfigValue | null {
  const variable = variableOf(spec);
  const text = variableText(spec, request.environment);
  if (variable === null || text === null) return null;
  const parsed = parseText(spec, text, request.directory);
  if ("problem" in parsed) throw new LockdError("config", `read environment: ${variable}: ${parsed.problem}`);
  return { value: parsed.value, origin: { kind: "environment", variable } };
}

function defaultOf(spec: OptionSpec): ConfigValue {
  return { value: defaultValue(spec), origin: { kind: "default" } };
}

/** The default, computed now if it depends on the machine; without one: false, an empty list, or null. */
export function defaultValue(spec: OptionSpec): OptionValue {
  if (typeof spec.default === "function") return spec.default();
  if (spec.default !== undefined) return spec.default;
  if (spec.type === "boolean") return false;
  return spec.type === "list" ? [] : null;
}

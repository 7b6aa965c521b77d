/**
 * The words of one command line: flags, positionals, and what belongs to the child command. Checks
 * them against the declaration of the command; reads no value, no environment and no file.
 */
import type { GivenFlag } from "../config/load.ts";
import { assert, LockdError } from "../errors.ts";
import { didYouMean } from "../suggest.ts";
import { quoted } from "../text.ts";
import type { CommandSpec, FlagSpec, PositionalSpec } from "./types.ts";

export interface CommandLine {
  /** by option name */
  flags: ReadonlyMap<string, GivenFlag>;
  positionals: readonly string[];
  /** what stands after `--`, for commands that take a child command */
  child: readonly string[];
}

/** Whether `--help` or `-h` stands before `--`. It is never a value: those that begin with `-` need `=`. */
export function wantsHelp(words: readonly string[]): boolean {
  const end = words.indexOf("--");
  return words.slice(0, end === -1 ? undefined : end).some((word) => word === "--help" || word === "-h");
}

/**
 * The texts of these flags wherever they stand before `--`, for a command line whose command is not known
 * yet: a value that begins with a dash needs `=`, so a word that is a flag's name is that flag.
 */
export function scanFlags(words: readonly string[], names: readonly string[]): { flags: Map<string, GivenFlag>; rest: string[] } {
  const end = words.indexOf("--");
  const own = end === -1 ? words : words.slice(0, end);
  const texts = new Map<string, string[]>();
  const rest: string[] = [];
  for (let index = 0; index < own.length; index += 1) {
    const word = own[index] ?? "";
    const name = names.find((candidate) => word === `--${candidate}` || word.startsWith(`--${candidate}=`));
    if (name === undefined) {
      rest.push(word);
      continue;
    }
    const inline = word.length > name.length + 2;
    const text = inline ? word.slice(name.length + 3) : own[index + 1];
    if (!inline) index += 1;
    // what is missing or empty is refused when the command's own flags are read
    if (text !== undefined && text !== "") texts.set(name, [...(texts.get(name) ?? []), text]);
  }
  const flags = new Map([...texts].map(([name, given]) => [name, { flag: `--${name}`, texts: given }]));
  return { flags, rest: end === -1 ? rest : [...rest, ...words.slice(end)] };
}

/** Parses the words after the command's name. `path` is that name, such as `config show`, for messages. */
export function parseArguments(
  words: readonly string[],
  spec: CommandSpec,
  flagSpecs: readonly FlagSpec[],
  path: string,
): CommandLine {
  const parser = new Parser(flagSpecs, path);
  const end = words.indexOf("--");
  parser.read(end === -1 ? words : words.slice(0, end));
  const rest = end === -1 ? [] : words.slice(end + 1);
  const takesChild = spec.childCommand === "required";
  const positionals = takesChild ? parser.positionals : [...parser.positionals, ...rest];
  checkPositionals(positionals, spec.positionals ?? [], path);
  if (takesChild && rest.length === 0) {
    throw new LockdError("usage", `${path}: no command to run`, { hint: "put it last, after a word of two dashes: -- CMD ARG…" });
  }
  return { flags: parser.flags, positionals, child: takesChild ? rest : [] };
}

class Parser {
  readonly flags = new Map<string, { flag: string; texts: string[] }>();
  readonly positionals: string[] = [];
  readonly #specs: readonly FlagSpec[];
  readonly #path: string;
  #words: readonly string[] = [];
  #index = 0;

  constructor(specs: readonly FlagSpec[], path: string) {
    assert(new Set(specs.map((spec) => spec.name)).size === specs.length, `flags of ${path} have different names`);
    this.#specs = specs;
    this.#path = path;
  }

  read(words: readonly string[]): void {
    this.#words = words;
    for (this.#index = 0; this.#index < words.length; this.#index += 1) {
      const word = words[this.#index] ?? "";
      if (word.startsWith("--")) this.#long(word);
      else if (word.startsWith("-") && word !== "-") this.#short(word);
      else this.positionals.push(word);
    }
  }

  #long(word: string): void {
    const equals = word.indexOf("=");
    const name = word.slice(2, equals === -1 ? undefined : equals);
    const inline = equals === -1 ? null : word.slice(equals + 1);
    const spec = this.#specs.find((candidate) => candidate.name === name && candidate.noFlag !== true);
    if (spec !== undefined) {
      this.#take(spec, `--${name}`, inline);
      return;
    }
    const negated = this.#specs.find((candidate) => `no-${candidate.name}` === name && canNegate(candidate));
    if (negated === undefined) throw this.#unknown(`--${name}`);
    if (inline !== null) throw this.#wrong(`--${name} takes no value`, null);
    this.#add(negated, `--${name}`, "false");
  }

  /** `-x`, `-x VALUE`, `-xVALUE`, `-x=VALUE`, and several booleans in one word: `-xyz`. */
  #short(word: string): void {
    for (let at = 1; at < word.length; at += 1) {
      const flag = `-${word[at] ?? ""}`;
      const spec = this.#specs.find((candidate) => `-${candidate.short ?? ""}` === flag);
      if (spec === undefined) {
        // a whole word behind the dash was hardly meant as letters; it may be a secret, so it is not repeated
        throw word.length > 2 ? this.#wrong(`unknown flag ${shown(flag)}`, DASH_HINT) : this.#unknown(flag);
      }
      const rest = word.slice(at + 1);
      if (spec.type !== "boolean" || rest.startsWith("=")) {
        this.#take(spec, flag, rest === "" ? null : rest.replace(/^=/, ""));
        return;
      }
      this.#take(spec, flag, null);
    }
  }

  #take(spec: FlagSpec, flag: string, inline: string | null): void {
    if (inline !== null) return this.#add(spec, flag, inline);
    if (spec.type === "boolean") return this.#add(spec, flag, "true");
    const next = this.#words[this.#index + 1];
    if (next === undefined) throw this.#wrong(`${flag} needs a value`, null);
    // `-` alone is the usual word for standard input or output
    if (next.startsWith("-") && next !== "-") {
      throw this.#wrong(`${flag} needs a value, and ${shown(next)} looks like a flag`, `write ${flag}=VALUE if it is one`);
    }
    this.#index += 1;
    return this.#add(spec, flag, next);
  }

  #add(spec: FlagSpec, flag: string, text: string): void {
    const given = this.flags.get(spec.name);
    if (given === undefined) {
      this.flags.set(spec.name, { flag, texts: [text] });
    } else if (spec.type === "list") {
      given.texts.push(text);
    } else {
      throw this.#wrong(given.flag === flag ? `${flag} is given twice` : `${given.flag} is given again as ${flag}`, null);
    }
  }

  #unknown(flag: string): LockdError {
    const known = this.#specs.filter((spec) => spec.noFlag !== true);
    const names = ["--help", ...known.flatMap((spec) => (canNegate(spec) ? [`--${spec.name}`, `--no-${spec.name}`] : [`--${spec.name}`]))];
    const meant = flag.startsWith("--") ? didYouMean(flag.slice(2), names.map((name) => name.slice(2))) : null;
    const hint = meant?.replace("mean ", "mean --") ?? `\`lockd ${this.#path} --help\` lists its flags`;
    return this.#wrong(`unknown flag ${shown(flag)}`, hint);
  }

  #wrong(message: string, hint: string | null): LockdError {
    return new LockdError("usage", `${this.#path}: ${message}`, hint === null ? {} : { hint });
  }
}

const DASH_HINT = "write --FLAG=VALUE for a value that begins with a dash, or put the word after `--`";

/** Whether `--no-NAME` exists. */
export function canNegate(spec: FlagSpec): boolean {
  return spec.type === "boolean" && spec.default === true;
}

/** A flag as the user wrote it, without quotes when it is harmless. */
const shown = (word: string): string => (/^[\w.=-]{1,60}$/.test(word) ? word : quoted(word));

function checkPositionals(given: readonly string[], specs: readonly PositionalSpec[], path: string): void {
  const countMin = specs.filter((spec) => spec.arity === "one" || spec.arity === "some").length;
  const unbounded = specs.some((spec) => spec.arity === "some" || spec.arity === "any");
  if (given.length < countMin) {
    const missing = specs[given.length];
    throw new LockdError("usage", `${path}: ${missing?.name ?? "an argument"} is missing`, {
      hint: `\`lockd ${path} --help\` explains it`,
    });
  }
  const surplus = unbounded ? undefined : given[specs.length];
  if (surplus !== undefined) {
    throw new LockdError("usage", `${path}: surplus argument ${quoted(surplus)}`, {
      hint: `\`lockd ${path} --help\` shows what it takes`,
    });
  }
}

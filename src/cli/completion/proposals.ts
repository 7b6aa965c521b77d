/**
 * What may stand at the cursor of a command line, from declarations alone: words, files, the child's own
 * words, or names that a server knows. Knows no shell and asks nobody.
 */
import type { OptionSpec } from "../../config/types.ts";
import { canNegate } from "../arguments.ts";
import type { ProgramCommand } from "../program-parts.ts";
import type { CompletionSource, CompletionWord, FlagSpec, PositionalSpec } from "../types.ts";
import { commandAt, type DescribedCommand, visible } from "./program-commands.ts";

export type Proposals =
  /** whole words that begin with what was typed */
  | { kind: "words"; words: readonly CompletionWord[]; source?: CompletionSource }
  /** names of files or directories, found by the shell */
  | { kind: "files" | "directories" }
  /** what stands behind `--` is another command's line */
  | { kind: "child" };

const NOTHING: Proposals = { kind: "words", words: [] };

/** `before` are the words between the program's name and the one at the cursor, which begins with `current`. */
export function propose(before: readonly string[], current: string, commands: readonly ProgramCommand[], core: readonly OptionSpec[]): Proposals {
  const words = before[0] === "help" ? before.slice(1) : before;
  if (words.length === 0) return topWords(current, commands, before.length === 0);
  const found = commandAt(words, commands, core);
  if (found === null) return NOTHING;
  const { command, rest } = found;
  const subcommands = rest.length === 0 ? visible(command.spec.subcommands ?? []) : [];
  if (before !== words) return wordsFrom(subcommands.map(({ name, summary }) => ({ word: name, help: summary })), current);
  return atCursor(command, rest, current, subcommands.map(({ name, summary }) => ({ word: name, help: summary })));
}

function topWords(current: string, commands: readonly ProgramCommand[], first: boolean): Proposals {
  const words = visible(commands.map(({ spec }) => spec)).map(({ name, summary }) => ({ word: name, help: summary }));
  if (!first) return wordsFrom(words, current);
  const others = [{ word: "help", help: "explain a command" }, HELP_FLAG, { word: "--version", help: "print the version" }];
  return wordsFrom([...words, ...others.filter(({ word }) => !word.startsWith("-") || current.startsWith("-"))], current);
}

function atCursor(command: DescribedCommand, rest: readonly string[], current: string, subcommands: readonly CompletionWord[]): Proposals {
  const { spec, flags } = command;
  const all = [...flags.own, ...flags.options].filter((flag) => flag.noFlag !== true);
  const line = readLine(rest, all);
  if (line.ended && spec.childCommand === "required") return { kind: "child" };
  if (line.pending !== null) return flagValues(line.pending, "", current);
  if (!line.ended && current.startsWith("-")) {
    if (spec.load === undefined) return wordsFrom([HELP_FLAG], current);
    const equals = current.indexOf("=");
    const ends = spec.childCommand === "required" && line.positionals > 0 ? [{ word: "--", help: "the command to run follows" }] : [];
    if (!current.startsWith("--") || equals === -1) return wordsFrom([...ends, ...flagWords(all, line.given)], current);
    const flag = all.find(({ name }) => name === current.slice(2, equals));
    return flag === undefined ? NOTHING : flagValues(flag, current.slice(0, equals + 1), current);
  }
  const positional = positionalAt(spec.positionals ?? [], line.positionals);
  if (positional !== undefined) {
    const proposals = positionalValues(positional, current);
    return proposals.kind === "words" ? { ...proposals, words: [...wordsFrom(subcommands, current).words, ...proposals.words] } : proposals;
  }
  if (subcommands.length > 0) return wordsFrom(subcommands, current);
  // nothing else can come here: only flags
  return spec.load === undefined || line.ended ? NOTHING : wordsFrom(flagWords(all, line.given), current);
}

interface LineSoFar {
  given: ReadonlySet<string>;
  positionals: number;
  /** the last word is a flag that needs a value */
  pending: FlagSpec | null;
  /** `--` was seen */
  ended: boolean;
}

/** The same reading as the parser's, but of a line that is not finished and may be wrong. */
function readLine(words: readonly string[], flags: readonly FlagSpec[]): LineSoFar {
  const given = new Set<string>();
  let positionals = 0;
  let pending: FlagSpec | null = null;
  let ended = false;
  for (const word of words) {
    if (pending !== null) {
      pending = null;
    } else if (ended || word === "-" || !word.startsWith("-")) {
      positionals += 1;
    } else if (word === "--") {
      ended = true;
    } else if (word.startsWith("--")) {
      const name = word.slice(2).split("=", 1)[0] ?? "";
      const flag = flags.find((one) => one.name === name || (canNegate(one) && `no-${one.name}` === name));
      if (flag !== undefined) given.add(flag.name);
      if (flag !== undefined && flag.type !== "boolean" && !word.includes("=")) pending = flag;
    } else {
      const flag = flags.find((one) => one.short !== undefined && one.short === word.slice(1));
      if (flag !== undefined) given.add(flag.name);
      if (flag !== undefined && flag.type !== "boolean") pending = flag;
    }
  }
  return { given, positionals, pending, ended };
}

const HELP_FLAG: CompletionWord = { word: "--help", help: "show this help" };

function flagWords(flags: readonly FlagSpec[], given: ReadonlySet<string>): readonly CompletionWord[] {
  const more = flags.filter((flag) => flag.type === "list" || !given.has(flag.name));
  const words = more.map((flag) => (canNegate(flag) ? { word: `--no-${flag.name}`, help: `do not: ${flag.help}` } : { word: `--${flag.name}`, help: flag.help }));
  return [...words, HELP_FLAG];
}

/** `lead` stands before the value in the same word, such as `--on-lost=`. */
function flagValues(flag: FlagSpec, lead: string, current: string): Proposals {
  if (flag.type === "path" || (flag.type === "list" && flag.of === "path")) return { kind: flag.valueName === "DIR" ? "directories" : "files" };
  const texts = flag.type === "choice" ? flag.choices : flag.type === "boolean" ? ["true", "false"] : "word" in flag && flag.word !== undefined ? [flag.word] : [];
  return wordsFrom(texts.map((text) => ({ word: lead + text, help: "" })), current);
}

function positionalAt(specs: readonly PositionalSpec[], position: number): PositionalSpec | undefined {
  const last = specs.at(-1);
  return specs[position] ?? (last?.arity === "some" || last?.arity === "any" ? last : undefined);
}

function positionalValues({ name, complete }: PositionalSpec, current: string): Proposals {
  if (complete === undefined) return name === "FILE" ? { kind: "files" } : name === "DIR" ? { kind: "directories" } : NOTHING;
  if ("load" in complete) return { kind: "words", words: [], source: complete };
  return wordsFrom(complete.map((word) => ({ word, help: "" })), current);
}

const wordsFrom = (words: readonly CompletionWord[], current: string): Proposals & { kind: "words" } => ({
  kind: "words",
  words: words.filter(({ word }) => word.startsWith(current)),
});

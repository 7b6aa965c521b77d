/** Help texts, derived from declarations alone. Plain text: knows no stream and no colour. */
import { variableOf } from "../config/environment.ts";
import { acceptedText, valueText } from "../config/values.ts";
import { padColumns } from "../text.ts";
import { canNegate } from "./arguments.ts";
import type { CommandFlags, FoundCommand } from "./command-tree.ts";
import type { CommandSpec, FlagSpec, PositionalSpec } from "./types.ts";

const INDENT = "  ";
const OTHER_GROUP = "Other commands";

/** Help of lockd itself: all commands, in groups. */
export function rootHelp(commands: readonly CommandSpec[], version: string): string {
  const visible = commands.filter((command) => command.hidden !== true);
  const width = Math.max(...visible.map((command) => command.name.length));
  const groups = new Map<string, string[]>();
  for (const command of visible) {
    const group = command.group ?? OTHER_GROUP;
    const lines = groups.get(group) ?? [];
    lines.push(`${INDENT}${padColumns(command.name, width)}  ${command.summary}`);
    groups.set(group, lines);
  }
  const others = groups.get(OTHER_GROUP);
  groups.delete(OTHER_GROUP);
  if (others !== undefined) groups.set(OTHER_GROUP, others);
  return [
    `lockd ${version}: a lock service in one executable`,
    "",
    "Usage: lockd COMMAND [ARGUMENT…] [--FLAG…]",
    ...[...groups].flatMap(([group, lines]) => ["", `${group}:`, ...lines]),
    "",
    "`lockd COMMAND --help` explains a command, `lockd --version` prints the version.",
    "",
    "Example:",
    `${INDENT}lockd exec nightly-backup -- ./backup.sh`,
    "",
  ].join("\n");
}

/** Help of one command: usage, arguments, flags with defaults and ranges, examples. */
export function commandHelp(found: FoundCommand, flags: CommandFlags): string {
  const { spec, path } = found;
  const sections = [`${path}: ${spec.summary}`, usageLines(spec, path).join("\n")];
  if (spec.description !== undefined) sections.push(spec.description.trim());
  if (spec.subcommands !== undefined) sections.push(listed("Subcommands:", spec.subcommands.map((sub) => [sub.name, sub.summary])));
  if (spec.positionals !== undefined && spec.positionals.length > 0) {
    sections.push(listed("Arguments:", spec.positionals.map((positional) => [positionalText(positional), positional.help])));
  }
  if (spec.load !== undefined) {
    const rows = [
      // a flag of one command belongs to no configuration, so no variable sets it
      ...flags.own.filter(hasFlag).map((flag) => flagRow(flag, null)),
      ...flags.options.filter(hasFlag).map((option) => flagRow(option, variableOf(option))),
    ];
    sections.push(listed("Flags:", [...rows, ["-h, --help", "show this help"]]));
  }
  if (spec.examples !== undefined && spec.examples.length > 0) {
    const lines = spec.examples.map(([line, what]) => `${INDENT}${line}${what === "" ? "" : `\n${INDENT}${INDENT}${INDENT}${what}`}`);
    sections.push([spec.examples.length === 1 ? "Example:" : "Examples:", ...lines].join("\n"));
  }
  return `lockd ${sections.join("\n\n")}\n`;
}

function usageLines(spec: CommandSpec, path: string): string[] {
  const lines: string[] = [];
  if (spec.load !== undefined) lines.push(usageWords(spec, path).join(" "));
  if (spec.subcommands !== undefined) lines.push(`lockd ${path} ${spec.subcommands.map((sub) => sub.name).join("|")} …`);
  return lines.map((line, index) => `${index === 0 ? "Usage: " : "       "}${line}`);
}

/** The usage line of a command that can be run. */
export function usageWords(spec: CommandSpec, path: string): readonly string[] {
  const positionals = (spec.positionals ?? []).map((positional) => usageWord(positional));
  const child = spec.childCommand === "required" ? ["--", "CMD", "ARG…"] : [];
  return ["lockd", path, ...positionals, "[--FLAG…]", ...child];
}

const positionalText = ({ name, arity }: PositionalSpec): string => (arity === "some" || arity === "any" ? `${name}…` : name);

const usageWord = (positional: PositionalSpec): string =>
  positional.arity === "optional" || positional.arity === "any" ? `[${positionalText(positional)}]` : positionalText(positional);

const hasFlag = (flag: FlagSpec): boolean => flag.noFlag !== true;

function flagRow(flag: FlagSpec, variable: string | null): [string, string] {
  const short = flag.short === undefined ? "    " : `-${flag.short}, `;
  const value = flag.type === "boolean" ? "" : ` ${valueName(flag)}`;
  const facts = flagFacts(flag, variable);
  const name = canNegate(flag) ? `--no-${flag.name}` : `--${flag.name}`;
  const negation = canNegate(flag) ? "do not: " : "";
  return [`${short}${name}${value}`, `${negation}${flag.help}${facts.length === 0 ? "" : `\n(${facts.join("; ")})`}`];
}

/** What is accepted, the default, and the variable, as far as they say something. */
export const flagFacts = (flag: FlagSpec, variable: string | null): readonly string[] =>
  [acceptedFact(flag), defaultFact(flag), variable].filter((fact) => fact !== null);

/** Word that stands for the flag's value. */
export function valueName(flag: FlagSpec): string {
  if (flag.valueName !== undefined) return flag.valueName;
  if (flag.type === "choice") return flag.choices.join("|");
  const word = "word" in flag && flag.word !== undefined ? `|${flag.word}` : "";
  if (flag.type === "list") return flag.of === "address" ? "ADDR,…" : flag.of === "path" ? "PATH,…" : "TEXT,…";
  const names = { string: "TEXT", boolean: "", integer: "N", duration: "D", address: "ADDR", size: "SIZE", path: "PATH", tables: "TABLES" };
  return names[flag.type] + word;
}

function acceptedFact(flag: FlagSpec): string | null {
  // what the value's name says already is not said twice
  if (flag.type === "boolean" || flag.type === "path" || flag.type === "list") return null;
  if (flag.type === "string" && flag.accepted === undefined) return null;
  if (flag.type === "choice" && flag.valueName === undefined) return null;
  return acceptedText(flag);
}

function defaultFact(flag: FlagSpec): string | null {
  if (flag.defaultText !== undefined) return `default ${flag.defaultText}`;
  if (flag.default === undefined || typeof flag.default === "function" || flag.type === "boolean") return null;
  const text = valueText(flag, flag.default);
  return text === "" ? null : `default ${text}`;
}

function listed(title: string, rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => Bun.stringWidth(left)));
  const margin = `\n${" ".repeat(INDENT.length + width + 2)}`;
  return [title, ...rows.map(([left, right]) => `${INDENT}${padColumns(left, width)}  ${right.replaceAll("\n", margin)}`)].join("\n");
}

/** The manual page in the man(7) macros, from the declarations of all commands. Text only: knows no stream. */
import { FOREIGN_VARIABLES, variableOf } from "../config/environment.ts";
import type { OptionSpec } from "../config/types.ts";
import { canNegate } from "./arguments.ts";
import type { DescribedCommand } from "./completion/program-commands.ts";
import { flagFacts, usageWords, valueName } from "./help.ts";
import type { FlagSpec } from "./types.ts";

/** An option that so many commands take is described once, in a section of its own. */
const COMMON_MIN = 4;

/** The whole page; `date` is that of the page, `2026-01-31`. */
export function manPage(commands: readonly DescribedCommand[], { version, date }: { version: string; date: string }): string {
  const common = commonOptions(commands);
  return [
    `.TH LOCKD 1 ${date} ${quote(`lockd ${version}`)} "User Commands"`,
    ...section("NAME", ["lockd \\- lock service in one executable"]),
    ...section("SYNOPSIS", [".B lockd", text("COMMAND [ARGUMENT…] [--FLAG…] [-- CMD ARG…]"), ".br", ".B lockd COMMAND \\-\\-help", ".br", ".B lockd \\-\\-version"]),
    ...section("DESCRIPTION", DESCRIPTION.flatMap((paragraph) => [".PP", text(paragraph)]).slice(1)),
    ...section("COMMANDS", commands.flatMap((command) => commandLines(command, new Set(common.map(({ name }) => name))))),
    ...section("COMMON FLAGS", [text("Flags that many commands take; the help of a command lists those that it does."), ...common.flatMap((option) => flagLines(option, variableOf(option)))]),
    ...section("EXIT STATUS", EXIT_STATUS.flatMap(([code, meaning]) => tagged(bold(code), meaning))),
    ...section("ENVIRONMENT", environmentLines(commands)),
    ...section("FILES", FILES.flatMap(([path, meaning]) => tagged(`.I ${escaped(path)}`, meaning))),
    ...section("SIGNALS", SIGNALS.flatMap(([name, meaning]) => tagged(bold(name), meaning))),
    ...section("EXAMPLES", commands.flatMap(exampleLines).slice(1)),
    ...section("SEE ALSO", [text("flock(1), systemd.unit(5), and the pages in the folder docs of lockd.")]),
    "",
  ].join("\n");
}

const DESCRIPTION: readonly string[] = [
  "lockd lets only one of several machines or processes do a thing at a time. A server (lockd serve) keeps the locks; client commands take, watch and end them. Waiting is fair, each grant carries a fencing token that only rises, and a holder that dies or is cut off loses its lock in bounded time.",
  "Results go to standard output, everything else to standard error. With --json, standard output carries JSON only: one object, or one a line for lists and streams.",
  "A duration is a number with a unit (250ms, 10s, 5m, 2h, 1d) or a bare number of seconds. An address is host:port or [v6]:port.",
];

const EXIT_STATUS: readonly (readonly [string, string])[] = [
  ["0", "Done."],
  ["1", "Failed for another reason, which standard error names; or a write whose outcome is not known."],
  ["64", "Usage: an unknown command or flag, a surplus or missing argument, a value out of range."],
  ["65", "Bad data: stored state that is corrupt, foreign or newer, or an invalid input file."],
  ["66", "What was named does not exist, or is not held."],
  ["69", "No server could be reached, or it is not ready; surely not done."],
  ["73", "A precondition failed, a duplicate, or a limit was reached."],
  ["75", "The lock was not obtained in time, or not, to avoid a deadlock."],
  ["76", "The lock was lost while the command ran."],
  ["77", "Not permitted, or authentication failed."],
  ["78", "Configuration error: file, environment, port or data directory in use."],
  ["126, 127, 128+N", "The command of exec or elect cannot be run, was not found, was ended by signal N; otherwise they end with its own code."],
];

const FILES: readonly (readonly [string, string])[] = [
  ["/etc/lockd/lockd.toml", "The configuration, read when it exists; --config names another. lockd config init prints one with all options."],
  ["/var/lib/lockd", "The data directory of a server that runs as root."],
  ["$XDG_STATE_HOME/lockd, ~/.local/state/lockd", "The data directory of other users."],
];

const SIGNALS: readonly (readonly [string, string])[] = [
  ["SIGTERM, SIGINT", "A server stops in order, a second one ends it at once. exec and elect pass them on to the command; while they wait, they withdraw and end with 128+N."],
  ["SIGHUP", "A server reads its configuration and its TLS files again, and opens its log file again."],
  ["SIGUSR1, SIGUSR2", "A server writes its summary, or all tickets, to its log."],
  ["SIGQUIT", "A server writes its state to its log and aborts."],
];

const EXEC_VARIABLES: readonly (readonly [string, string])[] = [
  ["LOCKD_OBJECT, LOCKD_TOKEN, LOCKD_HANDLE, LOCKD_DEADLINE", "Given by exec and elect to their command: names one a line, fencing token, handle, end of the first lease in milliseconds of CLOCK_BOOTTIME."],
  ["NO_COLOR", "No colours, also on a terminal."],
];

function commandLines({ spec, path, flags }: DescribedCommand, common: ReadonlySet<string>): string[] {
  const own = [...flags.own.map((flag) => flagLines(flag, null)), ...flags.options.filter(({ name }) => !common.has(name)).map((option) => flagLines(option, variableOf(option)))];
  const shared = flags.options.filter(({ name, noFlag }) => common.has(name) && noFlag !== true).map(({ name }) => `--${name}`);
  return [
    `.SS ${quote(usageWords(spec, path).join(" "))}`,
    text(sentence(spec.summary)),
    ...(spec.description === undefined ? [] : spec.description.trim().split(/\n\n+/).flatMap((paragraph) => [".PP", text(paragraph.replaceAll("\n", " "))])),
    ...(spec.positionals ?? []).flatMap(({ name, help }) => tagged(`.I ${escaped(name)}`, help)),
    ...own.flat(),
    ...(shared.length === 0 ? [] : [".PP", text(`Also: ${shared.join(", ")}.`)]),
  ];
}

function flagLines(flag: FlagSpec, variable: string | null): string[] {
  if (flag.noFlag === true) return [];
  const name = canNegate(flag) ? `--no-${flag.name}` : `--${flag.name}`;
  const short = flag.short === undefined ? "" : `-${flag.short}, `;
  const value = flag.type === "boolean" ? "" : ` \\fI${escaped(valueName(flag))}\\fR`;
  const facts = flagFacts(flag, variable);
  const help = `${canNegate(flag) ? "do not: " : ""}${flag.help}${facts.length === 0 ? "" : ` (${facts.join("; ")})`}`;
  return [".TP", `\\fB${escaped(short + name)}\\fR${value}`, text(help)];
}

/** Options of the configuration that several commands take as flags, each once, in the order of the alphabet. */
function commonOptions(commands: readonly DescribedCommand[]): readonly OptionSpec[] {
  const seen = new Map<string, { option: OptionSpec; count: number }>();
  for (const option of commands.flatMap(({ flags }) => flags.options)) {
    seen.set(option.name, { option, count: (seen.get(option.name)?.count ?? 0) + 1 });
  }
  const often = [...seen.values()].filter(({ count, option }) => count >= COMMON_MIN && option.noFlag !== true);
  return often.map(({ option }) => option).sort((a, b) => (a.name < b.name ? -1 : 1));
}

function environmentLines(commands: readonly DescribedCommand[]): string[] {
  const variables = new Set(commands.flatMap(({ flags }) => flags.options.map(variableOf)).filter((name) => name !== null));
  const names = [...variables].filter((name) => !FOREIGN_VARIABLES.has(name)).sort();
  return [
    text("Each option of the configuration has a variable, which a flag overrides and which overrides the configuration file. An unknown variable that begins with LOCKD_ is an error."),
    ".PP",
    text(`${names.join(", ")}.`),
    ...EXEC_VARIABLES.flatMap(([name, meaning]) => tagged(bold(name), meaning)),
  ];
}

function exampleLines({ spec }: DescribedCommand): string[] {
  return (spec.examples ?? []).flatMap(([line, what]) => [
    ".PP",
    ...(what === "" ? [] : [text(sentence(what)), ".PP"]),
    ".RS 4",
    ".nf",
    ...line.split("\n").map((one) => verbatim(one.trim())),
    ".fi",
    ".RE",
  ]);
}

const section = (title: string, lines: readonly string[]): string[] => [`.SH ${quote(title)}`, ...lines];
const tagged = (tag: string, meaning: string): string[] => [".TP", tag, text(meaning)];
const bold = (words: string): string => `.B ${escaped(words)}`;
const sentence = (words: string): string => `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.…!?)]$/.test(words) ? "" : "."}`;

/** An argument of a macro. */
const quote = (words: string): string => `"${escaped(words).replaceAll('"', "\\(dq")}"`;

/** Lines of the source are kept short, as manual pages have them. */
const SOURCE_COLUMNS = 78;

/** Text that is filled: no line of it is a request. */
function text(words: string): string {
  const lines: string[] = [];
  let line = "";
  for (const word of escaped(words).split(/\s+/)) {
    if (line !== "" && line.length + 1 + word.length > SOURCE_COLUMNS) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].map(harmless).join("\n");
}

/** One line that is printed as it stands. */
const verbatim = (line: string): string => harmless(escaped(line));

/** A line that begins with a dot would be a request. */
const harmless = (line: string): string => (line.startsWith(".") ? `\\&${line}` : line);

/** No character of it is an escape, and each is printed as it is. */
function escaped(words: string): string {
  return words
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replaceAll("'", "\\(aq")
    .replaceAll("`", "\\(ga")
    .replaceAll("^", "\\(ha")
    .replaceAll("~", "\\(ti")
    .replaceAll("…", "...")
    .replace(/[^\n -~]/gu, (character) => `\\[u${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`);
}

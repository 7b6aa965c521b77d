/**
 * From the first words of the command line to the declaration of a command. Loads the plugin that
 * brings the command and no other; parses no flags.
 */
import type { OptionSpec } from "../config/types.ts";
import { assert, LockdError } from "../errors.ts";
import type { Plugin } from "../plugin/types.ts";
import { didYouMean } from "../suggest.ts";
import { quoted } from "../text.ts";
import type { PluginCatalog } from "./plugin-catalog.ts";
import type { CommandSpec, FlagSpec } from "./types.ts";

export interface FoundCommand {
  spec: CommandSpec;
  /** `config show` */
  path: string;
  /** what follows the name */
  words: readonly string[];
  /** the plugin that brings it; null: the core */
  plugin: Plugin | null;
}

/** Flags of every command: where the configuration is, what extends lockd, and how much is said about a failure. */
export const COMMON_OPTIONS: readonly string[] = ["config", "log-level", "plugin"];

/** What other programs take for `--version`. */
const VERSION_WORDS: ReadonlySet<string> = new Set(["version", "-v", "-version"]);
const VERSION_HINT = "`lockd --version` prints the version";

/** Finds the command that the words name. Throws LockdError `usage`, with a suggestion. */
export async function findCommand(
  words: readonly string[],
  core: readonly CommandSpec[],
  catalog: PluginCatalog,
): Promise<FoundCommand> {
  const [name = "", ...rest] = words;
  if (name.startsWith("-")) {
    const hint = VERSION_WORDS.has(name.toLowerCase()) ? VERSION_HINT : "flags stand behind the command's name: lockd COMMAND --flag";
    throw new LockdError("usage", `unknown flag ${quoted(name)} before the command`, { hint });
  }
  const own = core.find((candidate) => candidate.name === name);
  const plugin = own === undefined ? await catalog.ownerOf(name) : null;
  const spec = own ?? plugin?.commands?.find((candidate) => candidate.name === name);
  if (spec === undefined) {
    const names = [...core.filter((candidate) => candidate.hidden !== true).map((candidate) => candidate.name), ...(await catalog.commandNames())];
    throw new LockdError("usage", `unknown command ${quoted(name)}`, {
      hint: VERSION_WORDS.has(name) ? VERSION_HINT : didYouMean(name, names) ?? "`lockd --help` lists all commands",
    });
  }
  return descend({ spec, path: name, words: rest, plugin });
}

/** Follows subcommands; a word that is a subcommand wins over one that could be an argument. */
function descend(found: FoundCommand): FoundCommand {
  const { spec, path, words } = found;
  const [next, ...rest] = words;
  if (spec.subcommands === undefined) return found;
  const sub = spec.subcommands.find((candidate) => candidate.name === next);
  if (sub !== undefined) return descend({ ...found, spec: sub, path: `${path} ${sub.name}`, words: rest });
  // without code of its own there is nothing to do with another word; flags alone may ask for help
  if (spec.load !== undefined || next === undefined || next.startsWith("-")) return found;
  const names = spec.subcommands.map((candidate) => candidate.name);
  throw new LockdError("usage", `${path}: unknown subcommand ${quoted(next)}`, {
    hint: didYouMean(next, names) ?? `accepted: ${names.join(", ")}`,
  });
}

/** All that a command takes as flags: its own, and the options of core and plugin that it names. */
export interface CommandFlags {
  own: readonly FlagSpec[];
  options: readonly OptionSpec[];
}

/** Resolves the names of options; a name that nobody declares is a defect of the command. */
export function commandFlags(found: FoundCommand, core: readonly OptionSpec[]): CommandFlags {
  const declared = [...core, ...(found.plugin?.config ?? [])];
  const names = new Set([...(found.spec.options ?? []), ...COMMON_OPTIONS]);
  const options = [...names].map((name) => {
    const option = declared.find((candidate) => candidate.name === name);
    assert(option !== undefined, `command ${found.path} takes the declared option ${name}`);
    return option;
  });
  return { own: found.spec.flags ?? [], options };
}

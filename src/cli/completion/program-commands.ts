/** The command that the first words name, for those who look at declarations without running one. Pure. */
import type { OptionSpec } from "../../config/types.ts";
import { type CommandFlags, commandFlags } from "../command-tree.ts";
import type { ProgramCommand } from "../program-parts.ts";
import type { CommandSpec } from "../types.ts";

/** A command or subcommand with all that belongs to it. */
export interface DescribedCommand {
  spec: CommandSpec;
  /** `config show` */
  path: string;
  flags: CommandFlags;
}

/** Visible commands of a level. */
export const visible = (specs: readonly CommandSpec[]): readonly CommandSpec[] => specs.filter((spec) => spec.hidden !== true);

/** The longest command that the words begin with, and the words behind it; null: the first word is none. */
export function commandAt(
  words: readonly string[],
  commands: readonly ProgramCommand[],
  core: readonly OptionSpec[],
): { command: DescribedCommand; rest: readonly string[] } | null {
  const found = commands.find(({ spec }) => spec.name === words[0] && spec.hidden !== true);
  if (found === undefined) return null;
  let { spec } = found;
  let path = spec.name;
  let rest = words.slice(1);
  for (let sub = subcommand(spec, rest[0]); sub !== undefined; sub = subcommand(spec, rest[0])) {
    spec = sub;
    path += ` ${sub.name}`;
    rest = rest.slice(1);
  }
  return { command: { spec, path, flags: commandFlags({ spec, path, words: [], plugin: found.plugin }, core) }, rest };
}

/** Every visible command that can be run, subcommands after each other, in the order of declaration. */
export function describeAll(commands: readonly ProgramCommand[], core: readonly OptionSpec[]): readonly DescribedCommand[] {
  return commands.flatMap(({ spec, plugin }) => {
    const describe = (one: CommandSpec, path: string): readonly DescribedCommand[] => {
      if (one.hidden === true) return [];
      const below = (one.subcommands ?? []).flatMap((sub) => describe(sub, `${path} ${sub.name}`));
      return one.load === undefined ? below : [{ spec: one, path, flags: commandFlags({ spec: one, path, words: [], plugin }, core) }, ...below];
    };
    return describe(spec, spec.name);
  });
}

const subcommand = (spec: CommandSpec, name: string | undefined): CommandSpec | undefined => visible(spec.subcommands ?? []).find((sub) => sub.name === name);

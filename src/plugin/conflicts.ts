/**
 * What plugins must not both bring, or bring besides the core: commands, flags, variables and sections of
 * the configuration. A pure function of their declarations; knows none of them by name.
 */
import type { CommandSpec } from "../cli/types.ts";
import { FOREIGN_VARIABLES, variableOf } from "../config/environment.ts";
import type { OptionSpec, SectionSpec } from "../config/types.ts";
import { pluginRefused } from "./graph.ts";
import type { Plugin } from "./types.ts";

export interface Declarations {
  commands: readonly CommandSpec[];
  options: readonly OptionSpec[];
  sections: readonly SectionSpec[];
  /** options that every command takes */
  common: readonly string[];
}

/** Throws LockdError `config` naming the plugin whose declaration clashes with the core or an earlier plugin. */
export function refuseConflicts(plugins: readonly { plugin: Plugin; label: string }[], core: Declarations): void {
  const commands = new Map<string, string>([...core.commands.map(({ name }) => [name, "the core"] as const), ["help", "the core"]]);
  const options = new Map<string, string>([...core.options, ...core.sections.flatMap((section) => section.options)].map(({ name }) => [name, "the core"]));
  const keys = new Set([...core.options, ...core.sections].map(({ name }) => name));
  for (const { plugin, label } of plugins) {
    if (keys.has(plugin.name)) throw pluginRefused(label, `${plugin.name} is a key of lockd's own in the configuration, which its section [${plugin.name}] would take`);
    for (const { name } of plugin.commands ?? []) claim(commands, name, label, "the command");
    for (const option of plugin.config ?? []) {
      claim(options, option.name, label, "the option");
      refuseReserved(option, label);
    }
  }
  for (const { plugin, label } of plugins) {
    const known = [...core.options, ...(plugin.config ?? [])];
    for (const command of plugin.commands ?? []) checkCommand(command, command.name, { label, known, common: core.common });
  }
}

function claim(owners: Map<string, string>, name: string, label: string, what: string): void {
  const owner = owners.get(name);
  if (owner !== undefined) {
    const other = owner === label ? "it declares it twice" : owner === "the core" ? "lockd has one of that name itself" : `plugin ${owner} has one of that name`;
    throw pluginRefused(label, `${what} ${name}: ${other}`, "one of the two needs another name");
  }
  owners.set(name, label);
}

function refuseReserved(option: OptionSpec, label: string): void {
  const variable = variableOf(option);
  if (option.name === "help" || option.name.startsWith("no-")) throw pluginRefused(label, `the option ${option.name}: the flag --${option.name} has another meaning`);
  if (variable !== null && FOREIGN_VARIABLES.has(variable)) {
    throw pluginRefused(label, `the option ${option.name}: its variable ${variable} is one that lockd sets for others`, "give it another name, or noEnvironment");
  }
}

interface Surroundings {
  label: string;
  known: readonly OptionSpec[];
  common: readonly string[];
}

/** A command's flags have different names, its options exist, and so down to the last subcommand. */
function checkCommand(command: CommandSpec, path: string, surroundings: Surroundings): void {
  const { label, known, common } = surroundings;
  const wrong = (reason: string): Error => pluginRefused(label, `the command ${path}: ${reason}`);
  if (command.load === undefined && (command.subcommands ?? []).length === 0) throw wrong("it has neither code to load nor subcommands");
  for (const name of command.options ?? []) {
    const option = known.find((candidate) => candidate.name === name);
    if (option === undefined) throw wrong(`it takes the option ${name}, which neither lockd nor the plugin has`);
  }
  const names = new Set([...common, ...(command.options ?? [])]);
  const letters = new Set(["h"]);
  for (const flag of command.flags ?? []) {
    if (names.has(flag.name) || flag.name === "help" || flag.name.startsWith("no-")) throw wrong(`the flag --${flag.name} has another meaning already`);
    names.add(flag.name);
    if (flag.short === undefined) continue;
    if (letters.has(flag.short)) throw wrong(`the flag -${flag.short} has another meaning already`);
    letters.add(flag.short);
  }
  const subcommands = new Set<string>();
  for (const sub of command.subcommands ?? []) {
    if (subcommands.has(sub.name)) throw wrong(`it has two subcommands ${sub.name}`);
    subcommands.add(sub.name);
    checkCommand(sub, `${path} ${sub.name}`, surroundings);
  }
}

/** The commands that the core itself brings. Declarations only: their code is loaded when they run. */
import { tlsCommands } from "../security/tls-commands.ts";
import { storeCommands } from "../store/commands.ts";
import type { ProgramParts } from "./program-parts.ts";
import type { CommandSpec } from "./types.ts";

const GROUP = "Configuration and data";

export function coreCommands(parts: ProgramParts): readonly CommandSpec[] {
  return [configCommand(parts), pluginsCommand(parts), storeCommands, tlsCommands];
}

function configCommand(parts: ProgramParts): CommandSpec {
  // every option of the core may be given, to see what would come of it
  const options = parts.coreOptions.map((option) => option.name);
  return {
    name: "config",
    group: GROUP,
    summary: "write, check or show the configuration",
    description:
      "Every option has one name in the file, in the environment (LOCKD_…) and as a flag; a flag\n" +
      "overrides the environment, which overrides the file, which overrides the default.",
    subcommands: [
      {
        name: "init",
        summary: "print a commented configuration file with all options and their defaults",
        positionals: [{ name: "FILE", help: "file to create instead; one that exists is left as it is", arity: "optional" }],
        examples: [["lockd config init /etc/lockd/lockd.toml", "creates the file, readable by its owner only"]],
        load: async () => (await import("./commands/config-init.ts")).configInit(parts),
      },
      {
        name: "check",
        summary: "validate file and environment, and say what was read",
        options,
        examples: [["lockd config check --config ./lockd.toml", "exit code 78 and one line for the first mistake"]],
        load: async () => (await import("./commands/config-check.ts")).configCheck,
      },
      {
        name: "show",
        summary: "show each value and where it comes from",
        options,
        examples: [["lockd config show --json | jq -r 'select(.origin.kind != \"default\").name'", "names of what was configured"]],
        load: async () => (await import("./commands/config-show.ts")).configShow(parts),
      },
    ],
  };
}

function pluginsCommand(parts: ProgramParts): CommandSpec {
  return {
    name: "plugins",
    group: GROUP,
    summary: "list plugins: name, version, origin, commands, dependencies",
    description:
      "The origin is `bundled`, or the path of an external plugin that --plugin, LOCKD_PLUGIN or the configuration\n" +
      "names. With --json each of those has its sha256, by which it can be pinned: PATH#sha256=HEX.",
    options: ["json"],
    examples: [
      ["lockd plugins --json", "one JSON object a plugin"],
      ["lockd plugins --plugin ./audit --json", "loads the plugin in the folder audit, to see whether it fits"],
    ],
    load: async () => (await import("./commands/plugins.ts")).listPlugins(parts),
  };
}

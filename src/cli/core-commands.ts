/** The commands that the core itself brings. Declarations only: their code is loaded when they run. */
import { tlsCommands } from "../security/tls-commands.ts";
import { CLIENT_SECURITY_OPTIONS } from "../security/option-names.ts";
import { storeCommands } from "../store/commands.ts";
import type { ProgramParts } from "./program-parts.ts";
import type { CommandSpec } from "./types.ts";

const GROUP = "Configuration and data";
const SHELL_GROUP = "Shell and diagnosis";

/** Commands that run also when the configuration is wrong: their options then come from what is right without the file. */
export const ANY_CONFIGURATION: ReadonlySet<string> = new Set(["__complete", "completion", "doctor", "man"]);

export function coreCommands(parts: ProgramParts): readonly CommandSpec[] {
  return [configCommand(parts), pluginsCommand(parts), storeCommands, tlsCommands, doctorCommand, ...shellCommands(parts)];
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

const doctorCommand: CommandSpec = {
  name: "doctor",
  group: SHELL_GROUP,
  summary: "check this machine, the configuration and the servers",
  description:
    "Each check is ok, a warning or failed, with what to do about it. It changes nothing: the disk is measured\n" +
    "with a temporary file in the data directory, which is removed. Takes less than five seconds.\n" +
    "Exit code 0 when nothing failed, else 1. --json: one object a check, with its numbers.",
  options: ["data", "connect", ...CLIENT_SECURITY_OPTIONS, "json"],
  examples: [
    ["lockd doctor", "on a server: as the user that it runs as"],
    ["lockd doctor --connect db1:4050,db2:4050 --tls-ca ca.pem --json | jq -r 'select(.state != \"ok\") | .summary'", "what is not in order"],
  ],
  load: async () => (await import("./commands/doctor.ts")).doctor,
};

function shellCommands(parts: ProgramParts): readonly CommandSpec[] {
  return [
    {
      name: "completion",
      group: SHELL_GROUP,
      summary: "print a script that lets a shell complete lockd's command lines",
      description:
        "Commands, flags and their values, files, and names of objects and sessions, which the servers of --connect\n" +
        "are asked for when they answer within 300 ms. The script asks the `lockd` that is found through PATH.",
      positionals: [{ name: "SHELL", help: "bash, zsh or fish", arity: "one", complete: ["bash", "zsh", "fish"] }],
      examples: [
        ['eval "$(lockd completion bash)"', "in ~/.bashrc, or source <(lockd completion bash); the same with zsh in ~/.zshrc, after compinit"],
        ["lockd completion fish > lockd.fish", "a file for ~/.config/fish/completions"],
      ],
      load: async () => (await import("./commands/completion.ts")).completion,
    },
    {
      name: "__complete",
      summary: "what may stand at the cursor; for the scripts of `lockd completion`",
      positionals: [
        { name: "SHELL", help: "whose line it is", arity: "one" },
        { name: "WORD", help: "words up to the cursor; with bash its word breaks and its line", arity: "any" },
      ],
      hidden: true,
      load: async () => (await import("./commands/complete.ts")).complete(parts),
    },
    {
      name: "man",
      group: SHELL_GROUP,
      summary: "print the manual page",
      examples: [["lockd man > lockd.1", "then `man -l lockd.1`, or copy it to /usr/local/share/man/man1"]],
      load: async () => (await import("./commands/man.ts")).man(parts),
    },
  ];
}

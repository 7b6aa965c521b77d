/** What the core's own commands need to know of the program that they are part of. */
import type { GivenFlag } from "../config/load.ts";
import type { ConfigReader } from "../config/reader.ts";
import type { OptionSpec } from "../config/types.ts";
import type { Plugin } from "../plugin/types.ts";
import type { PluginCatalog } from "./plugin-catalog.ts";
import type { CommandSpec } from "./types.ts";

/** A command at the top, and the plugin that brings it; null: the core. */
export interface ProgramCommand {
  spec: CommandSpec;
  plugin: Plugin | null;
}

export interface ProgramParts {
  catalog: PluginCatalog;
  coreOptions: readonly OptionSpec[];
  /** All commands, hidden ones too; without those of external plugins when these cannot be loaded. */
  commands(): Promise<readonly ProgramCommand[]>;
  /** The options of the core as a command with these flags gets them. Rejects with LockdError `config` or `usage`. */
  readOptions(flags: ReadonlyMap<string, GivenFlag>): Promise<ConfigReader>;
}

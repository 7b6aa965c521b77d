/** What the core's own commands need to know of the program that they are part of. */
import type { OptionSpec } from "../config/types.ts";
import type { PluginCatalog } from "./plugin-catalog.ts";

export interface ProgramParts {
  catalog: PluginCatalog;
  coreOptions: readonly OptionSpec[];
}

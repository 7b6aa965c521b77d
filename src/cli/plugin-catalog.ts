/**
 * Which plugins there are and which commands they bring, loading no more of them than is needed.
 * Knows no plugin by name: the executable hands in the list.
 */
import { assert } from "../errors.ts";
import type { Plugin } from "../plugin/types.ts";

/** A plugin in this executable: what must be known of it before its code is loaded. */
export interface BundledPlugin {
  name: string;
  /** names of its top-level commands, so that only the owner of a command is loaded */
  commandNames: readonly string[];
  /** must import by a literal path, else the bundler does not see it */
  load(): Promise<Plugin>;
}

/** A plugin and where it came from. */
export interface LoadedPlugin {
  plugin: Plugin;
  origin: "bundled";
}

export class PluginCatalog {
  readonly #bundled: readonly BundledPlugin[];

  constructor(bundled: readonly BundledPlugin[]) {
    const commands = bundled.flatMap((entry) => entry.commandNames);
    assert(new Set(commands).size === commands.length, "each command has one plugin");
    this.#bundled = bundled;
  }

  get names(): readonly string[] {
    return this.#bundled.map((entry) => entry.name);
  }

  get commandNames(): readonly string[] {
    return this.#bundled.flatMap((entry) => entry.commandNames);
  }

  /** The plugin that brings a command, or null. */
  async ownerOf(command: string): Promise<Plugin | null> {
    const entry = this.#bundled.find((candidate) => candidate.commandNames.includes(command));
    return entry === undefined ? null : loadChecked(entry);
  }

  /** All plugins, in the order of the list. */
  async all(): Promise<readonly LoadedPlugin[]> {
    return Promise.all(this.#bundled.map(async (entry) => ({ plugin: await loadChecked(entry), origin: "bundled" as const })));
  }
}

/** The list must not promise what the plugin does not bring, or hide what it does. */
async function loadChecked(entry: BundledPlugin): Promise<Plugin> {
  const plugin = await entry.load();
  assert(plugin.name === entry.name, `plugin ${entry.name} is listed under its own name`);
  const visible = (plugin.commands ?? []).map((command) => command.name).sort();
  assert(
    visible.join() === [...entry.commandNames].sort().join(),
    `plugin ${entry.name} is listed with its commands (${visible.join(", ")})`,
  );
  return plugin;
}

/**
 * Which plugins there are and which commands they bring, loading no more of them than is needed.
 * Knows no plugin by name: the executable hands in the bundled ones, the configuration names the others.
 */
import { assert } from "../errors.ts";
import type { Declarations } from "../plugin/conflicts.ts";
import { pluginLabel } from "../plugin/graph.ts";
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
  /** `bundled`, or the path of an external plugin */
  origin: string;
  /** of an external plugin's file or folder */
  sha256?: string;
}

/** Where external plugins come from. */
export interface ExternalPlugins {
  /** what the configuration names, `PATH` or `PATH#sha256=HEX`; throws LockdError `config` */
  named(): Promise<readonly string[]>;
  /** what the core itself brings, with which they must not clash */
  core(): Declarations;
}

export class PluginCatalog {
  readonly #bundled: readonly BundledPlugin[];
  readonly #external: ExternalPlugins | null;
  #named: Promise<readonly string[]> | null = null;
  #all: Promise<readonly LoadedPlugin[]> | null = null;

  constructor(bundled: readonly BundledPlugin[], external: ExternalPlugins | null = null) {
    const commands = bundled.flatMap((entry) => entry.commandNames);
    assert(new Set(commands).size === commands.length, "each command has one plugin");
    this.#bundled = bundled;
    this.#external = external;
  }

  /** of the bundled plugins */
  get names(): readonly string[] {
    return this.#bundled.map((entry) => entry.name);
  }

  /** Whether the configuration names external plugins; loads none of them. */
  async hasExternal(): Promise<boolean> {
    return (await this.#externalNames()).length > 0;
  }

  /** The plugin that brings a command, or null. External ones are loaded only for a command that is not a bundled one. */
  async ownerOf(command: string): Promise<Plugin | null> {
    const entry = this.#bundled.find((candidate) => candidate.commandNames.includes(command));
    if (entry !== undefined) return loadChecked(entry);
    if (!(await this.hasExternal())) return null;
    const all = await this.all();
    return all.find(({ plugin }) => plugin.commands?.some(({ name }) => name === command) === true)?.plugin ?? null;
  }

  /** Names of all commands that are not hidden: what a mistyped one may have meant. */
  async commandNames(): Promise<readonly string[]> {
    if (!(await this.hasExternal())) return this.#bundled.flatMap((entry) => entry.commandNames);
    return (await this.all()).flatMap(({ plugin }) => plugin.commands ?? []).flatMap(({ name, hidden }) => (hidden === true ? [] : [name]));
  }

  /** The bundled plugins, in the order of the list. */
  bundled(): Promise<readonly LoadedPlugin[]> {
    return Promise.all(this.#bundled.map(async (entry) => ({ plugin: await loadChecked(entry), origin: "bundled" })));
  }

  /**
   * All plugins, bundled ones first, in the order in which they are named. Throws LockdError `config`
   * naming the plugin that cannot be loaded, or does not fit together with the others.
   */
  all(): Promise<readonly LoadedPlugin[]> {
    this.#all ??= this.#loadAll();
    return this.#all;
  }

  async #loadAll(): Promise<readonly LoadedPlugin[]> {
    const bundled = await this.bundled();
    const named = await this.#externalNames();
    if (this.#external === null || named.length === 0) return bundled;
    const [{ loadExternals }, { refuseConflicts }, { orderPlugins }] = await Promise.all([
      import("../plugin/load-external.ts"),
      import("../plugin/conflicts.ts"),
      import("../plugin/graph.ts"),
    ]);
    const external = await loadExternals(named, process.getuid?.() ?? 0);
    const loaded = [...bundled, ...external.map(({ plugin, path, sha256 }) => ({ plugin, origin: path, sha256 }))];
    const labels = new Map<object, string>(external.map(({ plugin, path }) => [plugin, pluginLabel(plugin, path)]));
    const labelOf = (plugin: Pick<Plugin, "name">): string => labels.get(plugin) ?? plugin.name;
    orderPlugins(loaded.map(({ plugin }) => plugin), undefined, labelOf);
    refuseConflicts(loaded.map(({ plugin }) => ({ plugin, label: labelOf(plugin) })), this.#external.core());
    return loaded;
  }

  #externalNames(): Promise<readonly string[]> {
    this.#named ??= this.#external?.named() ?? Promise.resolve([]);
    return this.#named;
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

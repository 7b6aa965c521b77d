/**
 * Which plugins may be loaded together, and in which order: pure functions of what they declare.
 * Starts nothing.
 */
import { assert, LockdError } from "../errors.ts";
import { parseVersion, RANGE_FORMS, satisfies } from "./semver.ts";
import { API_VERSION, type Plugin } from "./types.ts";

type Declared = Pick<Plugin, "name" | "version" | "requires">;

const NAME = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/;
/** Core sections and words of the configuration file that a plugin's section must not take. */
const RESERVED = new Set(["lockd", "core"]);
/** semver 2.0 with pre-release and build: a plugin's own version is only shown. */
const OWN_VERSION = /^\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?$/;

/** How errors call a plugin; by its name, unless the caller knows more, such as its path. */
type Label = (plugin: Declared) => string;

/**
 * The plugins so that each comes after those that it requires, else in the given order. Throws
 * LockdError `config`, naming the plugin, for an invalid or duplicate name, a wrong API version, a
 * missing dependency or a cycle.
 */
export function orderPlugins<P extends Declared>(plugins: readonly P[], apiVersion: string = API_VERSION, label: Label = shownName): P[] {
  const byName = new Map<string, P>();
  for (const plugin of plugins) {
    checkDeclaration(plugin, apiVersion, label(plugin));
    const other = byName.get(plugin.name);
    if (other !== undefined) {
      const which = label(other) === label(plugin) ? "" : `: ${label(other)}`;
      throw pluginRefused(label(plugin), `another plugin of this name is loaded already${which}`);
    }
    byName.set(plugin.name, plugin);
  }
  const ordered: P[] = [];
  const state = new Map<string, "visiting" | "done">();
  const path: string[] = [];
  const visit = (plugin: P): void => {
    if (state.get(plugin.name) === "done") return;
    if (state.get(plugin.name) === "visiting") {
      const cycle = [...path.slice(path.indexOf(plugin.name)), plugin.name];
      throw pluginRefused(label(plugin), `the plugins require each other: ${cycle.join(" → ")}`);
    }
    state.set(plugin.name, "visiting");
    path.push(plugin.name);
    for (const name of plugin.requires.plugins ?? []) {
      const required = byName.get(name);
      if (required === undefined) throw missing(label(plugin), name, [...byName.keys()]);
      visit(required);
    }
    path.pop();
    state.set(plugin.name, "done");
    ordered.push(plugin);
  };
  for (const plugin of plugins) visit(plugin);
  assert(ordered.length === byName.size, "every plugin is in the order once");
  return ordered;
}

/** What a plugin says of itself, for this version of the interface. `label` is how the LockdError `config` calls it. */
export function checkDeclaration({ name, version, requires }: Declared, apiVersion: string, label: string): void {
  if (!NAME.test(name) || name.length > 40) throw pluginRefused(label, "a name is lower-case letters, digits and single dashes, 40 at most");
  if (RESERVED.has(name)) throw pluginRefused(label, "the name is reserved for lockd itself");
  if (!OWN_VERSION.test(version)) throw pluginRefused(label, `its version ${JSON.stringify(version)} is not of the form 1.2.3`);
  const api = parseVersion(apiVersion);
  assert(api !== null, "the API version is a version");
  const fits = satisfies(api, requires.lockd);
  if (fits === null) throw pluginRefused(label, `requires.lockd ${JSON.stringify(requires.lockd)} is not a range: ${RANGE_FORMS}`);
  if (!fits) {
    throw pluginRefused(label, `it works with plugin interface ${requires.lockd}, and this lockd has ${apiVersion}`, "take a version of the plugin, or of lockd, that fits");
  }
}

const missing = (label: string, required: string, loaded: readonly string[]): LockdError =>
  pluginRefused(label, `it requires plugin ${JSON.stringify(required)}, which is not loaded`, `loaded are: ${loaded.join(", ")}`);

/** A plain name as it is; anything else quoted, so that a message stays one line. */
function shownName({ name }: Pick<Plugin, "name">): string {
  return NAME.test(name) ? name : JSON.stringify(name);
}

/** How an external plugin is called in errors: by its name and the path that it was loaded from. */
export const pluginLabel = (plugin: Pick<Plugin, "name">, path: string): string => `${shownName(plugin)} (${path})`;

/** The error of a plugin that cannot be loaded; `label` names it. */
export function pluginRefused(label: string, reason: string, hint?: string, cause?: unknown): LockdError {
  return new LockdError("config", `load plugin ${label}: ${reason}`, { ...(hint === undefined ? {} : { hint }), cause });
}

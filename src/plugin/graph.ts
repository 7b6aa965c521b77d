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

/**
 * The plugins so that each comes after those that it requires, else in the given order. Throws
 * LockdError `config`, naming the plugin, for an invalid or duplicate name, a wrong API version, a
 * missing dependency or a cycle.
 */
export function orderPlugins<P extends Declared>(plugins: readonly P[], apiVersion: string = API_VERSION): P[] {
  const byName = new Map<string, P>();
  for (const plugin of plugins) {
    checkDeclaration(plugin, apiVersion);
    if (byName.has(plugin.name)) throw refused(plugin.name, "another plugin of this name is loaded already");
    byName.set(plugin.name, plugin);
  }
  const ordered: P[] = [];
  const state = new Map<string, "visiting" | "done">();
  const path: string[] = [];
  const visit = (plugin: P): void => {
    if (state.get(plugin.name) === "done") return;
    if (state.get(plugin.name) === "visiting") {
      const cycle = [...path.slice(path.indexOf(plugin.name)), plugin.name];
      throw refused(plugin.name, `the plugins require each other: ${cycle.join(" → ")}`);
    }
    state.set(plugin.name, "visiting");
    path.push(plugin.name);
    for (const name of plugin.requires.plugins ?? []) {
      const required = byName.get(name);
      if (required === undefined) throw missing(plugin.name, name, [...byName.keys()]);
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

function checkDeclaration(plugin: Declared, apiVersion: string): void {
  const { name, version, requires } = plugin;
  if (!NAME.test(name) || name.length > 40) throw refused(name, "a name is lower-case letters, digits and single dashes, 40 at most");
  if (RESERVED.has(name)) throw refused(name, "the name is reserved for lockd itself");
  if (!OWN_VERSION.test(version)) throw refused(name, `its version ${JSON.stringify(version)} is not of the form 1.2.3`);
  const api = parseVersion(apiVersion);
  assert(api !== null, "the API version is a version");
  const fits = satisfies(api, requires.lockd);
  if (fits === null) throw refused(name, `requires.lockd ${JSON.stringify(requires.lockd)} is not a range: ${RANGE_FORMS}`);
  if (!fits) {
    throw refused(name, `it works with plugin interface ${requires.lockd}, and this lockd has ${apiVersion}`, "take a version of the plugin, or of lockd, that fits");
  }
}

const missing = (name: string, required: string, loaded: readonly string[]): LockdError =>
  refused(name, `it requires plugin ${JSON.stringify(required)}, which is not loaded`, `loaded are: ${loaded.join(", ")}`);

function refused(name: string, reason: string, hint?: string): LockdError {
  // a plain name as it is; anything else quoted, so that the message stays one line
  const shown = NAME.test(name) ? name : JSON.stringify(name);
  return new LockdError("config", `load plugin ${shown}: ${reason}`, hint === undefined ? {} : { hint });
}

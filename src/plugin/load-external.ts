/**
 * Loads external plugins from disk: checks their files, gives them the module `lockd:api`, runs their
 * top level, checks what they export. Whether they fit together with others is not its affair.
 */
import { LockdError } from "../errors.ts";
import { checkedPlugin } from "./declaration.ts";
import { pluginRefused } from "./graph.ts";
import { type PluginSource, readPluginSource, syntaxError } from "./source-files.ts";
import type { Plugin } from "./types.ts";

/** For what a plugin awaits at its top level. One that never gives back control cannot be stopped. */
const LOAD_MS_MAX = 10_000;

export interface ExternalPlugin {
  plugin: Plugin;
  /** as it was named, absolute */
  path: string;
  /** of its file or folder, lower-case hex */
  sha256: string;
}

/**
 * Loads plugins one after the other, in the order in which they are named: `PATH` or `PATH#sha256=HEX`,
 * paths absolute. `uid`: the user that lockd runs as. Throws LockdError `config` naming the first that
 * cannot be loaded, and why.
 */
export async function loadExternals(named: readonly string[], uid: number): Promise<ExternalPlugin[]> {
  const sources = named.map((name) => pinnedSource(name, uid));
  const twice = sources.find(({ source }, index) => sources.findIndex((other) => other.source.entry === source.entry) !== index);
  if (twice !== undefined) throw pluginRefused(twice.path, "it is named twice");
  const api = { ...(await import("./api.ts")) };
  Bun.plugin({ name: "lockd:api", setup: (build) => void build.module("lockd:api", () => ({ exports: api, loader: "object" })) });
  const loaded: ExternalPlugin[] = [];
  for (const { path, source } of sources) {
    const plugin = checkedPlugin(await importDefault(path, source), path);
    loaded.push({ plugin, path, sha256: source.sha256 });
  }
  return loaded;
}

/** The plugin's files, after its pin was compared; before anything of it runs. */
function pinnedSource(named: string, uid: number): { path: string; source: PluginSource } {
  const [path = "", pin, ...more] = named.split("#sha256=");
  if ((pin !== undefined && !/^[0-9a-f]{64}$/i.test(pin)) || more.length > 0) {
    throw pluginRefused(path, "its pin is not #sha256= and 64 hex digits", "`lockd plugins --json` shows the digest of each plugin");
  }
  const source = readPluginSource(path, uid);
  if (pin !== undefined && pin.toLowerCase() !== source.sha256) {
    throw pluginRefused(path, `its sha256 is ${source.sha256}, not the pinned ${pin.toLowerCase()}`, "look at what has changed; if it is right, pin the new digest");
  }
  return { path, source };
}

async function importDefault(path: string, { entry }: PluginSource): Promise<unknown> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(pluginRefused(path, `it is not loaded after ${LOAD_MS_MAX / 1000} s: its top level waits for something`)), LOAD_MS_MAX);
  try {
    const module: { default?: unknown } = await Promise.race([import(entry), late]);
    return module.default;
  } catch (error) {
    throw asLoadError(path, entry, error);
  } finally {
    clearTimeout(timer);
  }
}

function asLoadError(path: string, entry: string, error: unknown): LockdError {
  if (error instanceof BuildMessage || error instanceof AggregateError) return syntaxError(path, entry, error);
  if (error instanceof ResolveMessage) {
    return pluginRefused(path, `its import of ${JSON.stringify(error.specifier)} leads nowhere`, "a plugin can import lockd:api, modules of node: and bun:, and its own files; bundle whatever else it needs into it", error);
  }
  if (error instanceof LockdError && error.message.startsWith("load plugin")) return error;
  const reason = error instanceof Error ? error.message || error.name : String(error);
  // the engine's word for an export that is not there
  const kind = error instanceof SyntaxError ? "it cannot be linked" : "it throws while it is loaded";
  return pluginRefused(path, `${kind}: ${reason}`, undefined, error);
}

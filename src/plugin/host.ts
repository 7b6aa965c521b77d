/**
 * The life of a server's plugins: set up and started in the order of their dependencies, stopped in
 * reverse, also after half a start. Makes each plugin's Host; knows no plugin by name.
 */
import type { Clock, Timers } from "../clock/clock.ts";
import type { Config, OptionValue } from "../config/types.ts";
import { assert, LockdError } from "../errors.ts";
import type { HealthChecks } from "../observe/health.ts";
import type { HttpRouter } from "../observe/http-router.ts";
import type { Logger, Metrics } from "../observe/types.ts";
import type { Access } from "../security/rules.ts";
import type { Namespace, Store } from "../store/types.ts";
import type { MessageRegistry } from "../wire/types.ts";
import { orderPlugins, pluginLabel } from "./graph.ts";
import type { Host, Plugin, PluginInstance } from "./types.ts";

/** What the server has for all plugins. */
export interface PluginHostOptions {
  /** of the external plugins, by name; errors name them */
  paths: ReadonlyMap<string, string>;
  mode: string;
  nodeName: string;
  software: string;
  /** see Host.listenAddress */
  listenAddress: () => string;
  access: Access;
  config: Config;
  logger: Logger;
  clock: Clock;
  timers: Timers;
  /** the server's store, open by the time plugins are set up */
  store: () => Store;
  /** the registry of the listener, as the plugin of this name sees it */
  messages: (plugin: string) => MessageRegistry;
  metrics: Metrics;
  health: HealthChecks;
  http: HttpRouter;
  /** ends the server in an orderly way; the error names the plugin */
  fail: (error: LockdError) => void;
}

/** A plugin is set up within this: it only registers what it brings; what takes time belongs into its start. */
const SETUP_MS_MAX = 10_000;
const SLOW_START_MS = 10_000;

const LIMITED = {
  "set-up": { verb: "end", code: "config" },
  stop: { verb: "stop", code: "failed" },
} as const;

interface Loaded {
  plugin: Plugin;
  instance: PluginInstance;
}

export class PluginHost {
  readonly #options: PluginHostOptions;
  readonly #plugins: readonly Plugin[];
  readonly #loaded: Loaded[] = [];
  readonly #services = new Map<string, object>();
  #stopping = false;

  /** Throws LockdError `config` when the plugins do not fit together (see orderPlugins). */
  constructor(plugins: readonly Plugin[], options: PluginHostOptions) {
    this.#plugins = orderPlugins(plugins);
    this.#options = options;
  }

  /** Sets up all plugins. After a throw, `stop` ends what was set up. */
  async setup(): Promise<void> {
    for (const plugin of this.#plugins) {
      if (plugin.setup === undefined) continue;
      try {
        const host = this.#hostFor(plugin);
        const instance = await this.#within(SETUP_MS_MAX, plugin.name, "set-up", async () => plugin.setup?.(host) ?? {});
        checkInstance(instance);
        this.#loaded.push({ plugin, instance });
      } catch (error) {
        throw wrapped("set up", this.#label(plugin.name), error, "config");
      }
    }
  }

  /** Starts all that were set up. After a throw, `stop` ends them, the failed one too. */
  async start(): Promise<void> {
    for (const { plugin, instance } of this.#loaded) {
      // recovery may have much to read, so it has no limit; whoever waits is told for whom
      const slow = this.#options.timers.every(SLOW_START_MS, () => this.#options.logger.warn("plugin-start-slow", { plugin: plugin.name }));
      try {
        await instance.start?.();
      } catch (error) {
        throw wrapped("start", this.#label(plugin.name), error, this.#options.paths.has(plugin.name) ? "config" : "failed");
      } finally {
        slow.cancel();
      }
    }
  }

  /**
   * Stops what was set up, in reverse, each within `limitMs`. One that fails or takes longer does not
   * keep the others from it. Returns what went wrong; a second call does nothing.
   */
  async stop(limitMs: number): Promise<LockdError[]> {
    if (this.#stopping) return [];
    this.#stopping = true;
    const errors: LockdError[] = [];
    for (const { plugin, instance } of this.#loaded.toReversed()) {
      try {
        await this.#within(limitMs, plugin.name, "stop", async () => instance.stop?.());
      } catch (error) {
        errors.push(wrapped("stop", this.#label(plugin.name), error, "failed"));
      }
    }
    return errors;
  }

  /** What each plugin has to say about its state; one that throws says so in its place. */
  describe(detail: "summary" | "full"): { plugin: string; lines: string[] }[] {
    return this.#loaded.map(({ plugin, instance }) => {
      try {
        return { plugin: plugin.name, lines: instance.describe?.(detail) ?? [] };
      } catch (error) {
        return { plugin: plugin.name, lines: [`describing its state failed: ${messageOf(error)}`] };
      }
    });
  }

  /** How errors call a plugin. */
  #label(name: string): string {
    const path = this.#options.paths.get(name);
    return path === undefined ? name : pluginLabel({ name }, path);
  }

  async #within<T>(limitMs: number, name: string, step: keyof typeof LIMITED, work: () => Promise<T>): Promise<T> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = this.#options.timers.after(limitMs, () => {
      reject(new LockdError(LIMITED[step].code, `it did not ${LIMITED[step].verb} within ${limitMs} ms`));
    });
    // when the limit wins, what it throws later has nobody left to hear it but the log
    const done = work();
    let over = false;
    done.catch((error: unknown) => {
      if (over) this.#options.logger.error(`plugin-${step}-failed`, { plugin: name, error: messageOf(error) });
    });
    try {
      return await Promise.race([done, late]);
    } finally {
      over = true;
      timer.cancel();
    }
  }

  #hostFor(plugin: Plugin): Host {
    const { options, name } = { options: this.#options, name: plugin.name };
    const store = options.store();
    let namespace: Namespace | undefined;
    return {
      mode: options.mode,
      nodeName: options.nodeName,
      software: options.software,
      listenAddress: options.listenAddress,
      access: options.access,
      config: sectionOf(options.config, plugin),
      logger: options.logger.child({ plugin: name }),
      clock: options.clock,
      timers: options.timers,
      random: (count) => crypto.getRandomValues(new Uint8Array(count)),
      get namespace() {
        namespace ??= store.namespace(name);
        return namespace;
      },
      store,
      messages: options.messages(name),
      metrics: options.metrics,
      health: options.health.scope(name),
      http: options.http.scope(name),
      provide: (service) => this.#provide(name, service),
      use: <T extends object>(provider: string) => this.#use<T>(plugin, provider),
      fail: (error) => options.fail(wrapped("run", this.#label(name), error, "failed")),
    };
  }

  #provide(name: string, service: object): void {
    if (this.#services.has(name)) throw new LockdError("config", `provide service of plugin ${name}: it provides one already`);
    this.#services.set(name, service);
  }

  #use<T extends object>(plugin: Plugin, provider: string): T {
    // only a declared dependency is surely set up before, and shows in `lockd plugins`
    if (plugin.requires.plugins?.includes(provider) !== true) {
      throw new LockdError("config", `use service of plugin ${provider}: plugin ${plugin.name} does not name it in requires.plugins`);
    }
    const service = this.#services.get(provider);
    if (service === undefined) {
      throw new LockdError("config", `use service of plugin ${provider}: it provides none, and plugin ${plugin.name} needs it`);
    }
    // the type is an agreement between the two plugins, which the core cannot check
    return service as T;
  }
}

/** Code that no type checker has seen may return anything. */
function checkInstance(instance: unknown): void {
  if (typeof instance !== "object" || instance === null) throw new LockdError("config", "its setup returned no object with start, stop or describe");
  for (const [name, part] of Object.entries(instance)) {
    const known = name === "start" || name === "stop" || name === "describe";
    if (known && part !== undefined && typeof part !== "function") throw new LockdError("config", `what its setup returned has a ${name} that is no function`);
  }
}

/** The plugin's section as plain values, complete as its OptionSpecs say. */
function sectionOf(config: Config, plugin: Plugin): Readonly<Record<string, OptionValue>> {
  const section = config.sections.get(plugin.name);
  const values: Record<string, OptionValue> = {};
  for (const option of plugin.config ?? []) {
    const found = section?.get(option.name);
    assert(found !== undefined, `option ${option.name} of plugin ${plugin.name} is resolved`);
    values[option.name] = found.value;
  }
  return Object.freeze(values);
}

/** The error with the plugin's name; a LockdError keeps its code, what else is thrown gets `code`. */
function wrapped(doing: string, name: string, error: unknown, code: "config" | "failed"): LockdError {
  const message = `${doing} plugin ${name}: ${messageOf(error)}`;
  if (!(error instanceof LockdError)) return new LockdError(code, message, { cause: error });
  const options = { retryable: error.retryable, cause: error };
  return new LockdError(error.code, message, error.hint === undefined ? options : { ...options, hint: error.hint });
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

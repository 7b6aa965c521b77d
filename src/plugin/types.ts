/**
 * The plugin interface: what a plugin declares and what the host gives it. Bundled and external
 * plugins use exactly this. Knows no plugin by name.
 */
import type { CommandSpec } from "../cli/types.ts";
import type { Clock, Timers } from "../clock/clock.ts";
import type { OptionSpec, OptionValue } from "../config/types.ts";
import type { Health, HttpRoutes, Logger, Metrics } from "../observe/types.ts";
import type { Access } from "../security/rules.ts";
import type { Namespace, Store } from "../store/types.ts";
import type { MessageRegistry } from "../wire/types.ts";

/** Version of the interface in this file; plugins state the range that they work with. */
export const API_VERSION = "1.0.0";

export interface Plugin {
  /** lower-case letters, digits and dashes; unique among the loaded plugins */
  name: string;
  version: string;
  requires: {
    /** semver range of API_VERSION, such as `^1` */
    lockd: string;
    /** names of plugins that must be set up before this one */
    plugins?: readonly string[];
  };
  /** options of the section `[name]` of the configuration file (and their flags and environment names) */
  config?: readonly OptionSpec[];
  /** subcommands; their code is loaded when one is run */
  commands?: readonly CommandSpec[];
  /**
   * Called once in a server process, in the order of dependencies, and over within 10 seconds. What it
   * registers serves only after every plugin's `start` has returned. A throw ends the start: what was set
   * up is stopped in reverse. A plugin that has nothing to start or stop returns {}.
   */
  setup?(host: Host): PluginInstance | Promise<PluginInstance>;
}

/** A plugin that was set up. */
export interface PluginInstance {
  /** Recovers state and begins to work; the listener is not open yet. */
  start?(): void | Promise<void>;
  /** A clean stop: hand over, tell clients, make all durable. Called once, also after half a start. */
  stop?(): void | Promise<void>;
  /** SIGUSR1 (`summary`) and SIGUSR2 (`full`): lines for the log. */
  describe?(detail: "summary" | "full"): string[];
}

/** What the core gives to a plugin. Everything a plugin does to the outside goes through it. */
export interface Host {
  /** the server command that runs: `serve`, `raft`, … */
  readonly mode: string;
  /** name of this node (`--name`) */
  readonly nodeName: string;
  readonly software: string;
  /** the address that others reach this node at; with port 0 the real one once the listener is open */
  listenAddress(): string;
  /** what a client may do, by the rules in force now; who it is: `connection.identity.principal` */
  readonly access: Access;
  /** the plugin's own section, complete and validated; keys as in its OptionSpecs */
  readonly config: Readonly<Record<string, OptionValue>>;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly timers: Timers;
  /** `count` cryptographically random bytes */
  random(count: number): Uint8Array;
  /** the plugin's own namespace of the server's store */
  readonly namespace: Namespace;
  /** the store itself, for its identity and failure; read-only use */
  readonly store: Pick<Store, "directoryId" | "failed" | "stats">;
  readonly messages: MessageRegistry;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly http: HttpRoutes;
  /** Offers a service to other plugins under this plugin's name. */
  provide<T extends object>(service: T): void;
  /** The service of a plugin named in `requires.plugins`; a configuration error when it offers none. */
  use<T extends object>(plugin: string): T;
  /** Ends the process in an orderly way with this error: the node can no longer keep its promises. */
  fail(error: Error): void;
}

/** Identity with a type: lets an editor and tsc check a plugin where it is written. */
export const definePlugin = (plugin: Plugin): Plugin => plugin;

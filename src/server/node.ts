/**
 * The parts of a running server in their order: store, plugins, listener, HTTP. What was begun is
 * ended in reverse, also after half a start. Knows no signal, no exit code and no plugin by name.
 */
import type { Clock, Timer, Timers } from "../clock/clock.ts";
import type { Config } from "../config/types.ts";
import { asLockdError, type LockdError } from "../errors.ts";
import { type Server, startServer } from "../net/server.ts";
import { HealthChecks } from "../observe/health.ts";
import { addCoreRoutes, type HttpServer, startHttp } from "../observe/http.ts";
import { HttpRouter } from "../observe/http-router.ts";
import { MetricsRegistry } from "../observe/metrics.ts";
import { addProcessMetrics } from "../observe/process-metrics.ts";
import type { Logger } from "../observe/types.ts";
import { PluginHost } from "../plugin/host.ts";
import type { Plugin } from "../plugin/types.ts";
import { openStore } from "../store/store.ts";
import type { ServerSecurity } from "../security/server-security.ts";
import type { Store } from "../store/types.ts";
import { Messages } from "../wire/registry.ts";
import { traceToLogger } from "../wire/trace.ts";
import { addressOf, type ServerSettings } from "./settings.ts";

/** A plugin that does not stop within this is left behind. */
const PLUGIN_STOP_MS = 10_000;
/** Time for clients to read their last answers. */
const CLIENT_DRAIN_MS = 2_000;
/** Time for HTTP answers under way; event streams end only by being cut. */
const HTTP_DRAIN_MS = 250;

export interface NodeOptions {
  mode: string;
  plugins: readonly Plugin[];
  /** paths of the external ones, by name */
  pluginPaths: ReadonlyMap<string, string>;
  config: Config;
  settings: ServerSettings;
  security: ServerSecurity;
  software: string;
  logger: Logger;
  clock: Clock;
  timers: Timers;
  /** called when the node can no longer keep its promises, at most once or often */
  fail: (error: LockdError) => void;
}

type State = "starting" | "ready" | "stopping";

export class ServerNode {
  readonly #options: NodeOptions;
  readonly #plugins: PluginHost;
  readonly #messages: Messages;
  readonly #metrics = new MetricsRegistry();
  readonly #health = new HealthChecks();
  readonly #router: HttpRouter;
  #store: Store | null = null;
  #listener: Server | null = null;
  #http: HttpServer | null = null;
  #beat: Timer | null = null;
  #state: State = "starting";
  /** the one in force now */
  #security: ServerSecurity;
  #storeFailure: string | null = null;

  /** Throws LockdError `config` when the plugins do not fit together; opens nothing yet. */
  constructor(options: NodeOptions) {
    this.#options = options;
    this.#security = options.security;
    const { mode, config, settings, software, logger, clock, timers, fail } = options;
    this.#messages = new Messages(logger);
    this.#router = new HttpRouter(logger);
    this.#plugins = new PluginHost(options.plugins, {
      paths: options.pluginPaths,
      mode,
      nodeName: settings.name,
      software,
      listenAddress: () => this.listenAddress,
      access: {
        allows: (principal, action, object) => this.#security.access.allows(principal, action, object),
        allowsAll: (principal, action) => this.#security.access.allowsAll(principal, action),
        prefixes: (principal, action, within) => this.#security.access.prefixes(principal, action, within),
      },
      config,
      logger,
      clock,
      timers,
      store: () => this.#openedStore(),
      messages: (plugin) => this.#messages.registryFor(plugin),
      metrics: this.#metrics,
      health: this.#health,
      http: this.#router,
      fail,
    });
  }

  /** The real address once the listener is open, before that the configured one. */
  get listenAddress(): string {
    return this.#listener?.address ?? this.#options.settings.listen;
  }

  /** The real address of the HTTP server, `off` without one. */
  get httpAddress(): string {
    return this.#http?.address ?? "off";
  }

  /** Whether every check that proves the process alive is fine. */
  get alive(): boolean {
    return this.#health.report("live").ok;
  }

  /**
   * Starts everything; ready when it resolves. Throws the LockdError of what failed, or the signal's
   * reason when it was aborted between two steps; in both cases `stop` ends what was begun.
   */
  async start(signal: AbortSignal): Promise<void> {
    const { settings, logger, clock, timers } = this.#options;
    this.#store = await openStore({ directory: settings.dataDirectory, logger });
    void this.#store.failed.then((error) => this.#storeFailed(error));
    signal.throwIfAborted();
    this.#registerOwn();
    await this.#plugins.setup();
    signal.throwIfAborted();
    await this.#plugins.start();
    signal.throwIfAborted();
    this.#listener = startServer({
      listen: addressOf(settings.listen),
      hello: { name: settings.name, cluster: this.#store.directoryId, software: this.#options.software, features: [] },
      security: this.#security,
      messages: this.#messages,
      logger,
      clock,
      timers,
      trace: settings.traceMessages ? traceToLogger(logger) : null,
    });
    if (settings.http !== null) this.#http = await startHttp({ address: settings.http, router: this.#router });
    signal.throwIfAborted();
    this.#state = "ready";
  }

  /**
   * Certificates, secrets, tokens and rules as they are from now on. Open connections stay, and what
   * they ask for is judged by the new rules.
   */
  secure(security: ServerSecurity): void {
    this.#security = security;
    this.#listener?.secure(security);
  }

  /**
   * Ends all that was begun: no new clients, plugins hand over, clients hear it, storage is closed.
   * Returns what went wrong; nothing of it keeps the rest from being ended.
   */
  async stop(): Promise<LockdError[]> {
    this.#state = "stopping";
    const errors: LockdError[] = [];
    const attempt = async (work: () => Promise<void> | undefined): Promise<void> => {
      try {
        await work();
      } catch (error) {
        errors.push(asLockdError(error));
      }
    };
    this.#listener?.quiesce();
    errors.push(...(await this.#plugins.stop(PLUGIN_STOP_MS)));
    await Promise.all([
      attempt(() => this.#listener?.stop({ drainMs: CLIENT_DRAIN_MS })),
      attempt(() => this.#http?.stop(HTTP_DRAIN_MS)),
    ]);
    this.#beat?.cancel();
    // a store that failed has said so already, and has nothing left to close in good order
    if (this.#storeFailure === null) await attempt(() => this.#store?.close());
    return errors;
  }

  /** The state of the core and of each plugin, as lines for the log. */
  describe(detail: "summary" | "full"): { plugin: string; lines: string[] }[] {
    const stats = this.#store?.stats();
    const lines = [
      `${this.#state}, up ${Math.round(process.uptime())} s, ${Math.round(process.memoryUsage.rss() / 2 ** 20)} MiB`,
      `listen ${this.listenAddress}, ${this.#listener?.connections ?? 0} connections; http ${this.httpAddress}`,
    ];
    if (stats !== undefined) {
      lines.push(`store ${stats.commits} commits of ${stats.batches} batches, last ${stats.lastCommitMs.toFixed(1)} ms, log ${stats.walBytes} bytes`);
    }
    for (const kind of ["live", "ready"] as const) {
      for (const check of this.#health.report(kind).checks) {
        if (!check.ok) lines.push(`not ${kind}: ${check.name}: ${check.reason ?? ""}`);
      }
    }
    return [{ plugin: "lockd", lines }, ...this.#plugins.describe(detail)];
  }

  #openedStore(): Store {
    if (this.#store === null) throw new Error("the store is open before a plugin is set up");
    return this.#store;
  }

  #storeFailed(error: Error): void {
    this.#storeFailure = error.message;
    this.#options.fail(asLockdError(error));
  }

  /** Checks, metrics and routes of the core. */
  #registerOwn(): void {
    const { mode, software, clock, timers } = this.#options;
    const store = this.#openedStore();
    const health = this.#health.scope("lockd");
    health.add("live", "store", () => {
      return this.#storeFailure === null ? { ok: true } : { ok: false, reason: this.#storeFailure };
    });
    health.add("ready", "server", () => (this.#state === "ready" ? { ok: true } : { ok: false, reason: `it is ${this.#state}` }));
    addCoreRoutes(this.#router, this.#health, this.#metrics);
    this.#beat = addProcessMetrics(this.#metrics, clock, timers);
    const metrics = this.#metrics;
    metrics.gauge("lockd_build_info", "Always 1; the labels say what runs.", { version: software, mode }).set(1);
    metrics.gaugeFrom("lockd_connections", "Open connections of clients.", () => this.#listener?.connections ?? 0);
    metrics.gaugeFrom("lockd_connections_max", "Connections that may be open at once.", () => this.#listener?.connectionsMax ?? 0);
    metrics.counterFrom("lockd_store_commits_total", "Transactions made durable.", () => store.stats().commits);
    metrics.counterFrom("lockd_store_batches_total", "Batches made durable, several to a transaction.", () => store.stats().batches);
    metrics.counterFrom("lockd_store_written_bytes_total", "Bytes of batches made durable.", () => store.stats().bytes);
    metrics.gaugeFrom("lockd_store_last_commit_seconds", "Time that the last transaction took until it was durable.", () => store.stats().lastCommitMs / 1000);
    metrics.gaugeFrom("lockd_store_wal_bytes", "Size of the write-ahead log.", () => store.stats().walBytes);
  }
}

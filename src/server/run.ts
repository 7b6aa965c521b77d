/**
 * The life of a server process: logging, start, ready, signals, drain and exit code. node.ts holds the
 * parts that run; this file knows what the world outside expects of the process.
 */
import { constants } from "node:os";
import { realClock, realTimers } from "../clock/real.ts";
import type { Timers } from "../clock/clock.ts";
import { ConfigReader } from "../config/reader.ts";
import type { Config } from "../config/types.ts";
import { asLockdError, LockdError } from "../errors.ts";
import { colourWanted, type Logging, openLogging } from "../observe/logging.ts";
import type { Notifier } from "../observe/sd-notify.ts";
import type { Plugin } from "../plugin/types.ts";
import { readServerSecurity, type ServerSecurity } from "../security/server-security.ts";
import { isTerminal } from "../terminal.ts";
import { ServerNode } from "./node.ts";
import { checkReadyFd, tellReadyFd } from "./ready-fd.ts";
import { changedOptions } from "./reload.ts";
import { checkExposure, logLevelOf, readSettings, type ServerSettings } from "./settings.ts";
import { dieBy, endWithin, handleSignals } from "./signals.ts";

export interface RunOptions {
  /** the server command: `serve`, `raft`, … */
  mode: string;
  plugins: readonly Plugin[];
  /** paths of the external ones, by name */
  pluginPaths?: ReadonlyMap<string, string>;
  config: Config;
  /** version of this executable */
  software: string;
  environment: Readonly<Record<string, string | undefined>>;
  /** reads the configuration anew, for SIGHUP; throws LockdError when it is not valid */
  loadConfig: () => Promise<Config>;
}

/** Log lines that are not written within this, because their destination takes nothing, are given up. */
const FLUSH_MS = 1_000;
/** A process that has to end at once is ended by the kernel when writing its last lines blocks. */
const LAST_LINES_SECONDS = 2;

/** What a reload takes up besides the log level; the files they name are read anew in any case. */
const SECURITY_OPTIONS = ["tls-cert", "tls-key", "tls-ca", "secret-file", "token-file", "insecure", "auth.client"];

function readSecurity(config: Config): ServerSecurity {
  const random = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count));
  return readServerSecurity(new ConfigReader(config.core), { clients: readSettings(config).clients, random });
}

type Cause = { kind: "signal"; name: "SIGTERM" | "SIGINT" } | { kind: "failure"; error: LockdError };

/**
 * Runs a server until it is told to stop (0) or cannot go on (1). Throws LockdError when it could not
 * be started, after all that was begun has ended again.
 */
export async function runServer(options: RunOptions): Promise<number> {
  const settings = readSettings(options.config);
  const colour = settings.log.file === null && colourWanted(isTerminal(2), options.environment);
  const logging = openLogging({ ...settings.log, paint: colour ? "coloured" : "plain" });
  try {
    if (settings.readyFd !== null) checkReadyFd(settings.readyFd);
    const security = readSecurity(options.config);
    const exposed = await checkExposure(settings, security);
    if (exposed.length > 0) logging.logger.warn("reachable-without-authentication", { options: exposed.join(" ") });
    return await new ServerProcess(options, settings, security, logging).run();
  } catch (error) {
    const reason = asLockdError(error);
    // whoever started it reads the error on standard error; a log file, and who reads the log as JSON, need it as well
    if (settings.log.file !== null || settings.log.format === "json") {
      logging.logger.error("start-failed", { error: reason.message, hint: reason.hint, code: reason.code, exitCode: reason.exitCode });
    }
    throw reason;
  } finally {
    await logging.flush(FLUSH_MS);
  }
}

class ServerProcess {
  readonly #options: RunOptions;
  readonly #settings: ServerSettings;
  /** as it is in force, and the configuration it came from */
  #security: { now: ServerSecurity; config: Config };
  readonly #logging: Logging;
  readonly #timers: Timers;
  readonly #node: ServerNode;
  /** resolves with the first reason to stop */
  readonly #over = Promise.withResolvers<Cause>();
  /** aborts the start at its next step */
  readonly #abort = new AbortController();
  #reloading: Promise<void> = Promise.resolve();

  constructor(options: RunOptions, settings: ServerSettings, security: ServerSecurity, logging: Logging) {
    this.#options = options;
    this.#settings = settings;
    this.#security = { now: security, config: options.config };
    this.#logging = logging;
    const clock = realClock();
    this.#timers = realTimers(clock);
    this.#node = new ServerNode({
      mode: options.mode,
      plugins: options.plugins,
      pluginPaths: options.pluginPaths ?? new Map(),
      config: options.config,
      settings,
      security,
      software: options.software,
      logger: logging.logger,
      clock,
      timers: this.#timers,
      fail: (error) => this.#end({ kind: "failure", error }),
    });
  }

  async run(): Promise<number> {
    const release = this.#handleSignals();
    const { logger } = this.#logging;
    let notifier: Notifier | null = null;
    logger.info("starting", {
      name: this.#settings.name,
      mode: this.#options.mode,
      version: this.#options.software,
      pid: process.pid,
      data: this.#settings.dataDirectory,
      config: this.#options.config.file ?? "none",
    });
    this.#tellSecurity();
    try {
      await this.#node.start(this.#abort.signal);
      notifier = await this.#openNotifier();
      this.#announce(notifier);
      return await this.#stop(await this.#over.promise, notifier);
    } catch (error) {
      for (const failure of await this.#node.stop()) logger.error("stop-failed", { error: failure.message });
      if (!this.#abort.signal.aborted) throw error;
      const cause = await this.#over.promise;
      if (cause.kind === "failure") throw cause.error;
      logger.info("stopped", { reason: cause.name, during: "start" });
      return 0;
    } finally {
      notifier?.close();
      release();
    }
  }

  /** Everything works: says so to all who may wait for it, the log first. */
  #announce(notifier: Notifier | null): void {
    const { logger } = this.#logging;
    logger.info("ready", {
      name: this.#settings.name,
      listen: this.#node.listenAddress,
      http: this.#node.httpAddress,
      mode: this.#options.mode,
      pid: process.pid,
      startMs: Math.round(process.uptime() * 1000),
    });
    if (this.#settings.readyFd !== null) {
      const failure = tellReadyFd(this.#settings.readyFd);
      if (failure !== null) logger.warn("ready-fd-failed", { fd: this.#settings.readyFd, error: failure });
    }
    notifier?.notify({ READY: "1", STATUS: `${this.#options.mode} on ${this.#node.listenAddress}` });
    notifier?.startWatchdog(this.#timers, () => this.#node.alive);
  }

  async #openNotifier(): Promise<Notifier | null> {
    const socket = this.#options.environment["NOTIFY_SOCKET"];
    if (socket === undefined || socket === "") return null;
    const { openNotifier } = await import("../observe/sd-notify.ts");
    try {
      return openNotifier(socket, this.#options.environment, this.#logging.logger);
    } catch (error) {
      this.#logging.logger.warn("service-manager-unreachable", { error: asLockdError(error).message });
      return null;
    }
  }

  /** Asks for the orderly end; only the first reason counts. */
  #end(cause: Cause): void {
    const { logger } = this.#logging;
    if (this.#abort.signal.aborted) {
      if (cause.kind === "failure") logger.error("failed-while-stopping", { error: cause.error.message });
      return;
    }
    if (cause.kind === "failure") {
      logger.error("failed", { error: cause.error.message, code: cause.error.code, hint: cause.error.hint });
    }
    logger.info("stopping", { reason: cause.kind === "signal" ? cause.name : "failure" });
    this.#over.resolve(cause);
    this.#abort.abort();
  }

  async #stop(cause: Cause, notifier: Notifier | null): Promise<number> {
    const { logger } = this.#logging;
    notifier?.notify({ STOPPING: "1", STATUS: "stopping" });
    const errors = await this.#node.stop();
    for (const error of errors) logger.error("stop-failed", { error: error.message });
    const code = cause.kind === "signal" && errors.length === 0 ? 0 : 1;
    logger.info("stopped", { code });
    return code;
  }

  #handleSignals(): () => void {
    const stop = (name: "SIGTERM" | "SIGINT") => () => {
      if (!this.#abort.signal.aborted) return this.#end({ kind: "signal", name });
      this.#logging.logger.warn("ended-at-once", { reason: `a second signal, ${name}` });
      return this.#exitNow(128 + constants.signals[name]);
    };
    const crash = (msg: string) => (error: unknown) => {
      const known = error instanceof Error;
      this.#logging.logger.error(msg, { error: known ? error.message : String(error), stack: known ? error.stack : undefined });
      // nothing that was true before is sure now: no hand-over, no further answer
      this.#exitNow(1);
    };
    const uncaught = crash("uncaught-exception");
    const unhandled = crash("unhandled-rejection");
    process.on("uncaughtException", uncaught);
    process.on("unhandledRejection", unhandled);
    const release = handleSignals({
      SIGTERM: stop("SIGTERM"),
      SIGINT: stop("SIGINT"),
      SIGHUP: () => (this.#reloading = this.#reloading.then(() => this.#reload())),
      SIGUSR1: () => this.#logState("summary"),
      SIGUSR2: () => this.#logState("full"),
      SIGQUIT: () => {
        this.#logState("full");
        this.#logging.logger.error("aborting", { reason: "SIGQUIT" });
        endWithin(LAST_LINES_SECONDS);
        this.#logging.flushNow();
        dieBy("SIGQUIT");
      },
    });
    return () => {
      release();
      process.off("uncaughtException", uncaught);
      process.off("unhandledRejection", unhandled);
    };
  }

  #exitNow(code: number): never {
    endWithin(LAST_LINES_SECONDS);
    this.#logging.flushNow();
    return process.exit(code);
  }

  #logState(detail: "summary" | "full"): void {
    for (const { plugin, lines } of this.#node.describe(detail)) {
      for (const line of lines) this.#logging.logger.info("state", { plugin, line });
    }
  }

  /** How clients are told apart; nothing of it is secret. */
  #tellSecurity(): void {
    const { tls, methods, exposedFiles } = this.#security.now;
    const { logger } = this.#logging;
    if (tls !== null || methods.length > 0) {
      const certificate = tls === null ? "none" : Buffer.from(tls.certificateHash).toString("hex");
      const expires = tls === null ? null : new Date(tls.expiresMs).toISOString();
      logger.info("security", { clients: methods.join(" ") || "not asked", certificate, expires });
    }
    if (tls !== null && tls.expiresMs < Date.now()) logger.warn("certificate-expired", { expires: new Date(tls.expiresMs).toISOString() });
    if (exposedFiles.length > 0) logger.warn("secret-readable-by-all", { files: exposedFiles.join(" ") });
  }

  /** SIGHUP: a rotated log file first, so that what follows is in the new one. Never throws. */
  async #reload(): Promise<void> {
    const { logger } = this.#logging;
    try {
      if (this.#logging.reopen()) logger.info("log-reopened", { file: this.#settings.log.file });
      const after = await this.#options.loadConfig();
      const security = readSecurity(after);
      const { insecure } = readSettings(after);
      await checkExposure({ ...this.#settings, insecure }, security);
      const level = logLevelOf(after);
      const changed = changedOptions(this.#security.config, after).filter((name) => SECURITY_OPTIONS.includes(name));
      for (const [name, digest] of security.digests) if (digest !== this.#security.now.digests.get(name)) changed.push(name);
      if (level !== this.#logging.level) changed.push(`log-level from ${this.#logging.level} to ${level}`);
      // compared with what the process started with: that is what still runs
      const waiting = changedOptions(this.#options.config, after).filter((name) => name !== "log-level" && !SECURITY_OPTIONS.includes(name));
      this.#security = { now: security, config: after };
      this.#node.secure(security);
      logger.info("reloaded", { config: after.file ?? "none", changed: changed.length === 0 ? "nothing" : changed.join(", ") });
      this.#tellSecurity();
      if (waiting.length > 0) logger.warn("restart-needed", { options: waiting.join(" ") });
      this.#logging.level = level;
    } catch (error) {
      const { message, hint } = asLockdError(error);
      logger.error("reload-failed", { error: message, hint, goes: "on as before" });
    }
  }
}

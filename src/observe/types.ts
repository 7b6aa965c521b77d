/** Interfaces of logging, metrics, health and HTTP that plugins and servers use. No implementation. */

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "silent";
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** Structured logging: `msg` is a short stable text that scripts may match, all else are fields. */
export interface Logger {
  trace(msg: string, fields?: LogFields): void;
  debug(msg: string, fields?: LogFields): void;
  info(msg: string, fields?: LogFields): void;
  warn(msg: string, fields?: LogFields): void;
  error(msg: string, fields?: LogFields): void;
  /** whether a line of this level would be written; lets callers skip costly fields */
  enabled(level: LogLevel): boolean;
  /** a logger whose lines carry these fields too */
  child(fields: LogFields): Logger;
}

export interface Counter {
  add(amount?: number): void;
}
export interface Gauge {
  set(value: number): void;
}
export interface Histogram {
  /** seconds, or whatever unit the metric's name ends in */
  observe(value: number): void;
}

/** Prometheus metrics. Names start with `lockd_`, units are base units and last in the name. */
export interface Metrics {
  counter(name: string, help: string, labels?: Readonly<Record<string, string>>): Counter;
  gauge(name: string, help: string, labels?: Readonly<Record<string, string>>): Gauge;
  /** a gauge that is computed when it is scraped */
  gaugeFrom(name: string, help: string, read: () => number, labels?: Readonly<Record<string, string>>): void;
  histogram(name: string, help: string, bounds: readonly number[], labels?: Readonly<Record<string, string>>): Histogram;
}

export interface HealthState {
  ok: boolean;
  /** a sentence, present when not ok */
  reason?: string;
}

export interface Health {
  /** live: the process works at all (/healthz). ready: it can serve its purpose (/readyz). */
  add(kind: "live" | "ready", name: string, check: () => HealthState): void;
}

export type HttpHandler = (request: Request) => Response | Promise<Response>;

export interface HttpRoutes {
  /** `path` is exact, or a prefix when it ends in `/*`. A path taken twice is a configuration error. */
  route(method: "GET" | "POST" | "DELETE", path: string, handler: HttpHandler): void;
}

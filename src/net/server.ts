/**
 * The server of the wire protocol: a listener, its connections, one sweep over them for all that
 * depends on time, and the orderly stop. Knows no message.
 */
import type { Clock, Timers } from "../clock/clock.ts";
import { LockdError } from "../errors.ts";
import { isLoopbackHost } from "../loopback.ts";
import type { Logger } from "../observe/types.ts";
import type { Authenticator } from "../security/authenticator.ts";
import type { ServerTls } from "../security/server-security.ts";
import type { Admission } from "../wire/hello.ts";
import type { Messages } from "../wire/registry.ts";
import type { TraceHook } from "../wire/trace.ts";
import { connectionLimit, readDescriptors } from "./descriptors.ts";
import { greetingLimit, SERVER_LIMITS, type ServerLimits } from "./limits.ts";
import { Listener } from "./listener.ts";
import { type ConnectionContext, ServerConnection } from "./server-connection.ts";
import { TurnQueue } from "./turn-queue.ts";

const SWEEP_MS = 1_000;
/** How often a stop looks whether all is answered. */
const DRAIN_STEP_MS = 5;
/** Where too many are before HELLO, one that has had this long makes room for the next. */
const GREETING_SPARED_MS = 1_000;

export interface ServerOptions {
  listen: { host: string; port: number };
  hello: ConnectionContext["hello"];
  security: WireSecurity;
  /** roles that are let in; default: clients only */
  roles?: Admission["roles"];
  messages: Messages;
  /** where it differs from SERVER_LIMITS */
  limits?: Partial<ServerLimits>;
  logger: Logger;
  clock: Clock;
  timers: Timers;
  trace?: TraceHook | null;
}

/** How connections are secured and who is let in. */
export interface WireSecurity {
  /** null: no TLS */
  tls: ServerTls | null;
  authenticator: Authenticator;
}

export interface Server {
  /** `host:port` with the real port */
  readonly address: string;
  readonly port: number;
  readonly connections: number;
  /** connections that may be open at once, after the limit of descriptors was looked at */
  readonly connectionsMax: number;
  /** whether new connections are taken now: not at the limit, not after quiesce */
  readonly listening: boolean;
  /**
   * First half of a stop: no new connections, and requests from now on are answered `unavailable`.
   * Answers to earlier requests still go out.
   */
  quiesce(): void;
  /** For connections from now on; those that are open stay. */
  secure(security: WireSecurity): void;
  /**
   * Quiesces, waits for handlers and output, tells every client (ERROR `unavailable`) and closes. What
   * is not done after `drainMs` is cut. Resolves when all connections are gone.
   */
  stop(options: { drainMs: number }): Promise<void>;
}

/** Listens from now on. Throws LockdError `config` when the address cannot be had. */
export function startServer(options: ServerOptions): Server {
  const { logger, clock, timers } = options;
  const limits: ServerLimits = { ...SERVER_LIMITS, ...options.limits };
  const connections = new Set<ServerConnection>();
  /** those that are not through with HELLO, the oldest first */
  const greeting = new Set<ServerConnection>();
  let { security } = options;
  const flushes = new TurnQueue<ServerConnection>((connection) => connection.flush());
  const context: ConnectionContext = {
    hello: options.hello,
    roles: options.roles ?? ["client"],
    authenticator: () => security.authenticator,
    admitted: (connection) => greeting.delete(connection),
    messages: options.messages,
    limits,
    logger,
    trace: options.trace ?? null,
    monotonicMs: () => clock.monotonicMs(),
    flushSoon: (connection) => flushes.add(connection),
  };
  let lastId = 0;
  const connectionsMax = connectionLimit(limits.connectionsMax, readDescriptors());
  const greetingMax = greetingLimit(limits.greetingMax, connectionsMax);
  /** Not the newest: it may be somebody who knows the way in. Not one that has just come: it may be about to say so. */
  const roomToGreet = (): boolean => {
    if (greeting.size < greetingMax) return true;
    const [oldest] = greeting;
    if (oldest === undefined || (oldest.greetingMs(clock.monotonicMs()) ?? 0) < GREETING_SPARED_MS) return false;
    greeting.delete(oldest);
    oldest.terminate("too many before HELLO");
    return true;
  };
  const listener = new Listener({
    ...options.listen,
    connectionsMax,
    tls: security.tls,
    logger,
    timers,
    accept(socket, { address, host }) {
      if (!roomToGreet()) return null;
      const connection = new ServerConnection({ id: ++lastId, address, loopback: isLoopbackHost(host), socket, context });
      connections.add(connection);
      greeting.add(connection);
      connection.onClose(() => {
        connections.delete(connection);
        greeting.delete(connection);
      });
      return connection;
    },
  });
  const sweep = timers.every(SWEEP_MS, () => {
    const nowMs = clock.monotonicMs();
    for (const connection of connections) connection.check(nowMs);
  });

  const quiesce = (): void => {
    listener.stop();
    const reason = new LockdError("unavailable", "serve request: the server is stopping");
    for (const connection of connections) connection.refuseRequests(reason);
  };
  const until = async (deadlineMs: number, done: () => boolean): Promise<void> => {
    while (!done() && clock.monotonicMs() < deadlineMs) {
      await new Promise<void>((resolve) => timers.after(DRAIN_STEP_MS, resolve));
    }
  };

  return {
    address: listener.address,
    port: listener.port,
    connectionsMax,
    get connections() {
      return connections.size;
    },
    get listening() {
      return listener.listening;
    },
    quiesce,
    secure(next) {
      const before = security.tls;
      security = next;
      if (!sameTls(before, next.tls)) listener.useTls(next.tls);
    },
    async stop({ drainMs }) {
      quiesce();
      const deadlineMs = clock.monotonicMs() + drainMs;
      await until(deadlineMs, () => [...connections].every((connection) => connection.settled));
      for (const connection of connections) connection.sayGoodbye();
      await until(deadlineMs, () => connections.size === 0);
      sweep.cancel();
      for (const connection of connections) connection.terminate("stopped");
    },
  };
}

function sameTls(a: ServerTls | null, b: ServerTls | null): boolean {
  return a === b || (a !== null && b !== null && a.certificate === b.certificate && a.key === b.key && a.ca === b.ca);
}

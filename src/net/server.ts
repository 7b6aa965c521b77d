/**
 * The server of the wire protocol: a listener, its connections, one sweep over them for all that
 * depends on time, and the orderly stop. Knows no message.
 */
import type { Clock, Timers } from "../clock/clock.ts";
import { LockdError } from "../errors.ts";
import type { Logger } from "../observe/types.ts";
import type { Admission } from "../wire/hello.ts";
import type { Messages } from "../wire/registry.ts";
import type { TraceHook } from "../wire/trace.ts";
import { connectionLimit, readDescriptors } from "./descriptors.ts";
import { SERVER_LIMITS, type ServerLimits } from "./limits.ts";
import { Listener } from "./listener.ts";
import { type ConnectionContext, ServerConnection } from "./server-connection.ts";
import { TurnQueue } from "./turn-queue.ts";

const SWEEP_MS = 1_000;
/** How often a stop looks whether all is answered. */
const DRAIN_STEP_MS = 5;

export interface ServerOptions {
  listen: { host: string; port: number };
  hello: ConnectionContext["hello"];
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
  const flushes = new TurnQueue<ServerConnection>((connection) => connection.flush());
  const context: ConnectionContext = {
    hello: options.hello,
    roles: options.roles ?? ["client"],
    messages: options.messages,
    limits,
    logger,
    trace: options.trace ?? null,
    monotonicMs: () => clock.monotonicMs(),
    flushSoon: (connection) => flushes.add(connection),
  };
  let lastId = 0;
  const connectionsMax = connectionLimit(limits.connectionsMax, readDescriptors());
  const listener = new Listener({
    ...options.listen,
    connectionsMax,
    logger,
    timers,
    accept(socket, address) {
      const connection = new ServerConnection({ id: ++lastId, address, socket, context });
      connections.add(connection);
      connection.onClose(() => connections.delete(connection));
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
    async stop({ drainMs }) {
      quiesce();
      const deadlineMs = clock.monotonicMs() + drainMs;
      await until(deadlineMs, () => [...connections].every((connection) => connection.settled));
      for (const connection of connections) connection.sayGoodbye();
      await until(deadlineMs, () => connections.size === 0);
      sweep.cancel();
      for (const connection of connections) connection.terminate();
    },
  };
}

/**
 * The lock plugin inside a server process: builds engine, service, queries and watchers, registers
 * their messages, metrics and health. Assembles, decides nothing.
 */
import { describeTable } from "./describe.ts";
import { bootId } from "../../../src/clock/real.ts";
import type { StatusBody } from "../../../src/client/protocol.ts";
import type { Host, PluginInstance } from "../../../src/plugin/types.ts";
import type { MessageRegistry } from "../../../src/wire/types.ts";
import type { LockStatistics } from "../core/types.ts";
import { limitsFrom, numberOf } from "../options.ts";
import { decodeEvents, History } from "./history.ts";
import { LocalEngine } from "./local-engine.ts";
import { LockMetrics } from "./lock-metrics.ts";
import { LockQueries } from "./queries.ts";
import * as requests from "./requests.ts";
import { LockService } from "./service.ts";
import { Watchers } from "./watchers.ts";

const EVENT_STREAM = "events";

export function setupLock(host: Host): PluginInstance {
  const historyMax = numberOf(host.config, "history-max");
  const history = new History(historyMax);
  const engine = new LocalEngine({
    namespace: host.namespace,
    clock: host.clock,
    timers: host.timers,
    logger: host.logger,
    limits: limitsFrom(host.config),
    // a boot that cannot be told apart counts as a new one: leases start anew, none is shortened
    bootId: bootId() ?? Buffer.from(host.random(16)).toString("hex"),
    historyMax,
    fail: (error) => host.fail(error),
  });
  const isFree = (object: string): boolean => engine.peek((table, at) => table.isFree(object, at.nowMs));
  const watchers = new Watchers({ timers: host.timers, isFree });
  const startedMs = host.clock.monotonicMs();
  const statistics = (): LockStatistics => engine.peek((table) => table.statistics());
  const status = (): StatusBody => ({
    name: host.nodeName,
    mode: host.mode,
    version: host.software,
    ...readiness(engine),
    cluster: {
      id: host.store.directoryId,
      size: 1,
      quorum: 1,
      members: [{ name: host.nodeName, address: host.listenAddress(), role: "leader", connected: true, version: host.software, lag: 0 }],
    },
    leaders: [host.nodeName],
    epoch: 0,
    term: 0,
    commit: host.store.stats().commits,
    applied: host.store.stats().commits,
    uptime: Math.round(host.clock.monotonicMs() - startedMs),
    ...ticketCounts(statistics()),
  });
  const queries = new LockQueries({ engine, history, watchers, status });
  const metrics = new LockMetrics(host.metrics, statistics);
  const service = new LockService({
    engine,
    metrics,
    random: (count) => host.random(count),
    onEvents: (events) => queries.added(events),
  });

  host.health.add("ready", "lock", () => {
    const { ready, reason } = engine.status();
    return ready ? { ok: true } : { ok: false, reason: reason ?? "the lock service is not ready" };
  });
  registerMessages(host.messages, service, queries);

  return {
    async start(): Promise<void> {
      let nextEventId = 1;
      for (const chunk of host.namespace.stream(EVENT_STREAM)) {
        for (const event of decodeEvents(chunk.data)) history.add(event);
        nextEventId = Math.max(nextEventId, chunk.lastId + 1);
      }
      history.startAt(Math.max(history.nextId, nextEventId));
      await engine.start(service);
      const { held, waiting, lastToken } = statistics();
      host.logger.info("lock-recovered", { held, waiting, lastToken });
    },
    async stop(): Promise<void> {
      watchers.stop();
      await engine.stop();
    },
    describe: (detail) => engine.peek((table, at) => describeTable(table, at.nowMs, detail)),
  };
}

function readiness(engine: LocalEngine): { ready: boolean; reason: string | null; readyIn: number | null } {
  const { ready, reason, readyInMs } = engine.status();
  return { ready, reason, readyIn: readyInMs };
}

const ticketCounts = ({ held, waiting }: LockStatistics): { tickets: number; waiting: number } => ({ tickets: held + waiting, waiting });

function registerMessages(messages: MessageRegistry, service: LockService, queries: LockQueries): void {
  messages.on("SESSION", requests.parseSession, (connection, id, body) => service.session(connection, id, body));
  messages.on("GOODBYE", requests.parseNothing, (connection, id) => service.goodbye(connection, id));
  messages.on("LOCK", requests.parseLock, (connection, id, body) => service.lock(connection, id, body));
  messages.on("RENEW", requests.parseRenew, (connection, id, body) => service.renew(connection, id, body));
  messages.on("UNLOCK", requests.parseUnlock, (connection, id, body) => service.unlock(connection, id, body));
  messages.on("RELEASE", requests.parseRelease, (connection, id, body) => service.release(connection, id, body));
  messages.on("KICK", requests.parseKick, (connection, id, body) => service.kick(connection, id, body));
  messages.on("LISTTICKETS", requests.parseList, (connection, id, body) => queries.list(connection, id, body));
  messages.on("WHY", requests.parseWhy, (connection, id, body) => queries.why(connection, id, body));
  messages.on("EVENTS", requests.parseEvents, (connection, id, body) => queries.events(connection, id, body));
  messages.on("SESSIONS", requests.parseSessions, (connection, id, body) => queries.sessions(connection, id, body));
  messages.on("WAITFREE", requests.parseWaitFree, (connection, id, body) => queries.waitFree(connection, id, body));
  messages.on("LOCKSTATUS", requests.parseNothing, (connection, id) => queries.lockStatus(connection, id));
  messages.on("STATUS", requests.parseNothing, (connection, id) => queries.status(connection, id));
}

/**
 * The lock plugin inside a server process: builds engine, service, queries and watchers, registers
 * their messages, metrics and health. Assembles, decides nothing.
 */
import { describeTable } from "./describe.ts";
import { bootId } from "../../../src/clock/real.ts";
import type { StatusBody } from "../../../src/client/protocol.ts";
import type { Host, PluginInstance } from "../../../src/plugin/types.ts";
import type { BodyParser, Connection, MessageRegistry } from "../../../src/wire/types.ts";
import type { LockTable } from "../core/table.ts";
import type { LockStatistics } from "../core/types.ts";
import type { LockEngine } from "../engine.ts";
import { limitsFrom, numberOf } from "../options.ts";
import { decodeEvents, EVENT_STREAM, History } from "./history.ts";
import { LocalEngine } from "./local-engine.ts";
import { LocksForPlugins, type LocksService } from "./locks-service.ts";
import { LockMetrics } from "./lock-metrics.ts";
import { Permissions } from "./permissions.ts";
import { LockQueries } from "./queries.ts";
import * as requests from "./requests.ts";
import { LockService } from "./service.ts";
import { type Freedom, Watchers } from "./watchers.ts";

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
  const permissions = new Permissions(host.access);
  const watchers = new Watchers({
    timers: host.timers,
    sees: (connection, object) => permissions.sees(connection, object),
    look: (object, found) => engine.read((table, at) => freedomOf(table, object, at.nowMs), found),
  });
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
  const queries = new LockQueries({ engine, history, watchers, permissions, status });
  const forPlugins = new LocksForPlugins({ engine, history, logger: host.logger });
  host.provide<LocksService>(forPlugins);
  const metrics = new LockMetrics(host.metrics, statistics);
  const service = new LockService({
    engine,
    metrics,
    clock: host.clock,
    timers: host.timers,
    random: (count) => host.random(count),
    onEvents: (events) => {
      queries.added(events);
      forPlugins.notify(events);
    },
  });

  host.health.add("ready", "lock", () => {
    const { ready, reason } = engine.status();
    return ready ? { ok: true } : { ok: false, reason: reason ?? "the lock service is not ready" };
  });
  registerMessages(host.messages, { engine, service, queries, permissions });

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

function freedomOf(table: LockTable, object: string, nowMs: number): Freedom {
  const endMs = table.delayEndMs(object);
  return { free: table.isFree(object, nowMs), delayLeftMs: endMs === null ? null : endMs - nowMs };
}

/** Registers what this service serves to whom, with the back-pressure of the engine. */
export function registerMessages(
  messages: MessageRegistry,
  { engine, service, queries, permissions }: { engine: LockEngine; service: LockService; queries: LockQueries; permissions: Permissions },
): void {
  const serve = <T>(type: string, parse: BodyParser<T>, handle: (connection: Connection, id: number, body: T) => void): void => {
    messages.on(type, parse, (connection, id, body) => {
      const room = engine.room();
      handle(connection, id, body);
      return room;
    });
  };
  /** A question that wants no answer is none. */
  const look = <T>(type: string, parse: BodyParser<T>, handle: (connection: Connection, id: number, body: T) => void): void =>
    serve(type, parse, (connection, id, body) => {
      if (id !== 0) handle(connection, id, body);
    });
  serve("SESSION", requests.parseSession, (connection, id, body) => service.session(connection, id, body));
  serve("GOODBYE", requests.parseNothing, (connection, id) => service.goodbye(connection, id));
  serve("LOCK", requests.parseLock, (connection, id, body) => {
    const refusal = permissions.refusesLock(connection, body.spec.objects);
    if (refusal === null) service.lock(connection, id, body);
    else service.refuseLock(connection, id, { request: body.request, refusal });
  });
  serve("RENEW", requests.parseRenew, (connection, id, body) => service.renew(connection, id, body));
  serve("UNLOCK", requests.parseUnlock, (connection, id, body) => service.unlock(connection, id, body));
  serve("RELEASE", requests.parseRelease, (connection, id, body) => {
    permissions.mustForce(connection, body.object);
    service.release(connection, id, body);
  });
  serve("KICK", requests.parseKick, (connection, id, body) => {
    permissions.mustForceAll(connection);
    service.kick(connection, id, body);
  });
  look("LISTTICKETS", requests.parseList, (connection, id, body) => queries.list(connection, id, body));
  look("WHY", requests.parseWhy, (connection, id, body) => {
    permissions.mustSee(connection, body.object);
    queries.why(connection, id, body);
  });
  look("EVENTS", requests.parseEvents, (connection, id, body) => queries.events(connection, id, body));
  look("UNFOLLOW", requests.parseUnfollow, (connection, id, body) => queries.unfollow(connection, id, body));
  look("SESSIONS", requests.parseSessions, (connection, id, body) => {
    permissions.mustSeeAll(connection);
    queries.sessions(connection, id, body);
  });
  look("WAITFREE", requests.parseWaitFree, (connection, id, body) => {
    permissions.mustSeeFreedom(connection, body.object);
    queries.waitFree(connection, id, body);
  });
  look("LOCKSTATUS", requests.parseNothing, (connection, id) => queries.lockStatus(connection, id));
  look("STATUS", requests.parseNothing, (connection, id) => queries.status(connection, id));
}

/**
 * The whole lock server but its sockets: real registry, service, queries and watchers over a real
 * engine; frames go in by `ask` and come out at fake connections.
 */
import { registerMessages } from "../../../plugins/lock/server/instance.ts";
import { History } from "../../../plugins/lock/server/history.ts";
import { Permissions } from "../../../plugins/lock/server/permissions.ts";
import { LockQueries } from "../../../plugins/lock/server/queries.ts";
import { LockService } from "../../../plugins/lock/server/service.ts";
import { Watchers } from "../../../plugins/lock/server/watchers.ts";
import { Messages } from "../../../src/wire/registry.ts";
import type { Body } from "../../../src/wire/types.ts";
import { type EngineOptions, type EngineWorld, engineWorld, FakeConnection, FakeNamespace, fakeMetrics, turn } from "./kit.ts";

export interface ServiceWorld extends Omit<EngineWorld, "lock"> {
  messages: Messages;
  /** sends a request; its id */
  ask(connection: FakeConnection, type: string, body?: Body, id?: number): number;
  /** a connection with this session open and nothing left to read */
  join(name: string, generation?: number): Promise<FakeConnection>;
  lock(connection: FakeConnection, request: string, body?: Body): number;
}

/** 22 characters of base64url for a short name. */
export const idOf = (name: string): string => name.padEnd(22, "_");
export const secretOf = (name: string): Uint8Array => new TextEncoder().encode(`the secret of ${name}`.padEnd(32, "."));
export const sessionBody = (name: string, generation = 1): Body => ({ session: idOf(name), secret: secretOf(name), generation, grace: 5_000 });

/** A server that is ready. With `immediate` (the default) everything is durable at once. */
export async function serviceWorld(options: EngineOptions & { immediate?: boolean } = {}): Promise<ServiceWorld> {
  const { immediate = true, ...engineOptions } = options;
  const namespace = engineOptions.namespace ?? new FakeNamespace({ immediate });
  const world = engineWorld({ ...engineOptions, namespace });
  const { engine, clock, logger } = world;
  const history = new History(engineOptions.historyMax ?? 1000);
  const permissions = new Permissions({ allows: () => true, allowsAll: () => true, prefixes: (_principal, _action, within) => [within] });
  const watchers = new Watchers({
    timers: clock,
    sees: (connection, object) => permissions.sees(connection, object),
    look: (object, found) =>
      engine.read((table, at) => {
        const endMs = table.delayEndMs(object);
        return { free: table.isFree(object, at.nowMs), delayLeftMs: endMs === null ? null : endMs - at.nowMs };
      }, found),
  });
  const queries = new LockQueries({ engine, history, watchers, permissions, status: () => { throw new Error("not asked for"); } });
  let drawn = 0;
  const service = new LockService({
    engine,
    metrics: fakeMetrics(),
    clock,
    timers: clock,
    random: (count) => new Uint8Array(count).map(() => Math.imul(++drawn, 0x9e3779b1) >>> 24),
    onEvents: (events) => queries.added(events),
  });
  const messages = new Messages(logger);
  registerMessages(messages.registryFor("lock"), { engine, service, queries, permissions });
  await engine.start(service);
  let ids = 0;
  const ask: ServiceWorld["ask"] = (connection, type, body = {}, id = ++ids) => {
    void messages.dispatch(connection, { type, id, body });
    return id;
  };
  return {
    ...world,
    messages,
    ask,
    lock: (connection, request, body = {}) => ask(connection, "LOCK", { request, objects: ["x"], ...body }),
    async join(name, generation = 1) {
      const connection = new FakeConnection({ name });
      ask(connection, "SESSION", sessionBody(name, generation));
      await turn();
      await namespace.landAll();
      connection.take();
      return connection;
    },
  };
}

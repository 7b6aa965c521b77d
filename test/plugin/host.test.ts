import { beforeEach, describe, expect, test } from "bun:test";
import { FakeClock } from "../../src/clock/fake.ts";
import type { Config } from "../../src/config/types.ts";
import { LockdError } from "../../src/errors.ts";
import { HealthChecks } from "../../src/observe/health.ts";
import { HttpRouter } from "../../src/observe/http-router.ts";
import type { LogLine } from "../../src/observe/log-format.ts";
import { loggerInto } from "../../src/observe/logging.ts";
import { MetricsRegistry } from "../../src/observe/metrics.ts";
import { PluginHost } from "../../src/plugin/host.ts";
import type { Host, Plugin, PluginInstance } from "../../src/plugin/types.ts";
import type { Namespace, Store } from "../../src/store/types.ts";
import { Messages } from "../../src/wire/registry.ts";

const emptyConfig: Config = { file: null, core: new Map(), sections: new Map() };
const clock = new FakeClock();
let lines: LogLine[] = [];
let calls: string[] = [];
let failures: LockdError[] = [];
beforeEach(() => {
  lines = [];
  calls = [];
  failures = [];
});

function namespaceNamed(name: string): Namespace {
  return {
    records: () => [[name, new Uint8Array()]],
    stream: () => [],
    commit: () => Promise.resolve(),
  };
}

const store: Store = {
  path: "/nowhere",
  directoryId: "00ff",
  namespace: (name) => {
    calls.push(`namespace ${name}`);
    return namespaceNamed(name);
  },
  stats: () => ({ commits: 0, batches: 0, bytes: 0, lastCommitMs: 0, walBytes: 0 }),
  failed: new Promise(() => {}),
  close: () => Promise.resolve(),
};

function makeHost(plugins: Plugin[], config: Config = emptyConfig, paths: ReadonlyMap<string, string> = new Map()): PluginHost {
  const { logger } = loggerInto((line) => lines.push(line), "info");
  const messages = new Messages(logger);
  return new PluginHost(plugins, {
    paths,
    mode: "serve",
    nodeName: "n1",
    software: "1.2.3",
    listenAddress: () => "127.0.0.1:4050",
    access: { allows: () => true, allowsAll: () => true, prefixes: (_principal, _action, within) => [within] },
    config,
    logger,
    clock,
    timers: clock,
    store: () => store,
    messages: (plugin) => messages.registryFor(plugin),
    metrics: new MetricsRegistry(),
    health: new HealthChecks(),
    http: new HttpRouter(logger),
    fail: (error) => failures.push(error),
  });
}

/** A plugin that writes down what is called, and does besides what the test wants. */
function noting(name: string, more: { plugins?: string[]; setup?: (host: Host) => PluginInstance | void } = {}): Plugin {
  return {
    name,
    version: "1.0.0",
    requires: { lockd: "^1", plugins: more.plugins ?? [] },
    setup: (host) => {
      calls.push(`setup ${name}`);
      return {
        start: () => void calls.push(`start ${name}`),
        stop: () => void calls.push(`stop ${name}`),
        describe: (detail) => [`${name} ${detail}`],
        ...more.setup?.(host),
      };
    },
  };
}

const rejection = async (work: Promise<unknown>): Promise<LockdError> => {
  try {
    await work;
  } catch (error) {
    if (error instanceof LockdError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
};

describe("the life of plugins", () => {
  test("is set-up and start in the order of dependencies, and stop in reverse", async () => {
    const host = makeHost([noting("b", { plugins: ["a"] }), noting("a"), { name: "commands-only", version: "1.0.0", requires: { lockd: "^1" } }]);
    await host.setup();
    await host.start();
    expect(await host.stop(1000)).toEqual([]);
    expect(calls).toEqual(["setup a", "setup b", "start a", "start b", "stop b", "stop a"]);
    expect(await host.stop(1000)).toEqual([]);
    expect(calls).toHaveLength(6);
  });

  test("waits for each promise before the next step", async () => {
    const slow = (name: string): Plugin => ({
      ...noting(name),
      setup: async () => {
        await Promise.resolve();
        calls.push(`setup ${name}`);
        return { start: async () => { await Promise.resolve(); calls.push(`start ${name}`); }, stop: async () => { await Promise.resolve(); calls.push(`stop ${name}`); } };
      },
    });
    const host = makeHost([slow("a"), slow("b")]);
    await host.setup();
    await host.start();
    await host.stop(1000);
    expect(calls).toEqual(["setup a", "setup b", "start a", "start b", "stop b", "stop a"]);
  });

  test("a throw in setup is a configuration error that names the plugin; what was set up is stopped", async () => {
    const cause = new TypeError("no such thing");
    const host = makeHost([noting("a"), noting("b", { setup: () => { throw cause; } }), noting("c")]);
    expect(await rejection(host.setup())).toMatchObject({ code: "config", message: "set up plugin b: no such thing", cause });
    await host.stop(1000);
    expect(calls).toEqual(["setup a", "setup b", "stop a"]);
  });

  test("a failed start names the plugin and keeps code and hint; all that were set up are stopped, the failed one too", async () => {
    const cause = new LockdError("corrupt", "read log: bad frame", { hint: "restore a backup", retryable: true });
    const host = makeHost([noting("a"), noting("b", { setup: () => ({ start: () => { throw cause; } }) }), noting("c")]);
    await host.setup();
    expect(await rejection(host.start())).toMatchObject({
      code: "corrupt",
      message: "start plugin b: read log: bad frame",
      hint: "restore a backup",
      retryable: true,
      cause,
    });
    await host.stop(1000);
    expect(calls).toEqual(["setup a", "setup b", "setup c", "start a", "stop c", "stop b", "stop a"]);
  });

  test("a stop that fails does not keep the others from theirs", async () => {
    const host = makeHost([noting("a"), noting("b", { setup: () => ({ stop: () => Promise.reject(new Error("cannot hand over")) }) })]);
    await host.setup();
    expect(await host.stop(1000)).toMatchObject([{ code: "failed", message: "stop plugin b: cannot hand over" }]);
    expect(calls.at(-1)).toBe("stop a");
  });

  test("a stop that hangs is left behind after its limit, and its later failure is logged", async () => {
    const late = Promise.withResolvers<void>();
    const host = makeHost([noting("a"), noting("b", { setup: () => ({ stop: () => late.promise }) })]);
    await host.setup();
    const stopped = host.stop(1000);
    await clock.advanceAsync(999);
    expect(calls).not.toContain("stop a");
    await clock.advanceAsync(1);
    expect(await stopped).toMatchObject([{ message: "stop plugin b: it did not stop within 1000 ms" }]);
    expect(calls.at(-1)).toBe("stop a");
    expect(clock.pending).toBe(0);
    late.reject(new Error("too late"));
    await clock.advanceAsync(0);
    expect(lines).toMatchObject([{ level: "error", fields: { plugin: "b", error: "too late" } }]);
  });

  test("a setup that does not end is given up after its limit, as a configuration error, and its later failure is logged", async () => {
    const late = Promise.withResolvers<PluginInstance>();
    const host = makeHost([noting("a"), { ...noting("b"), setup: () => late.promise }, noting("c")]);
    const ended = rejection(host.setup());
    await clock.advanceAsync(9_999);
    expect(await Promise.race([ended, Promise.resolve("pending")])).toBe("pending");
    await clock.advanceAsync(1);
    expect(await ended).toMatchObject({ code: "config", message: "set up plugin b: it did not end within 10000 ms" });
    await host.stop(1000);
    expect(calls).toEqual(["setup a", "stop a"]);
    late.reject(new Error("too late"));
    await clock.advanceAsync(0);
    expect(lines).toMatchObject([{ level: "error", msg: "plugin-set-up-failed", fields: { plugin: "b", error: "too late" } }]);
    expect(clock.pending).toBe(0);
  });

  test("a start may take its time, and tells every ten seconds for whom the others wait", async () => {
    const done = Promise.withResolvers<void>();
    const host = makeHost([noting("a", { setup: () => ({ start: () => done.promise }) })]);
    await host.setup();
    const started = host.start();
    await clock.advanceAsync(25_000);
    expect(lines).toMatchObject([{ level: "warn", msg: "plugin-start-slow", fields: { plugin: "a" } }, { msg: "plugin-start-slow" }]);
    done.resolve();
    await started;
    expect(clock.pending).toBe(0);
  });

  test("errors of an external plugin name its path, and its failed start is a configuration error", async () => {
    const paths = new Map([["b", "/etc/b.ts"]]);
    const failing = (part: PluginInstance): Plugin => noting("b", { setup: () => part });
    const broken = makeHost([{ ...noting("b"), setup: () => { throw new Error("no luck"); } }], emptyConfig, paths);
    expect(await rejection(broken.setup())).toMatchObject({ code: "config", message: "set up plugin b (/etc/b.ts): no luck" });
    const late = makeHost([failing({ start: () => { throw new Error("no luck"); }, stop: () => { throw new Error("nor this"); } })], emptyConfig, paths);
    await late.setup();
    expect(await rejection(late.start())).toMatchObject({ code: "config", message: "start plugin b (/etc/b.ts): no luck" });
    expect(await late.stop(1000)).toMatchObject([{ message: "stop plugin b (/etc/b.ts): nor this" }]);
  });

  test("plugins describe their state; one that throws says so", async () => {
    const host = makeHost([noting("a"), noting("b", { setup: () => ({ describe: () => { throw new Error("odd"); } }) })]);
    await host.setup();
    expect(host.describe("full")).toEqual([
      { plugin: "a", lines: ["a full"] },
      { plugin: "b", lines: ["describing its state failed: odd"] },
    ]);
  });
});

describe("the host of a plugin", () => {
  async function hostOf(plugin: Plugin, config?: Config): Promise<Host> {
    const got = Promise.withResolvers<Host>();
    await makeHost([{ ...plugin, setup: (host) => (got.resolve(host), {}) }], config).setup();
    return got.promise;
  }

  test("tells what the server is, and names the plugin in its log lines", async () => {
    const host = await hostOf(noting("a"));
    expect(host).toMatchObject({ mode: "serve", nodeName: "n1", software: "1.2.3", config: {} });
    expect(host.listenAddress()).toBe("127.0.0.1:4050");
    expect(host.store.directoryId).toBe("00ff");
    host.logger.info("hello");
    expect(lines).toMatchObject([{ msg: "hello", fields: { plugin: "a" } }]);
    expect(host.random(16)).toHaveLength(16);
    expect(host.random(16)).not.toEqual(host.random(16));
  });

  test("opens its namespace of the store when it is first used, once", async () => {
    const host = await hostOf(noting("a"));
    expect(calls).toEqual([]);
    const namespace = host.namespace;
    expect([...namespace.records()][0]?.[0]).toBe("a");
    expect(host.namespace).toBe(namespace);
    expect(calls).toEqual(["namespace a"]);
  });

  test("has the plugin's own section, which it cannot change", async () => {
    const section = new Map([["max", { value: 7, origin: { kind: "default" as const } }], ["foreign", { value: 1, origin: { kind: "default" as const } }]]);
    const config: Config = { ...emptyConfig, sections: new Map([["a", section], ["b", new Map()]]) };
    const plugin: Plugin = { ...noting("a"), config: [{ name: "max", type: "integer", min: 1, max: 9, help: "m" }] };
    const host = await hostOf(plugin, config);
    expect(host.config).toEqual({ max: 7 });
    expect(Object.isFrozen(host.config)).toBe(true);
  });

  test("ends the server with an error that names the plugin", async () => {
    const host = await hostOf(noting("a"));
    host.fail(new LockdError("overflow", "write log: disk full", { hint: "make room" }));
    host.fail(new Error("odd"));
    expect(failures).toMatchObject([
      { code: "overflow", message: "run plugin a: write log: disk full", hint: "make room" },
      { code: "failed", message: "run plugin a: odd" },
    ]);
  });
});

describe("what two plugins both want is a configuration error that names both", () => {
  test.each<[string, (host: Host) => void, RegExp]>([
    ["a message", (host) => host.messages.on("LOCK", (body) => body, () => {}), /LOCK.*\bb\b.*\ba\b/],
    ["a route", (host) => host.http.route("GET", "/x", () => new Response()), /GET \/x.*\bb\b.*\ba\b/],
    ["a health check", (host) => host.health.add("ready", "engine", () => ({ ok: true })), /engine.*\bb\b.*\ba\b/],
  ])("%s", async (_, take, message) => {
    const host = makeHost([noting("a", { setup: take }), noting("b", { setup: take })]);
    const error = await rejection(host.setup());
    expect(error.code).toBe("config");
    expect(error.message).toMatch(message);
  });
});

describe("services", () => {
  interface Table {
    size(): number;
  }

  test("of a required plugin can be used", async () => {
    let size = 0;
    const provider = noting("lock", { setup: (host) => host.provide<Table>({ size: () => 42 }) });
    const user = noting("sync", { plugins: ["lock"], setup: (host) => void (size = host.use<Table>("lock").size()) });
    await makeHost([user, provider]).setup();
    expect(size).toBe(42);
  });

  test.each<[string, Plugin[], string]>([
    ["of a plugin that is not required", [noting("lock", { setup: (host) => host.provide({}) }), noting("sync", { setup: (host) => void host.use("lock") })], "does not name it in requires.plugins"],
    ["that nobody provides", [noting("lock"), noting("sync", { plugins: ["lock"], setup: (host) => void host.use("lock") })], "it provides none, and plugin sync needs it"],
    ["provided twice", [noting("lock", { setup: (host) => (host.provide({}), host.provide({})) })], "it provides one already"],
  ])("%s are a configuration error", async (_, plugins, message) => {
    const error = await rejection(makeHost(plugins).setup());
    expect(error.code).toBe("config");
    expect(error.message).toContain(message);
  });
});

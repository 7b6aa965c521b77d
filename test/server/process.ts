/**
 * A small server program for the tests of run.ts: reads its case from the environment, runs runServer
 * with plugins of that case and ends with its code, errors printed as the command line prints them.
 */
import type { Config, ConfigValue } from "../../src/config/types.ts";
import { asLockdError } from "../../src/errors.ts";
import { definePlugin, type Plugin } from "../../src/plugin/types.ts";
import { runServer } from "../../src/server/run.ts";

const settings: Record<string, ConfigValue["value"]> = JSON.parse(process.env["TEST_SETTINGS"] ?? "{}");

/** With TEST_LEVEL_FILE the log level comes from that file, as from a configuration file. */
async function loadConfig(): Promise<Config> {
  const file = process.env["TEST_LEVEL_FILE"] ?? null;
  const values: Record<string, ConfigValue["value"]> = { ...settings };
  if (file !== null) {
    const text = (await Bun.file(file).text()).trim();
    if (text === "bad") throw asLockdError(new Error("read configuration: bad"));
    values["log-level"] = text;
  }
  if (process.env["TEST_RENAME"] === "1") values["name"] = `${String(values["name"])}-${Date.now()}`;
  const core = Object.entries(values).map(([name, value]): [string, ConfigValue] => [name, { value, origin: { kind: "default" } }]);
  return { file, core: new Map(core), sections: new Map() };
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);

const cases: Record<string, () => Plugin[]> = {
  plain: () => [quiet("first"), quiet("second")],
  halfStart: () => [
    quiet("first"),
    definePlugin({ ...head("second"), setup: () => ({ start: () => Promise.reject(new Error("no room")), stop: () => say("second stopped") }) }),
    quiet("third"),
  ],
  setupThrows: () => [
    quiet("first"),
    definePlugin({ ...head("second"), setup: () => { throw new Error("bad wiring"); } }),
  ],
  slowStart: () => [
    quiet("first"),
    definePlugin({ ...head("second"), setup: () => ({ start: async () => { say("starting slowly"); await Bun.sleep(300); }, stop: () => say("second stopped") }) }),
    definePlugin({ ...head("third"), setup: () => ({ start: () => say("third started"), stop: () => say("third stopped") }) }),
  ],
  hangingStop: () => [definePlugin({ ...head("first"), setup: () => ({ stop: () => { say("hanging"); return new Promise(() => {}); } }) })],
  failingStop: () => [quiet("first"), definePlugin({ ...head("second"), setup: () => ({ stop: () => { throw new Error("cannot hand over"); } }) })],
  fails: () => [
    quiet("first"),
    definePlugin({ ...head("second"), setup: (host) => ({ start: () => void host.timers.after(50, () => host.fail(new Error("the quorum is gone"))) }) }),
  ],
  throwsLater: () => [
    definePlugin({ ...head("first"), setup: (host) => ({
      start: () => void host.timers.after(50, () => { throw new Error("a defect"); }),
      stop: () => say("first stopped"),
    }) }),
  ],
  rejectsLater: () => [
    definePlugin({ ...head("first"), setup: (host) => ({
      start: () => void host.timers.after(50, () => void Promise.reject(new Error("a lost promise"))),
      stop: () => say("first stopped"),
    }) }),
  ],
  commits: () => [
    definePlugin({ ...head("first"), setup: (host) => ({
      start: () => {
        for (const [key, value] of host.namespace.records()) say(`found ${key}, ${value.length} bytes`);
      },
      stop: () => void host.namespace.commit({ changes: [{ key: "last", value: new Uint8Array(5_000_000) }] }),
    }) }),
  ],
  unhealthy: () => [
    definePlugin({ ...head("first"), setup: (host) => {
      host.health.add("live", "engine", () => ({ ok: false, reason: "it is stuck" }));
      return {};
    } }),
  ],
  routes: () => [
    definePlugin({ ...head("first"), setup: (host) => {
      host.http.route("GET", "/first/events", () => new Response(new ReadableStream({ start: (stream) => stream.enqueue("data: 1\n\n") }), { headers: { "content-type": "text/event-stream" } }));
      host.messages.on("FIRST", (body) => body, (connection, id) => connection.send("FIRSTED", id, { listen: host.listenAddress() }));
      return { describe: (detail) => [`detail ${detail}`, "two\nlines"] };
    } }),
  ],
};

function head(name: string): Pick<Plugin, "name" | "version" | "requires"> {
  return { name, version: "1.0.0", requires: { lockd: "^1" } };
}

function quiet(name: string): Plugin {
  return definePlugin({
    ...head(name),
    setup: () => {
      say(`${name} set up`);
      return { start: () => say(`${name} started`), stop: () => say(`${name} stopped`), describe: (detail) => [`${name} ${detail}`] };
    },
  });
}

const plugins = cases[process.env["TEST_CASE"] ?? "plain"];
if (plugins === undefined) throw new Error("TEST_CASE names a case");
try {
  process.exit(await runServer({ mode: "serve", plugins: plugins(), config: await loadConfig(), software: "0.0.1", environment: process.env, loadConfig }));
} catch (thrown) {
  const error = asLockdError(thrown);
  process.stderr.write(`lockd: ${error.message}\n${error.hint === undefined ? "" : `  ${error.hint}\n`}`);
  process.exit(error.exitCode);
}

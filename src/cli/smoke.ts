/**
 * Proof that an executable is whole: every worker starts and every module of every command loads. A
 * build may exit 0 and lack one of them. Run by the build, and by whoever doubts a binary.
 */
import { coreOptions } from "../config/core-options.ts";
import { LockdError } from "../errors.ts";
import type { Plugin } from "../plugin/types.ts";
import { startWorker } from "../store/start-worker.ts";
import { commandFlags } from "./command-tree.ts";
import { coreCommands } from "./core-commands.ts";
import { type BundledPlugin, PluginCatalog } from "./plugin-catalog.ts";
import type { CommandSpec } from "./types.ts";

/** The runtime has no event for "its code ran": a worker that has not failed by then has started. */
const WORKER_GRACE_MS = 200;

/** Loads and starts everything; returns the line to print, or throws what failed. */
export async function smokeRun(parts: {
  software: string;
  plugins: readonly BundledPlugin[];
  workers: readonly string[];
}): Promise<string> {
  const catalog = new PluginCatalog(parts.plugins);
  const options = coreOptions(process.env);
  let commands = 0;
  // their code is loaded here and not run, so nobody asks for these
  const unasked = () => Promise.reject(new LockdError("failed", "run a command: this is only a smoke run"));
  for (const spec of coreCommands({ catalog, coreOptions: options, commands: unasked, readOptions: unasked })) commands += await loadCommand(spec, spec.name, null);
  for (const { plugin } of await catalog.all()) {
    for (const spec of plugin.commands ?? []) commands += await loadCommand(spec, spec.name, plugin);
  }
  await Promise.all(parts.workers.map(startOnce));
  return `lockd ${parts.software} ok: ${commands} commands, ${parts.workers.length} workers`;

  async function loadCommand(spec: CommandSpec, path: string, plugin: Plugin | null): Promise<number> {
    let count = 0;
    if (spec.load !== undefined) {
      commandFlags({ spec, path, words: [], plugin }, options);
      await spec.load();
      count += 1;
    }
    for (const sub of spec.subcommands ?? []) count += await loadCommand(sub, `${path} ${sub.name}`, plugin);
    return count;
  }
}

/** Resolves when the worker has run for a moment without failing. */
function startOnce(path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const worker = startWorker(path);
    const started = setTimeout(() => {
      worker.removeEventListener("close", onClose);
      worker.terminate();
      resolve();
    }, WORKER_GRACE_MS);
    const fail = (reason: string): void => {
      clearTimeout(started);
      reject(new LockdError("failed", `start worker ${path}: ${reason}`));
    };
    const onClose = (): void => fail("it ended at once");
    worker.addEventListener("error", (event) => fail(event.message));
    worker.addEventListener("close", onClose);
  });
}

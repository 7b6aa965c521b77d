/**
 * The literal list of what is in this executable: plugins and their commands. The bundler sees only
 * imports by literal paths, so a new plugin is a new entry here and nowhere else.
 */
import type { BundledPlugin } from "../src/cli/plugin-catalog.ts";

export const bundledPlugins: readonly BundledPlugin[] = [
  {
    name: "lock",
    commandNames: ["serve", "demo", "exec", "lock", "elect", "leader", "unlock", "renew", "wait", "list", "why", "release", "status", "events", "sessions", "kick"],
    load: async () => (await import("../plugins/lock/index.ts")).lockPlugin,
  },
];

/** Entries of their own in the build; all files that end in `.worker.ts`. */
export const workers: readonly string[] = ["src/store/writer.worker.ts"];

/** The lock plugin: `lockd serve`, and the commands that use a lock service. */
import { definePlugin } from "../../src/plugin/types.ts";
import { demoCommand, lockCommand, otherCommands, serveCommand } from "./command-specs.ts";
import { electCommand, leaderCommand } from "./election-specs.ts";
import { execCommand } from "./exec/spec.ts";
import { lockOptions } from "./options.ts";

export const lockPlugin = definePlugin({
  name: "lock",
  version: "0.1.0",
  requires: { lockd: "^1" },
  config: lockOptions,
  commands: [serveCommand, demoCommand, execCommand, lockCommand, electCommand, leaderCommand, ...otherCommands],
  async setup(host) {
    const { setupLock } = await import("./server/instance.ts");
    return setupLock(host);
  },
});

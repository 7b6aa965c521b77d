/**
 * A worked plugin, to read from top to bottom and to start from: it counts for each object how often it was
 * locked, how long, and how often the lock was lost instead of given back.
 *
 *     lockd serve --plugin examples/plugins/audit
 *     lockd audit --plugin examples/plugins/audit
 *
 * This file only declares what the plugin brings. lockd reads it for `--help` and for every command of the
 * plugin, so it stays light: the code of the server and of the command are files of their own, loaded when
 * they run. A plugin of one file is fine, too.
 */
import { clientOptions, definePlugin } from "lockd:api";

export default definePlugin({
  name: "audit",
  version: "1.0.0",
  requires: {
    // the versions of the plugin interface that it works with
    lockd: "^1",
    // set up before this one, so that its service is there
    plugins: ["lock"],
  },

  // One declaration makes the flag --audit-objects-max of the commands that name it, the variable
  // LOCKD_AUDIT_OBJECTS_MAX, the key audit-objects-max in the section [audit] of the configuration file,
  // their validation, and their lines in help and `lockd config show`.
  config: [
    {
      name: "audit-objects-max",
      type: "integer",
      min: 1,
      max: 1_000_000,
      default: 10_000,
      help: "objects that are counted; later ones are left out",
    },
  ],

  commands: [
    {
      name: "audit",
      group: "Looking and intervening",
      summary: "show how often and how long objects were locked",
      positionals: [{ name: "PREFIX", help: "only objects whose names start with it", arity: "optional" }],
      flags: [{ name: "lost", short: "l", type: "boolean", default: false, help: "only objects whose lock was lost at least once" }],
      // --connect and the credentials, for context.connect()
      options: [...clientOptions, "json"],
      examples: [["lockd audit backup/ --json", "one JSON object an object"]],
      load: () => import("./command.ts"),
    },
  ],

  async setup(host) {
    const { setupAudit } = await import("./server.ts");
    return setupAudit(host);
  },
});

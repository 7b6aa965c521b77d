/** `lockd store …`: declarations only, their code is loaded when they run. */
import type { CommandSpec } from "../cli/types.ts";

export const storeCommands: CommandSpec = {
  name: "store",
  group: "Configuration and data",
  summary: "check, back up or restore a data directory",
  description:
    "Works on the directory itself, without a server. check and backup may run beside a server that\n" +
    "uses it; restore wants an empty directory.",
  subcommands: [
    {
      name: "check",
      summary: "verify every checksum and the structure of the database; changes nothing",
      options: ["data", "json"],
      examples: [["lockd store check --data /var/lib/lockd", "exit code 65 and one line that names what was altered"]],
      load: async () => (await import("./command-check.ts")).storeCheck,
    },
    {
      name: "backup",
      summary: "write one consistent, checked copy into FILE",
      positionals: [{ name: "FILE", help: "file to create; one that exists is left as it is", arity: "one" }],
      options: ["data", "json"],
      examples: [["lockd store backup --data /var/lib/lockd /backup/lockd-monday.sqlite", "also while the server runs"]],
      load: async () => (await import("./command-backup.ts")).storeBackup,
    },
    {
      name: "restore",
      summary: "make an empty directory the data directory that FILE is a copy of",
      description:
        "The directory gets a new identity. Locks and tokens are those of the moment of the backup: what\n" +
        "was granted since is unknown to the restored server, so its tokens may have been given out before.",
      positionals: [{ name: "FILE", help: "what `lockd store backup` wrote", arity: "one" }],
      options: ["data", "json"],
      examples: [["lockd store restore --data /var/lib/lockd /backup/lockd-monday.sqlite", "refused if the directory is not empty"]],
      load: async () => (await import("./command-restore.ts")).storeRestore,
    },
  ],
};

/** Declarations of the lock plugin's commands: names, flags, help. Their code is loaded when one runs. */
import type { CommandSpec, CompletionSource, FlagSpec } from "../../src/cli/types.ts";
import { DEFAULTS, LIMITS } from "../../src/client/protocol.ts";
import { CLIENT_SECURITY_OPTIONS } from "../../src/security/option-names.ts";

const LOCKS = "Locks";
const ADMIN = "Looking and intervening";

/** Options of every command that talks to a server. */
export const CLIENT: readonly string[] = ["connect", ...CLIENT_SECURITY_OPTIONS, "config", "log-level"];

const wait = (help: string): FlagSpec => ({
  name: "wait",
  type: "duration",
  minMs: 0,
  maxMs: LIMITS.waitMsMax,
  default: null,
  defaultText: "without end",
  help,
});

const deadFlag: FlagSpec = {
  name: "dead",
  type: "boolean",
  default: false,
  help: "you state that the holder does nothing any more, so that only its unlock duration is waited out; if it is alive and cannot be told, it runs beside the next holder",
};

/** What a request for a lock may say; `exec` and `lock` take the same. */
export const lockFlags: readonly FlagSpec[] = [
  wait("how long to wait for the lock; 0: now or not at all"),
  {
    name: "unlock-duration",
    type: "duration",
    minMs: LIMITS.unlockDurationMsMin,
    maxMs: LIMITS.unlockDurationMsMax,
    default: DEFAULTS.unlockDurationMs,
    help: "grace after the duration, in which the holder is told to leave and everybody else is still kept out",
  },
  { name: "shared", type: "boolean", default: false, help: "share the lock with others that ask for it shared" },
  {
    name: "permits",
    type: "integer",
    min: 1,
    max: LIMITS.permitsMax,
    default: null,
    defaultText: "none: a lock, not a semaphore",
    help: "the object is a semaphore with this many permits; all who use it must name the same number",
  },
  { name: "count", type: "integer", min: 1, max: LIMITS.permitsMax, default: 1, help: "permits of the semaphore to take" },
  {
    name: "lock-delay",
    type: "duration",
    minMs: 0,
    maxMs: LIMITS.lockDelayMsMax,
    default: 0,
    help: "keep the object free this long after the lock was lost (not after a clean unlock)",
  },
  { name: "value", type: "string", default: null, defaultText: "none", help: "text that `lockd list` shows with the lock", valueName: "TEXT" },
  { name: "share-command", type: "boolean", default: false, help: "show the whole command line in listings (it may hold passwords)" },
];

export const durationFlag = (defaultMs: number | null, defaultText?: string): FlagSpec => ({
  name: "duration",
  type: "duration",
  minMs: LIMITS.durationMsMin,
  maxMs: LIMITS.durationMsMax,
  default: defaultMs,
  ...(defaultText === undefined ? {} : { defaultText }),
  help: "how long the lock is held without a renewal",
});

/** Names of objects that somebody holds or waits for. */
export const objectNames: CompletionSource = { load: () => import("./commands/complete-objects.ts") };

const objects = { name: "OBJECT", help: "what to lock: any name of 1 to 1,024 bytes, matched exactly", arity: "some", complete: objectNames } as const;
const object = { name: "OBJECT", help: "name of the object", arity: "one", complete: objectNames } as const;
const prefix = { name: "PREFIX", help: "only objects whose names start with it", arity: "optional", complete: objectNames } as const;

export const serveCommand: CommandSpec = {
  name: "serve",
  group: "Servers",
  summary: "run a lock server",
  description:
    "Serves locks from this node, durably: what was acknowledged survives a crash, and tokens go on rising.\n" +
    "SIGTERM stops it in order, SIGHUP reloads, SIGUSR1 and SIGUSR2 write summary and tickets to the log.",
  options: [
    "name", "listen", "http", "data", "tls-cert", "tls-key", "tls-ca", "secret-file", "insecure",
    "config", "ready-fd", "log-level", "log-format", "log-file", "trace-messages",
  ],
  examples: [
    ["lockd serve", "on 127.0.0.1:4050, data in the default directory"],
    ["lockd serve --listen 127.0.0.1:0 --http off --data ./data", "on a free port, which the `ready` line tells"],
    ["lockd serve --listen 0.0.0.0:4050 --tls-cert cert.pem --tls-key key.pem --tls-ca ca.pem", "for clients with certificates of that CA, see `lockd tls`"],
  ],
  load: () => import("./commands/serve.ts"),
};

export const demoCommand: CommandSpec = {
  name: "demo",
  group: "Servers",
  summary: "show what lockd does, on a server of its own in a temporary directory",
  description: "Takes a few seconds, needs nothing, leaves nothing. Exit code 1 when something was not as told.",
  examples: [["lockd demo", ""]],
  load: () => import("./commands/demo.ts"),
};

export const lockCommand: CommandSpec = {
  name: "lock",
  group: LOCKS,
  summary: "take a lock and print its handle and token",
  description:
    "Prints HANDLE TOKEN. The handle is a secret that suffices to renew and unlock. Without --hold the\n" +
    "lock lives by itself until it is unlocked or its duration ends. Finding a server is part of the wait.",
  positionals: [objects],
  flags: [
    ...lockFlags,
    durationFlag(null, "10s with --hold, else 30s"),
    { name: "hold", type: "boolean", default: false, help: "keep the lock, renewed, until a signal comes, or until stdin closes if it is a pipe or a terminal (/dev/null and files never end it)" },
  ],
  options: [...CLIENT, "json"],
  examples: [
    ["taken=$(lockd lock deploy --duration 10m) || exit; handle=${taken% *} token=${taken#* }", "in a script, which goes on only with the lock; then: trap 'lockd unlock \"$handle\"' EXIT"],
    ["lockd lock a b --wait 0", "both or none, at once or not at all (exit code 75)"],
  ],
  load: () => import("./commands/lock.ts"),
};

export const otherCommands: readonly CommandSpec[] = [
  {
    name: "unlock",
    group: LOCKS,
    summary: "end a lock by its handle",
    positionals: [{ name: "HANDLE", help: "the handle; - reads it from stdin; absent: from LOCKD_HANDLE, but not inside `lockd exec`, which ends its lock itself", arity: "optional" }],
    options: [...CLIENT, "json"],
    examples: [['lockd unlock "$handle"', "exit code 66 when it is not held, 76 when it was lost before"]],
    load: () => import("./commands/unlock.ts"),
  },
  {
    name: "renew",
    group: LOCKS,
    summary: "let a lock run its whole duration again",
    description: "The duration of a lock that a running command holds (`exec`, `lock --hold`) can only be made longer: it counts on its own.",
    positionals: [{ name: "HANDLE", help: "the handle; - reads it from stdin; absent: from LOCKD_HANDLE", arity: "optional" }],
    flags: [
      durationFlag(null, "as before"),
      { name: "value", type: "string", default: null, defaultText: "as before", help: "text that listings, and observers of an election, see from now on", valueName: "TEXT" },
    ],
    options: [...CLIENT, "json"],
    examples: [
      ['lockd renew "$handle" --duration 10m', "and changes the duration from now on"],
      ["lockd renew --value standby", "inside `lockd elect` or `lockd exec`: the leader tells another value"],
    ],
    load: () => import("./commands/renew.ts"),
  },
  {
    name: "list",
    group: ADMIN,
    summary: "show who holds and who waits",
    positionals: [prefix],
    flags: [{ name: "watch", type: "boolean", default: false, help: "stream what happens from now on, like `lockd events`" }],
    options: [...CLIENT, "json"],
    examples: [
      ["lockd list", "a table of all tickets"],
      ["lockd list --json | jq -r 'select(.state == \"waiting\") | .object'", "objects that somebody waits for"],
    ],
    load: () => import("./commands/list.ts"),
  },
  {
    name: "wait",
    group: LOCKS,
    summary: "wait until an object is free, without taking it",
    positionals: [object],
    flags: [wait("how long to wait")],
    options: [...CLIENT, "json"],
    examples: [["lockd wait deploy --wait 5m", "exit code 75 when it is still locked then"]],
    load: () => import("./commands/wait.ts"),
  },
  {
    name: "why",
    group: ADMIN,
    summary: "tell who holds an object, who waits for it, and what happened to it",
    positionals: [object],
    options: [...CLIENT, "json"],
    examples: [["lockd why backup", "holder, queue, deadlock if any, last events"]],
    load: () => import("./commands/why.ts"),
  },
  {
    name: "release",
    group: ADMIN,
    summary: "force a holder out",
    description:
      "The holder is told, cannot renew any more, and has its unlock duration to leave from when it confirms\n" +
      "that it heard. A holder that cannot hear (stopped, or cut off) may rely on its lock until the duration\n" +
      "is over: the object goes to the next at the end of duration and unlock duration. --dead cuts that short.\n" +
      "Names the exact token, so that nobody but the holder you looked at is hit. It is recorded.",
    positionals: [object],
    flags: [
      { name: "force", type: "boolean", default: false, help: "needed: this takes a lock away from its holder" },
      { name: "token", type: "integer", min: 1, max: Number.MAX_SAFE_INTEGER, default: null, defaultText: "none, must be given", help: "fencing token of the holder" },
      deadFlag,
      { name: "reason", type: "string", default: "", defaultText: "none", help: "kept in the history", valueName: "TEXT" },
    ],
    options: [...CLIENT, "json"],
    examples: [
      ["lockd release backup --force --token 42 --reason 'it hangs'", ""],
      ["lockd release backup --force --token 42 --dead --reason 'host was switched off'", "free after the unlock duration"],
    ],
    load: () => import("./commands/release.ts"),
  },
  {
    name: "status",
    group: ADMIN,
    summary: "show the state of the server",
    options: [...CLIENT, "json"],
    examples: [["lockd status --json", "exit code 69 when it is not ready or not reachable"]],
    load: () => import("./commands/status.ts"),
  },
  {
    name: "events",
    group: ADMIN,
    summary: "show the history of locks",
    positionals: [prefix],
    flags: [
      { name: "from", type: "integer", min: 0, max: Number.MAX_SAFE_INTEGER, default: null, defaultText: "the oldest kept", help: "first event id", valueName: "ID" },
      { name: "follow", type: "boolean", default: false, help: "go on with new events as they happen" },
    ],
    options: [...CLIENT, "json"],
    examples: [["lockd events backup --follow", "what happens to backup, from the oldest event kept"]],
    load: () => import("./commands/events.ts"),
  },
  {
    name: "sessions",
    group: ADMIN,
    summary: "show the clients' sessions",
    options: [...CLIENT, "json"],
    examples: [["lockd sessions", ""]],
    load: () => import("./commands/sessions.ts"),
  },
  {
    name: "kick",
    group: ADMIN,
    summary: "end a session: its waiting tickets go, its locks are forced out",
    positionals: [{ name: "SESSION", help: "id as `lockd sessions` shows it", arity: "one", complete: { load: () => import("./commands/complete-sessions.ts") } }],
    description: "Its locks are taken as `lockd release --force` takes one. Detached locks stay: they belong to their handles.",
    flags: [deadFlag, { name: "reason", type: "string", default: "", defaultText: "none", help: "kept in the history", valueName: "TEXT" }],
    options: [...CLIENT, "json"],
    examples: [["lockd kick Zk3v0pYwQ8mJ4sXnB1rTfA", ""]],
    load: () => import("./commands/kick.ts"),
  },
];

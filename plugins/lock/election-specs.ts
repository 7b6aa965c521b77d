/** Declarations of `lockd elect` and `lockd leader`. Their code is loaded when one runs. */
import type { CommandSpec } from "../../src/cli/types.ts";
import { DEFAULTS } from "../../src/client/protocol.ts";
import { CLIENT, durationFlag, lockFlags, objectNames } from "./command-specs.ts";
import { guardFlags } from "./exec/spec.ts";

/** An election is one object, held by one: no modes, no permits. */
const NOT_OF_ELECTIONS: readonly string[] = ["shared", "permits", "count"];

const name = { name: "NAME", help: "the election: the object of that name, 1 to 1,024 bytes, matched exactly", arity: "one", complete: objectNames } as const;

export const electCommand: CommandSpec = {
  name: "elect",
  group: "Locks",
  summary: "run a command while being the leader",
  description:
    "Waits until it leads, runs CMD, and lets the next candidate lead when CMD ends. CMD is run, guarded and\n" +
    "ended as by `lockd exec`, with the same environment and exit codes, so that leaderships never overlap.\n" +
    "Others see the value with `lockd leader NAME`; inside CMD, `lockd renew --value TEXT` changes it.\n" +
    "The election NAME is an exclusive lock on the object NAME: `lockd exec NAME` and `lockd elect NAME`\n" +
    "exclude each other, and `list`, `why`, `release` and access rules apply to it as to every object.",
  positionals: [name],
  childCommand: "required",
  flags: [
    ...lockFlags.filter((flag) => !NOT_OF_ELECTIONS.includes(flag.name)).map((flag) =>
      flag.name === "value" ? { ...flag, help: "text that the leader shows to others, for example its address" } : flag,
    ),
    durationFlag(DEFAULTS.durationMs),
    ...guardFlags,
  ],
  options: [...CLIENT, "json"],
  examples: [
    ["lockd elect scheduler --value 10.0.0.1:8080 -- ./scheduler", "on each machine: one runs it, the others stand by"],
    ["lockd elect db --duration 3s --unlock-duration 1s -- ./primary.sh", "another one takes over within 4 s after a crash"],
  ],
  load: () => import("./commands/elect.ts"),
};

export const leaderCommand: CommandSpec = {
  name: "leader",
  group: "Locks",
  summary: "tell who leads an election",
  description:
    "Prints the leader's value, or who it is when it shows none; exit code 66 when nobody leads. With --watch a\n" +
    "line now and after each change, `no leader` when there is none, over lost connections and restarts of the\n" +
    "server; of changes in quick succession the last is always told.",
  positionals: [name],
  flags: [{ name: "watch", type: "boolean", default: false, help: "go on, with a line for each change" }],
  options: [...CLIENT, "json"],
  examples: [
    ["lockd leader scheduler", "10.0.0.1:8080"],
    ["lockd leader scheduler --watch --json", 'one object a line, its "state" leading or vacant'],
  ],
  load: () => import("./commands/leader.ts"),
};

/** Declaration of `lockd exec`. Its code is loaded when it runs. */
import type { CommandSpec, FlagSpec } from "../../../src/cli/types.ts";
import { DEFAULTS } from "../../../src/client/protocol.ts";
import { CLIENT, durationFlag, lockFlags, objectNames } from "../command-specs.ts";

/** How the command is guarded; `exec` and `elect` take the same. */
export const guardFlags: readonly FlagSpec[] = [
  {
    name: "on-lost",
    type: "choice",
    choices: ["term", "kill", "ignore"],
    default: "term",
    help: "what CMD gets when the lock is lost: TERM and KILL in time, KILL at once, or nothing (unsafe: it runs on beside the next holder)",
  },
  {
    name: "error-exit",
    type: "integer",
    min: 1,
    max: 255,
    default: null,
    defaultText: "the codes of lockd",
    help: "exit code for all failures of lockd's own, to tell them from CMD's; also when CMD cannot be run (else 126, 127)",
    valueName: "CODE",
  },
];

export const execCommand: CommandSpec = {
  name: "exec",
  group: "Locks",
  summary: "run a command while holding a lock",
  description:
    "Waits for the lock, for a server to ask too, runs CMD, renews while it runs, passes signals on to its process group, and\n" +
    "releases when it ends; the exit code is CMD's own, 128+N when signal N ended it. CMD finds\n" +
    "LOCKD_OBJECT (one a line), LOCKD_TOKEN, LOCKD_HANDLE and LOCKD_DEADLINE (milliseconds of\n" +
    "CLOCK_BOOTTIME, of the lease at its start) in its environment.\n" +
    "When the lock is lost, or lockd exec itself is killed or stopped too long, the whole group is dead\n" +
    "before anybody else gets the lock. What leaves the group (setsid) is not reached, and what CMD\n" +
    "leaves in the background at its end neither keeps the lock nor is killed.",
  positionals: [{ name: "OBJECT", help: "what to lock: any name of 1 to 1,024 bytes, matched exactly", arity: "some", complete: objectNames }],
  childCommand: "required",
  flags: [
    ...lockFlags,
    durationFlag(DEFAULTS.durationMs),
    ...guardFlags,
  ],
  options: [...CLIENT, "json"],
  examples: [
    ["lockd exec backup -- pg_dump -f dump.sql shop", "waits for its turn, then runs"],
    ["lockd exec nightly --wait 0 -- ./job.sh", "only if nobody else does: else exit code 75"],
    ["lockd exec gpu --permits 4 --count 2 -- ./train", "two of the four permits of a semaphore"],
  ],
  load: () => import("../commands/exec.ts"),
};

/** The flags of a request for a lock (`exec`, `lock` and `elect`) as options of the client library. */
import type { CommandContext } from "../../../src/cli/types.ts";
import type { LockOptions } from "../../../src/client/lock-options.ts";
import { LIMITS } from "../../../src/client/protocol.ts";
import { LockdError } from "../../../src/errors.ts";
import { clipped } from "../../../src/text.ts";

/**
 * All but `wait`, `duration`, `detached` and `signal`, which each command decides. A lock asked for
 * inside `lockd exec` says on whose behalf, so that deadlocks among nested commands are found.
 * Throws `usage` for flags that exclude each other.
 */
export function lockOptions(context: CommandContext, command: "exec" | "lock"): LockOptions {
  const { values } = context;
  const permits = values.numberOrNull("permits");
  const shared = values.boolean("shared");
  if (permits !== null && shared) throw new LockdError("usage", `${command}: --shared and --permits exclude each other`);
  if (permits === null && values.given("count")) throw new LockdError("usage", `${command}: --count needs --permits, the permits of the object`);
  const count = values.number("count");
  if (permits !== null && count > permits) throw new LockdError("usage", `${command}: --count ${count} is more than --permits ${permits}`);
  return {
    ...candidateOptions(context),
    mode: permits !== null ? "semaphore" : shared ? "shared" : "exclusive",
    ...(permits === null ? {} : { permits, count }),
  };
}

/** The part of it that a candidate in an election says as well. */
export function candidateOptions(context: CommandContext): LockOptions {
  const { values, environment } = context;
  const parent = environment["LOCKD_HANDLE"];
  return {
    unlockDuration: values.number("unlock-duration"),
    lockDelay: values.number("lock-delay"),
    value: values.stringOrNull("value"),
    detectDeadlock: true,
    ...(parent === undefined || parent === "" ? {} : { parents: [parent] }),
    ...(values.boolean("share-command") ? { commandLine: shownCommand(context) } : {}),
  };
}

/** The command line as it is shown to others: the child's, or our own without the program's path. */
function shownCommand(context: CommandContext): string {
  const words = context.child.length > 0 ? context.child : ["lockd", ...process.argv.slice(2)];
  return clipped(words.join(" "), LIMITS.valueBytesMax);
}

/** `lockd exec OBJECT… -- CMD ARG…`: runs a command while holding a lock. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { lockOptions } from "./lock-options.ts";
import { runUnderLock } from "./under-lock.ts";

export function run(context: CommandContext): Promise<number> {
  return runUnderLock(context, { command: "exec", request: () => lockOptions(context, "exec") });
}

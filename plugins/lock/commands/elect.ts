/** `lockd elect NAME -- CMD ARG…`: runs a command while being the leader of an election. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { candidateOptions } from "./lock-options.ts";
import { runUnderLock } from "./under-lock.ts";

export function run(context: CommandContext): Promise<number> {
  return runUnderLock(context, { command: "elect", request: () => candidateOptions(context) });
}

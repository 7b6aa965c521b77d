/** `lockd serve`: the life of a lock server; all of it is the core's, with this plugin's mode. */
import type { CommandContext } from "../../../src/cli/types.ts";

export const run = (context: CommandContext): Promise<number> => context.runServer("serve");

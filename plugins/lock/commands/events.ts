/** `lockd events`: the history of locks, and with --follow what happens from then on. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { streamEvents } from "./stream.ts";
import { withClient } from "./with-client.ts";

export function run(context: CommandContext): Promise<number> {
  const prefix = context.positionals[0] ?? "";
  const follow = context.values.boolean("follow");
  // without --from the oldest event kept is meant, with --follow as well
  const from = context.values.numberOrNull("from") ?? 0;
  return withClient(context, { program: "lockd events" }, async (client) => {
    await streamEvents(context, client, { prefix, follow, from });
    return 0;
  });
}

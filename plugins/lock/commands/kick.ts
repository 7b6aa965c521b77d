/** `lockd kick SESSION`: ends a session; its locks are forced out, its waiting tickets dropped. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { withClient } from "./with-client.ts";

export function run(context: CommandContext): Promise<number> {
  const [session = ""] = context.positionals;
  const options = { reason: context.values.string("reason"), dead: context.values.boolean("dead") };
  return withClient(context, { program: "lockd kick" }, async (client) => {
    const { tickets } = await client.kick(session, options);
    await context.out.result({ session, tickets }, `ended session ${session}, which had ${tickets} ticket${tickets === 1 ? "" : "s"}\n`);
    return 0;
  });
}

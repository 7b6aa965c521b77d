/** `lockd wait OBJECT`: returns when nobody holds or waits for the object; takes nothing. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { withClient } from "./with-client.ts";

export function run(context: CommandContext): Promise<number> {
  const [object = ""] = context.positionals;
  const waitMs = context.values.numberOrNull("wait");
  return withClient(context, { program: "lockd wait" }, async (client) => {
    await client.waitFree(object, waitMs);
    await context.out.result({ object, free: true }, "");
    return 0;
  });
}

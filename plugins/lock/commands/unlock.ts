/** `lockd unlock HANDLE`: ends a lock, or withdraws a waiting request, by its handle. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { readHandle } from "./handle.ts";
import { withClient } from "./with-client.ts";

export async function run(context: CommandContext): Promise<number> {
  const handle = await readHandle(context, "unlock");
  const { token } = await withClient(context, { program: "lockd unlock" }, (client) => client.unlockHandle(handle));
  await context.out.result({ unlocked: true, ...(token === null ? {} : { token }) }, "");
  return 0;
}

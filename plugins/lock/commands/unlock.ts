/** `lockd unlock HANDLE`: ends a lock, or withdraws a waiting request, by its handle. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { LockdError } from "../../../src/errors.ts";
import { readHandle } from "./handle.ts";
import { withClient } from "./with-client.ts";

export async function run(context: CommandContext): Promise<number> {
  if (context.positionals.length === 0 && context.environment["LOCKD_DEADLINE"] !== undefined) {
    throw new LockdError("usage", "unlock: the handle in LOCKD_HANDLE is that of the surrounding `lockd exec`", {
      hint: 'it ends its lock itself when its command ends; to do it before: lockd unlock "$LOCKD_HANDLE"',
    });
  }
  const handle = await readHandle(context, "unlock");
  const { token } = await withClient(context, { program: "lockd unlock" }, (client) => client.unlockHandle(handle));
  await context.out.result({ unlocked: true, ...(token === null ? {} : { token }) }, "");
  return 0;
}

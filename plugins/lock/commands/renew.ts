/** `lockd renew HANDLE`: lets a lock run its whole duration, or a new one, from now on. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { formatDuration, formatIso } from "../../../src/cli/format.ts";
import { readHandle } from "./handle.ts";
import { withClient } from "./with-client.ts";

export async function run(context: CommandContext): Promise<number> {
  const handle = await readHandle(context, "renew");
  const durationMs = context.values.numberOrNull("duration") ?? undefined;
  const renewed = await withClient(context, { program: "lockd renew" }, (client) => client.renewHandle(handle, durationMs));
  await context.out.result(
    { token: renewed.token, expires: formatIso(Date.now() + renewed.left) },
    `renewed for ${formatDuration(renewed.left)}\n`,
  );
  return 0;
}

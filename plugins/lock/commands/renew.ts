/** `lockd renew HANDLE`: lets a lock run its whole duration, or a new one, from now on; changes what it shows. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { formatDuration, formatIso } from "../../../src/cli/format.ts";
import { readHandle } from "./handle.ts";
import { withClient } from "./with-client.ts";

export async function run(context: CommandContext): Promise<number> {
  const handle = await readHandle(context, "renew");
  const { values } = context;
  const changes = { duration: values.numberOrNull("duration") ?? undefined, value: values.stringOrNull("value") ?? undefined };
  const renewed = await withClient(context, { program: "lockd renew" }, (client) => client.renewHandle(handle, changes));
  await context.out.result(
    { token: renewed.token, expires: formatIso(Date.now() + renewed.left) },
    `renewed for ${formatDuration(renewed.left)}\n`,
  );
  return 0;
}

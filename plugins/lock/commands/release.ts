/** `lockd release OBJECT --force --token N`: takes a lock away from the holder with exactly this token. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { formatDuration, formatIso } from "../../../src/cli/format.ts";
import type { LockdClient } from "../../../src/client/client.ts";
import { LockdError } from "../../../src/errors.ts";
import { holderText } from "./format.ts";
import { withClient } from "./with-client.ts";

export async function run(context: CommandContext): Promise<number> {
  const [object = ""] = context.positionals;
  const token = context.values.numberOrNull("token");
  if (!context.values.boolean("force")) {
    throw new LockdError("usage", "release: --force is missing", {
      hint: "this takes a lock away from its holder; a holder gives its own lock back with `lockd unlock HANDLE`",
    });
  }
  if (token === null) {
    throw new LockdError("usage", "release: --token is missing", { hint: `\`lockd why ${object}\` shows the holder and its token` });
  }
  const options = { reason: context.values.string("reason"), dead: context.values.boolean("dead") };
  return withClient(context, { program: "lockd release" }, async (client) => {
    const detached = await isDetached(client, object, token);
    const { holder, freeIn } = await client.releaseByForce(object, token, options);
    await context.out.result(
      { object, token, holder, freeAt: formatIso(Date.now() + freeIn) },
      options.dead
        ? `took it from ${holderText(holder)}, stated to be dead; free in ${formatDuration(freeIn)}\n`
        : `told ${holderText(holder)} to leave; ${detached ? `free in ${formatDuration(freeIn)}` : `free in at most ${formatDuration(freeIn)}, sooner when the holder confirms`}\n`,
    );
    return 0;
  });
}

/** Nobody listens for a detached lock, so nobody confirms. Only for what is told: false when it cannot be found out. */
async function isDetached(client: LockdClient, object: string, token: number): Promise<boolean> {
  try {
    const { holders } = await client.why(object);
    return holders.some((ticket) => ticket.token === token && ticket.detached);
  } catch {
    return false;
  }
}

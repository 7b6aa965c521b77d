/** `lockd release OBJECT --force --token N`: takes a lock away from the holder with exactly this token. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { formatDuration, formatIso } from "../../../src/cli/format.ts";
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
    const { holder, freeIn } = await client.releaseByForce(object, token, options);
    await context.out.result(
      { object, token, holder, freeAt: formatIso(Date.now() + freeIn) },
      options.dead
        ? `took it from ${holderText(holder)}, stated to be dead; free in ${formatDuration(freeIn)}\n`
        : `told ${holderText(holder)} to leave; free in at most ${formatDuration(freeIn)}, sooner when the holder confirms\n`,
    );
    return 0;
  });
}

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
  const reason = context.values.string("reason");
  return withClient(context, { program: "lockd release" }, async (client) => {
    const { holder, freeIn } = await client.releaseByForce(object, token, reason);
    await context.out.result(
      { object, token, holder, freeAt: formatIso(Date.now() + freeIn) },
      `told ${holderText(holder)} to leave; free in ${formatDuration(freeIn)}\n`,
    );
    return 0;
  });
}

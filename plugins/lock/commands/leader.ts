/** `lockd leader NAME`: who leads an election, once or with --watch again after each change. */
import { formatIso, printable } from "../../../src/cli/format.ts";
import type { CommandContext } from "../../../src/cli/types.ts";
import type { LockdClient } from "../../../src/client/client.ts";
import type { Leader } from "../../../src/client/election.ts";
import { LockdError } from "../../../src/errors.ts";
import { holderText, type Json } from "./format.ts";
import { withClient } from "./with-client.ts";

export function run(context: CommandContext): Promise<number> {
  const name = context.positionals[0] ?? "";
  const { out } = context;
  return withClient(context, { program: "lockd leader" }, async (client) => {
    if (!context.values.boolean("watch")) {
      const leader = await client.leader(name);
      if (leader === null) throw new LockdError("notfound", `find leader of ${JSON.stringify(name)}: nobody leads`);
      await out.result(leaderJson(name, leader), `${leaderText(leader)}\n`);
      return 0;
    }
    await out.whileRead(watch(context, client, name));
    return 0;
  });
}

async function watch({ out }: CommandContext, client: LockdClient, name: string): Promise<void> {
  for await (const leader of client.observe(name)) {
    await out.write(`${out.json ? JSON.stringify(leaderJson(name, leader)) : leaderText(leader)}\n`);
  }
}

function leaderJson(name: string, leader: Leader | null): Json {
  if (leader === null) return { name, state: "vacant" };
  const { value, token, holder, sinceAgo } = leader;
  return { name, state: "leading", ...(value === null ? {} : { value }), token, since: formatIso(Date.now() - sinceAgo), holder };
}

/** One line: what the leader proclaimed, else who it is. */
function leaderText(leader: Leader | null): string {
  if (leader === null) return "no leader";
  return leader.value === null ? holderText(leader.holder) : printable(leader.value);
}

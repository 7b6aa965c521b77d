/** What every client command does around its own work: connect to `--connect`, say who asks, close. */
import type { CommandContext, ConnectChoices } from "../../../src/cli/types.ts";
import type { LockdClient } from "../../../src/client/client.ts";

/** Runs `work` with a connected client and closes it whatever happens. Rejects as `connect` does. */
export async function withClient<T>(context: CommandContext, choices: ConnectChoices, work: (client: LockdClient) => Promise<T>): Promise<T> {
  const client = await context.connect(choices);
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

/** `lockd sessions`: the clients that the server knows. */
import { formatDuration, formatIso, table } from "../../../src/cli/format.ts";
import type { CommandContext } from "../../../src/cli/types.ts";
import { withClient } from "./with-client.ts";

const COLUMNS = ["SESSION", "HOLDER", "PID", "PROGRAM", "CONNECTED", "HEARD", "HELD", "WAITING"] as const;

export function run(context: CommandContext): Promise<number> {
  return withClient(context, { program: "lockd sessions" }, async (client) => {
    const rows: (readonly string[])[] = [COLUMNS];
    for await (const { heardAgo, grace, ...session } of client.sessions()) {
      if (context.out.json) {
        await context.out.result({ ...session, heard: formatIso(Date.now() - heardAgo), graceMs: grace }, "");
        continue;
      }
      const { holder, connected, held, waiting } = session;
      const heard = `${formatDuration(Math.max(0, heardAgo))} ago`;
      const who = [`${holder.name}@${holder.host}`, String(holder.pid), holder.program];
      rows.push([session.session, ...who, connected ? "yes" : "no", heard, String(held), String(waiting)]);
    }
    if (!context.out.json) await context.out.write(rows.length === 1 ? "no sessions\n" : table(rows));
    return 0;
  });
}

/** `lockd list`: all tickets, or with --watch what happens to them. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { table } from "../../../src/cli/format.ts";
import type { LockdClient } from "../../../src/client/client.ts";
import type { TicketBody } from "../../../src/client/protocol.ts";
import { listRows, ticketJson } from "./format.ts";
import { streamEvents } from "./stream.ts";
import { withClient } from "./with-client.ts";

/** Lines of JSON that are written together. */
const CHUNK_LINES = 500;

export function run(context: CommandContext): Promise<number> {
  const prefix = context.positionals[0] ?? "";
  return withClient(context, { program: "lockd list" }, async (client) => {
    if (context.values.boolean("watch")) await streamEvents(context, client, { prefix, follow: true });
    else if (context.out.json) await listJson(context, client, prefix);
    else await listTable(context, client, prefix);
    return 0;
  });
}

async function listJson(context: CommandContext, client: LockdClient, prefix: string): Promise<void> {
  let lines: string[] = [];
  for await (const ticket of client.list(prefix)) {
    lines.push(JSON.stringify(ticketJson(ticket, Date.now())));
    if (lines.length < CHUNK_LINES) continue;
    await context.out.write(`${lines.join("\n")}\n`);
    lines = [];
  }
  if (lines.length > 0) await context.out.write(`${lines.join("\n")}\n`);
}

async function listTable(context: CommandContext, client: LockdClient, prefix: string): Promise<void> {
  const tickets: TicketBody[] = [];
  for await (const ticket of client.list(prefix)) tickets.push(ticket);
  await context.out.write(tickets.length === 0 ? "no locks\n" : table(listRows(tickets)));
}

/** Events on stdout as they come: the body of `lockd events` and `lockd list --watch`. */
import type { CommandContext } from "../../../src/cli/types.ts";
import type { LockdClient } from "../../../src/client/client.ts";
import type { EventOptions } from "../../../src/client/event-stream.ts";
import { eventJson, eventText } from "./format.ts";

/** Writes each event on a line of its own, until the stream ends or the process is interrupted. */
export function streamEvents(context: CommandContext, client: LockdClient, options: EventOptions): Promise<void> {
  return context.out.whileRead(writeEvents(context, client, options));
}

async function writeEvents(context: CommandContext, client: LockdClient, options: EventOptions): Promise<void> {
  for await (const event of client.events(options)) {
    await context.out.write(`${context.out.json ? JSON.stringify(eventJson(event)) : eventText(event)}\n`);
  }
}

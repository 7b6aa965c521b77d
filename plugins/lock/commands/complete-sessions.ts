/** Sessions for a shell that completes a command line. */
import type { Completer } from "../../../src/cli/types.ts";

export const complete: Completer = async function* (client, prefix) {
  for await (const { session, holder } of client.sessions()) {
    if (session.startsWith(prefix)) yield { word: session, help: `${holder.name}@${holder.host}, ${holder.program}` };
  }
};

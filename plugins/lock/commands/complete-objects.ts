/** Objects for a shell that completes a command line: each once, with who is in its queue. */
import type { Completer } from "../../../src/cli/types.ts";

export const complete: Completer = async function* (client, prefix) {
  let last: string | null = null;
  // tickets come in the order of their objects
  for await (const { object, state, holder } of client.list(prefix)) {
    if (object === last) continue;
    last = object;
    yield { word: object, help: `${state}, ${holder.name}@${holder.host}` };
  }
};

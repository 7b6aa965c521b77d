/** `lockd completion`: the script for one shell. */
import { LockdError } from "../../errors.ts";
import { quoted } from "../../text.ts";
import { completionScripts } from "../completion/scripts.ts";
import type { CommandModule } from "../types.ts";

export const completion: CommandModule = {
  async run({ positionals: [shell = ""], out }) {
    const script = completionScripts.get(shell);
    if (script === undefined) {
      throw new LockdError("usage", `completion: ${quoted(shell)} is no shell that is known`, { hint: `accepted: ${[...completionScripts.keys()].join(", ")}` });
    }
    await out.write(script);
    return 0;
  },
};

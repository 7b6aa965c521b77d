/** `lockd man`: the manual page of this very executable, external plugins included. */
import { softwareVersion } from "../../version.ts";
import { describeAll } from "../completion/program-commands.ts";
import { manPage } from "../man-page.ts";
import type { ProgramParts } from "../program-parts.ts";
import type { CommandModule } from "../types.ts";

export function man(parts: ProgramParts): CommandModule {
  return {
    async run({ out }) {
      const commands = describeAll(await parts.commands(), parts.coreOptions);
      await out.write(manPage(commands, await softwareVersion()));
      return 0;
    },
  };
}

/** `lockd man`: the manual page of this very executable, external plugins included. */
import { softwareVersion } from "../../version.ts";
import { describeAll } from "../completion/program-commands.ts";
import { manPage } from "../man-page.ts";
import type { ProgramParts } from "../program-parts.ts";
import type { CommandModule } from "../types.ts";

export function man(parts: ProgramParts): CommandModule {
  return {
    async run({ out, environment }) {
      // the others are as good without those that cannot be loaded
      await parts.catalog.all().catch((error: unknown) => out.warn(`the page lacks external plugins: ${error instanceof Error ? error.message : String(error)}`));
      const commands = describeAll(await parts.commands(), parts.coreOptions);
      await out.write(manPage(commands, { version: await softwareVersion(), date: pageDate(environment["SOURCE_DATE_EPOCH"]) }));
      return 0;
    },
  };
}

/** Of today, or of the second that packagers name so that the page comes out the same again. */
function pageDate(epochText: string | undefined): string {
  const epochSeconds = epochText !== undefined && /^\d{1,11}$/.test(epochText) ? Number(epochText) : null;
  return new Date(epochSeconds === null ? Date.now() : epochSeconds * 1000).toISOString().slice(0, 10);
}

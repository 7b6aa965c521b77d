/** `lockd plugins`: what is part of this program, and what was loaded besides. */
import { table } from "../format.ts";
import type { ProgramParts } from "../program-parts.ts";
import type { CommandModule } from "../types.ts";

export function listPlugins({ catalog }: ProgramParts): CommandModule {
  return {
    async run({ out }) {
      const rows = (await catalog.all()).map(({ plugin, origin, sha256 }) => ({
        name: plugin.name,
        version: plugin.version,
        origin,
        commands: (plugin.commands ?? []).filter((command) => command.hidden !== true).map((command) => command.name),
        dependencies: [...(plugin.requires.plugins ?? [])],
        ...(sha256 === undefined ? {} : { sha256 }),
      }));
      if (out.json) {
        for (const row of rows) await out.result(row, "");
      } else {
        const cells = rows.map((row) => [row.name, row.version, row.origin, row.dependencies.join(",") || "-", row.commands.join(" ") || "-"]);
        await out.write(rows.length === 0 ? "no plugins\n" : table([["NAME", "VERSION", "ORIGIN", "NEEDS", "COMMANDS"], ...cells]));
      }
      return 0;
    },
  };
}

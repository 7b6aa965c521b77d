/** `lockd config show`: each value with its origin. Secrets are never shown. */
import { coreSections } from "../../config/core-options.ts";
import type { ConfigValue, OptionOrigin, OptionSpec, OptionValue } from "../../config/types.ts";
import { valueText } from "../../config/values.ts";
import type { ProgramParts } from "../program-parts.ts";
import { table } from "../format.ts";
import { originText } from "../origin-text.ts";
import type { CommandModule } from "../types.ts";

/** Stands for the value of a secret that is set. */
const HIDDEN = "(hidden)";

export function configShow({ catalog, coreOptions }: ProgramParts): CommandModule {
  return {
    async run({ out, loadConfig }) {
      const config = await loadConfig();
      const plugins = await catalog.all();
      const rows = [
        ...sectionRows(null, coreOptions, config.core),
        ...coreSections.flatMap(({ name, options }) => sectionRows(name, options, config.sections.get(name))),
        ...plugins.flatMap(({ plugin }) => sectionRows(plugin.name, plugin.config ?? [], config.sections.get(plugin.name))),
      ];
      if (out.json) {
        for (const row of rows) await out.result({ section: row.section, name: row.name, value: row.value, origin: row.origin }, "");
      } else {
        const cells = rows.map((row) => [row.section === null ? row.name : `${row.section}.${row.name}`, row.text, originText(row.origin)]);
        await out.write(table([["OPTION", "VALUE", "ORIGIN"], ...cells]));
      }
      return 0;
    },
  };
}

interface Row {
  section: string | null;
  name: string;
  value: OptionValue;
  text: string;
  origin: OptionOrigin;
}

function sectionRows(
  section: string | null,
  specs: readonly OptionSpec[],
  values: ReadonlyMap<string, ConfigValue> | undefined,
): Row[] {
  return specs.flatMap((spec) => {
    const found = values?.get(spec.name);
    // what is said on the command line alone is no configuration
    if (found === undefined || (spec.noFile === true && spec.noEnvironment === true)) return [];
    const empty = found.value === null || (typeof found.value === "object" && found.value.length === 0);
    const hidden = spec.noFlag === true && !empty;
    const value = hidden ? HIDDEN : found.value;
    return [{ section, name: spec.name, value, text: hidden ? HIDDEN : valueText(spec, found.value) || "-", origin: found.origin }];
  });
}

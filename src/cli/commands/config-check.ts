/** `lockd config check`: everything is validated by loading it as a server would. */
import type { CommandModule } from "../types.ts";

export const configCheck: CommandModule = {
  async run({ out, loadConfig }) {
    const config = await loadConfig();
    const values = [config.core, ...config.sections.values()].flatMap((section) => [...section.values()]);
    const given = values.filter(({ origin }) => origin.kind !== "default").length;
    const source = config.file === null ? "no configuration file" : `read ${config.file}`;
    await out.result({ ok: true, file: config.file, given }, `ok: ${source}, ${given} of ${values.length} options given`);
    return 0;
  },
};

/** `lockd store restore FILE`. */
import type { CommandModule } from "../cli/types.ts";
import { dataDirectory } from "../config/data-directory.ts";
import { assert } from "../errors.ts";
import { restoreStore } from "./backup.ts";

export const storeRestore: CommandModule = {
  async run({ out, values, positionals: [file] }) {
    assert(file !== undefined, "restore has its positional");
    const report = restoreStore(file, dataDirectory(values));
    await out.result({ ok: true, ...report }, `ok: restored ${report.path}, directory id ${report.directoryId}`);
    return 0;
  },
};

/** `lockd store backup FILE`. */
import type { CommandModule } from "../cli/types.ts";
import { dataDirectory } from "../config/data-directory.ts";
import { assert } from "../errors.ts";
import { backupStore } from "./backup.ts";

export const storeBackup: CommandModule = {
  async run({ out, values, positionals: [file] }) {
    assert(file !== undefined, "backup has its positional");
    const report = backupStore(dataDirectory(values), file);
    await out.result({ ok: true, ...report }, `ok: wrote ${report.path}, ${report.bytes} bytes, checked`);
    return 0;
  },
};

/** `lockd store check`. */
import type { CommandModule } from "../cli/types.ts";
import { dataDirectory } from "../config/data-directory.ts";
import { checkStore } from "./check.ts";

export const storeCheck: CommandModule = {
  async run({ out, values }) {
    const report = checkStore(dataDirectory(values));
    const notes = [
      ...(report.inUse ? ["a server is using it, so its write-ahead log was checked only as far as SQLite reads it"] : []),
      ...(report.tailTorn ? ["the log ends in an unfinished transaction, which the next start cuts"] : []),
    ];
    for (const note of notes) out.note(note);
    const contents = `${report.records} records, ${report.streamPieces} stream entries, ${report.journalChanges} changes in the journal`;
    await out.result({ ok: true, ...report }, `ok: ${report.path}, format ${report.formatVersion}, ${contents}`);
    return 0;
  },
};

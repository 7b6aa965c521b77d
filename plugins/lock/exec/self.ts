/** How this program starts itself again as a helper process. Knows the hidden commands' names only. */
import { fileURLToPath } from "node:url";

export type HelperName = "__shim" | "__supervise";

/** Command line that runs a hidden helper of this program, with `argv0` as it shows in a listing. */
export const helperCommand = (helper: HelperName, ...rest: readonly string[]): OwnCommand => ownCommand(helper, ...rest);

export interface OwnCommand {
  command: string[];
  argv0: string;
}

/** Command line that runs this program again. */
export function ownCommand(...words: readonly string[]): OwnCommand {
  if (import.meta.url.includes("/$bunfs/")) {
    // not execPath: the file may have been replaced by an upgrade meanwhile, and both ends must agree
    return { command: ["/proc/self/exe", ...words], argv0: "lockd" };
  }
  const entry = fileURLToPath(new URL("../../../bin/lockd.ts", import.meta.url));
  // without --no-env-file the runtime would add what a .env in the working directory says
  return { command: [process.execPath, "--no-env-file", entry, ...words], argv0: process.execPath };
}

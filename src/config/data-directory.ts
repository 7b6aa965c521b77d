/** Where state is kept when nobody says: by the user, and by the user's home. Knows no file in it. */
import { join } from "node:path";
import { LockdError } from "../errors.ts";
import { currentAccount } from "../system/accounts.ts";
import type { ConfigReader } from "./reader.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** The default of `--data`; null when the user has no home. */
export function defaultDataDirectory(environment: Environment): string | null {
  if (process.getuid?.() === 0) return "/var/lib/lockd";
  const state = environment["XDG_STATE_HOME"];
  // the XDG specification tells to ignore relative paths
  if (state?.startsWith("/") === true) return join(state, "lockd");
  const home = [environment["HOME"], currentAccount()?.home].find((path) => path?.startsWith("/") === true);
  return home === undefined ? null : join(home, ".local", "state", "lockd");
}

/** The data directory of this process. Throws LockdError `config` when none is given and there is no default. */
export function dataDirectory(values: ConfigReader): string {
  const directory = values.stringOrNull("data");
  if (directory !== null) return directory;
  throw new LockdError("config", "find data directory: HOME is not set, and this user has no home directory in /etc/passwd", {
    hint: "name a directory with --data, or set HOME",
  });
}

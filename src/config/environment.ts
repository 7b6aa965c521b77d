/** The environment as a source of options: `LOCKD_` and the name in upper case. Reads no file. */
import { LockdError } from "../errors.ts";
import { didYouMean } from "../suggest.ts";
import { quoted } from "../text.ts";
import type { OptionSpec } from "./types.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

const PREFIX = "LOCKD_";

/**
 * Variables that configure nothing here: what `exec` gives to its child, so that nesting works, and what
 * install.sh reads, which may still be set in the shell that starts lockd next.
 */
export const FOREIGN_VARIABLES = new Set(["LOCKD_OBJECT", "LOCKD_TOKEN", "LOCKD_HANDLE", "LOCKD_DEADLINE", "LOCKD_DOWNLOAD_URL"]);

/** `log-level` is LOCKD_LOG_LEVEL; null when the option has no variable. */
export function variableOf(spec: OptionSpec): string | null {
  return spec.noEnvironment === true ? null : PREFIX + spec.name.toUpperCase().replaceAll("-", "_");
}

/** The text of an option's variable; an empty one counts as not set. */
export function variableText(spec: OptionSpec, environment: Environment): string | null {
  const variable = variableOf(spec);
  const text = variable === null ? undefined : environment[variable];
  return text === undefined || text === "" ? null : text;
}

/** Variables that look like lockd's and belong to none of these options. */
export function unknownVariables(environment: Environment, specs: readonly OptionSpec[]): string[] {
  const known = new Set(specs.map(variableOf));
  return Object.keys(environment)
    .filter((name) => name.startsWith(PREFIX) && !known.has(name) && !FOREIGN_VARIABLES.has(name))
    .sort();
}

/** Throws LockdError `config` when a variable is unknown: it may be a mistyped one. */
export function refuseUnknownVariables(environment: Environment, specs: readonly OptionSpec[]): void {
  const [unknown] = unknownVariables(environment, specs);
  if (unknown === undefined) return;
  const variables = specs.map(variableOf).filter((name) => name !== null);
  throw new LockdError("config", `read environment: unknown variable ${quoted(unknown).slice(1, -1)}`, {
    hint: didYouMean(unknown, variables) ?? "`lockd config init` prints all variables",
  });
}

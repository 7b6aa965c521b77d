/**
 * Options: one declaration gives a flag, an environment variable, a key of the TOML file, its
 * validation, its help text and its line in `config show`. Knows no option by name.
 */

export type OptionValue = string | number | boolean | readonly string[] | null;

export type OptionType =
  /** any text; `pattern` narrows it */
  | { type: "string"; pattern?: RegExp; accepted?: string }
  | { type: "choice"; choices: readonly string[] }
  | { type: "boolean" }
  | { type: "integer"; min: number; max: number }
  /** text such as `250ms`, `10s`, `5m`, `2h`, `1d`, a bare number of seconds; the value is milliseconds */
  | { type: "duration"; minMs: number; maxMs: number; /** also accepts this word, value null */ word?: string }
  /** `host:port` or `[v6]:port`; the value is that text, normalised */
  | { type: "address"; /** also accepts this word, value null */ word?: string }
  /** comma-separated or repeated; the value is a list of texts */
  | { type: "list"; of: "string" | "address" | "path" }
  /** bytes with an optional suffix KiB, MiB, GiB; the value is a number */
  | { type: "size"; min: number; max: number }
  /** tables of the file, `[[section.name]]`; the value is a list with one text for each, as `check` returns it */
  | { type: "tables"; accepted: string; check(table: unknown, directory: string): { text: string } | { problem: string } }
  /** made absolute against the working directory (flag, environment) or the file's folder (TOML) */
  | { type: "path"; /** also accepts this word, value null */ word?: string };

export type OptionSpec = OptionType & {
  /** name in kebab-case: `--listen`, `LOCKD_LISTEN`, `listen = …`. Unique over the core and its plugins
      as a flag; in the file it stands at the top level (core) or in the plugin's section. */
  name: string;
  help: string;
  default?: OptionValue | (() => OptionValue);
  /** text of the default in help when it is computed or null */
  defaultText?: string;
  /** a secret: may only come from a file or the environment, never from a flag, and is never shown */
  noFlag?: boolean;
  /** no variable of the environment */
  noEnvironment?: boolean;
  /** no key of the configuration file */
  noFile?: boolean;
  /** word for the value in help, such as `ADDR` */
  valueName?: string;
};

/** Where a value came from, for `config show` and for error messages. */
export type OptionOrigin =
  | { kind: "default" }
  | { kind: "file"; path: string; line?: number }
  | { kind: "environment"; variable: string }
  | { kind: "flag"; flag: string };

export interface ConfigValue {
  value: OptionValue;
  origin: OptionOrigin;
}

/** The options of one plugin, or some of the core's: the section `[name]` of the file. */
export interface SectionSpec {
  name: string;
  options: readonly OptionSpec[];
}

/** A complete, validated configuration. `core` and each plugin section map option names to values. */
export interface Config {
  /** path of the file that was read, null when there was none */
  file: string | null;
  core: ReadonlyMap<string, ConfigValue>;
  sections: ReadonlyMap<string, ReadonlyMap<string, ConfigValue>>;
}

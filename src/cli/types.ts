/**
 * What a subcommand declares and what it gets when it runs. Help, completion and parsing are derived
 * from the declaration; the code of a command is loaded only when it runs. Knows no command by name.
 */
import type { LockdClient } from "../client/client.ts";
import type { ConfigReader } from "../config/reader.ts";
import type { Config, OptionSpec } from "../config/types.ts";
import type { LockdError } from "../errors.ts";
import type { Output } from "./output.ts";

export interface PositionalSpec {
  /** upper-case word as in the usage line: `OBJECT` */
  name: string;
  help: string;
  /** how many: exactly one, at most one, at least one, any number */
  arity: "one" | "optional" | "some" | "any";
  /** what a shell offers for it, some words or what a server knows; absent: files for FILE, directories for DIR */
  complete?: readonly string[] | CompletionSource;
}

/** Where a shell gets words that only a running server knows. */
export interface CompletionSource {
  load(): Promise<{ complete: Completer }>;
}

/** Words that begin with `prefix`, in any order; the caller stops it when it has enough or its time is over. */
export type Completer = (client: LockdClient, prefix: string) => AsyncIterable<CompletionWord>;

export interface CompletionWord {
  word: string;
  /** shown beside it by shells that can */
  help: string;
}

/** A flag that belongs to one command only (not to the configuration): same types as options. */
export type FlagSpec = OptionSpec & { /** single letter alias */ short?: string };

export interface CommandSpec {
  name: string;
  /** one line for the list of commands */
  summary: string;
  /** heading under which `lockd --help` lists it; default: `Other commands` */
  group?: string;
  /** paragraphs for `--help` */
  description?: string;
  positionals?: readonly PositionalSpec[];
  flags?: readonly FlagSpec[];
  /** names of configuration options (core or plugin) that this command also takes as flags */
  options?: readonly string[];
  /** takes `-- CMD ARG…`, passed on byte for byte; without it, words after `--` are positionals */
  childCommand?: "required" | "none";
  /** `[command line, what it does]`, shown by `--help` */
  examples?: readonly (readonly [string, string])[];
  /** hidden commands are internal: not listed, not completed */
  hidden?: boolean;
  subcommands?: readonly CommandSpec[];
  /** absent when there are only subcommands */
  load?(): Promise<CommandModule>;
}

export interface CommandModule {
  /** The exit code; throws LockdError for its own failures. */
  run(context: CommandContext): Promise<number>;
}

export interface ConnectChoices {
  /** default: those that --connect names */
  servers?: readonly string[];
  /** what listings show as the program; default `lockd COMMAND` */
  program?: string;
  /** how long to look for a server: absent, one round over all; null: without end */
  waitMs?: number | null;
  signal?: AbortSignal;
  /** called after each round without a server that is followed by another one */
  onRetry?: (failure: LockdError) => void;
}

export interface CommandContext {
  /** positionals in order, surplus and missing ones already refused */
  readonly positionals: readonly string[];
  /** values of flags and options, typed access by name; unknown names are a defect */
  readonly values: ConfigReader;
  /** what stands after `--` */
  readonly child: readonly string[];
  readonly out: Output;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /**
   * The whole configuration, with the sections of all plugins, from the same flags, environment and
   * file; read anew by each call, so that a server can reload. Throws LockdError `config`.
   */
  loadConfig(): Promise<Config>;
  /**
   * A client of the servers that `--connect` names, with the credentials of the other client options; the
   * caller closes it. For commands that take all client options. Rejects as the library's `connect` does.
   */
  connect(choices?: ConnectChoices): Promise<LockdClient>;
  /** The life of a server process with all plugins; resolves with the exit code when it has ended. */
  runServer(mode: string): Promise<number>;
}

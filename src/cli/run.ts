/**
 * The life of one command line: find the command, parse, configure, load, run, report. Owns the exit
 * code; knows no plugin by name.
 */
import { ConfigReader } from "../config/reader.ts";
import { coreOptions, coreSections, DEFAULT_CONFIG_FILE } from "../config/core-options.ts";
import { variableOf } from "../config/environment.ts";
import { flagValues, type GivenFlag, loadConfig, optionAhead } from "../config/load.ts";
import type { Config, ConfigValue, OptionSpec } from "../config/types.ts";
import { assert, LockdError } from "../errors.ts";
import type { Plugin } from "../plugin/types.ts";
import type { RunOptions } from "../server/run.ts";
import { parseArguments, scanFlags, wantsHelp } from "./arguments.ts";
import { COMMON_OPTIONS, commandFlags, type FoundCommand, findCommand } from "./command-tree.ts";
import { ANY_CONFIGURATION, coreCommands } from "./core-commands.ts";
import { commandHelp, rootHelp } from "./help.ts";
import { type BundledPlugin, PluginCatalog } from "./plugin-catalog.ts";
import type { ProgramCommand } from "./program-parts.ts";
import { reportError } from "./report-error.ts";
import { processSinks, type Sinks, TerminalOutput, wantsColour } from "./terminal-output.ts";
import type { CommandContext, CommandSpec } from "./types.ts";
import { refuseBadArguments } from "./utf8-arguments.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export interface ProgramOptions {
  /** without the names of executable and script */
  args: readonly string[];
  environment: Environment;
  /** version of lockd */
  software: string;
  plugins: readonly BundledPlugin[];
  /** the life of a server process; handed in, because its code is not loaded for other commands */
  startServer(options: RunOptions): Promise<number>;
  /** default: the process's own streams */
  sinks?: Sinks;
  /** default: the path of the contract; null: none */
  defaultFile?: string | null;
}

/** Runs one command line to its end and returns its exit code. Never throws: errors are reported on stderr. */
export async function runProgram(options: ProgramOptions): Promise<number> {
  const sinks = options.sinks ?? processSinks;
  const report = (thrown: unknown): number => {
    const { exitCode, text } = reportError(thrown, wantedForm(options));
    if (text !== "") sinks.stderr(text);
    return exitCode;
  };
  // what a command forgot to await ends here too, instead of in the runtime's own words
  const onStray = (thrown: unknown): void => process.exit(report(thrown));
  process.on("uncaughtException", onStray).on("unhandledRejection", onStray);
  const untrap = (): void => {
    process.off("uncaughtException", onStray).off("unhandledRejection", onStray);
  };
  try {
    return await new Program(options, sinks, untrap).run();
  } catch (error) {
    return report(error);
  } finally {
    untrap();
  }
}

class Program {
  readonly #options: ProgramOptions;
  readonly #sinks: Sinks;
  readonly #untrap: () => void;
  readonly #catalog: PluginCatalog;
  readonly #coreOptions: readonly OptionSpec[];
  readonly #coreCommands: readonly CommandSpec[];

  constructor(options: ProgramOptions, sinks: Sinks, untrap: () => void) {
    this.#options = options;
    this.#sinks = sinks;
    this.#untrap = untrap;
    this.#coreOptions = coreOptions(options.environment);
    this.#catalog = new PluginCatalog(options.plugins, {
      named: () => this.#namedPlugins(),
      core: () => ({ commands: this.#coreCommands, options: this.#coreOptions, sections: coreSections, common: COMMON_OPTIONS }),
    });
    this.#coreCommands = coreCommands({
      catalog: this.#catalog,
      coreOptions: this.#coreOptions,
      commands: () => this.#allCommands(),
      readOptions: async (flags) => new ConfigReader((await this.#anyConfig(flags, process.cwd())).core),
    });
  }

  async run(): Promise<number> {
    const { args, software } = this.#options;
    refuseBadArguments(args);
    const [first, second] = args;
    if (first === undefined) {
      this.#sinks.stderr(`${await this.#rootHelp()}\n`);
      throw new LockdError("usage", "which command?");
    }
    if (first === "--help" || first === "-h" || (first === "help" && second === undefined)) {
      refuseSurplus(scanFlags(args, AHEAD).rest);
      await this.#output(false).write(await this.#rootHelp());
      return 0;
    }
    if (first === "--version") {
      refuseSurplus(args);
      await this.#output(false).write(`lockd ${software}\n`);
      return 0;
    }
    const words = first === "help" ? [...args.slice(1), "--help"] : args;
    return this.#runCommand(await findCommand(words, this.#coreCommands, this.#catalog));
  }

  async #runCommand(found: FoundCommand): Promise<number> {
    const { spec, path, words, plugin } = found;
    const flags = commandFlags(found, this.#coreOptions);
    if (wantsHelp(words)) {
      await this.#output(false).write(commandHelp(found, flags));
      return 0;
    }
    if (spec.load === undefined) {
      if (!wantedForm(this.#options).json) this.#sinks.stderr(`${commandHelp(found, flags)}\n`);
      throw new LockdError("usage", `${path}: which subcommand?`);
    }
    const specs = [...flags.own, ...flags.options];
    const line = parseArguments(words, spec, specs, path);
    const directory = process.cwd();
    const own = flagValues(flags.own, line.flags, directory);
    const tolerant = plugin === null && ANY_CONFIGURATION.has(path);
    const config = await (tolerant ? this.#anyConfig(line.flags, directory) : this.#commandConfig(line.flags, plugin, directory));
    const section = plugin === null ? undefined : config.sections.get(plugin.name);
    const values = new Map<string, ConfigValue>(own);
    for (const option of flags.options) {
      const value = config.core.get(option.name) ?? section?.get(option.name);
      assert(value !== undefined, `option ${option.name} was resolved`);
      values.set(option.name, value);
    }
    const reader = new ConfigReader(values);
    const json = values.has("json") && reader.boolean("json");
    const module = await spec.load();
    const context: CommandContext = {
      positionals: line.positionals,
      values: reader,
      child: line.child,
      out: this.#output(json),
      environment: this.#options.environment,
      loadConfig: () => this.#serverConfig(line.flags, directory),
      connect: async (choices) => (await import("./connect.ts")).connectClient(reader, { program: `lockd ${path}`, ...choices }),
      runServer: (mode) => this.#runServer(mode, line.flags, directory),
    };
    // what a plugin loads may be of any kind
    if (typeof module?.run !== "function") throw new LockdError("failed", `${path}: the plugin ${plugin?.name ?? "lockd"} gave no code to run for it`);
    return checkedCode(path, await module.run(context));
  }

  /** Known before all other options, from flags whose command may not be known yet. */
  async #namedPlugins(): Promise<readonly string[]> {
    const { flags } = scanFlags(this.#options.args, AHEAD);
    const request = { flags, environment: this.#options.environment, defaultFile: this.#defaultFile, core: this.#coreOptions, directory: process.cwd() };
    const { value } = await optionAhead(request, "plugin");
    assert(Array.isArray(value), "plugin is a list");
    return value;
  }

  /** What one command needs: core options, and the section of its own plugin. */
  #commandConfig(flags: ReadonlyMap<string, GivenFlag>, plugin: Plugin | null, directory: string): Promise<Config> {
    return loadConfig({
      flags,
      environment: this.#options.environment,
      defaultFile: this.#defaultFile,
      skipDeniedFile: true,
      core: this.#coreOptions,
      sections: plugin === null ? [] : [{ name: plugin.name, options: plugin.config ?? [] }],
      others: {
        names: [...coreSections.map(({ name }) => name), ...this.#catalog.names.filter((name) => name !== plugin?.name)],
        more: () => this.#catalog.hasExternal(),
        options: async () =>
          (await this.#catalog.all()).flatMap((loaded) => (loaded.plugin.name === plugin?.name ? [] : (loaded.plugin.config ?? []))),
      },
      directory,
    });
  }

  /** The core's options also when the configuration is wrong: then without the file, and without variables if they are wrong, too. */
  async #anyConfig(flags: ReadonlyMap<string, GivenFlag>, directory: string): Promise<Config> {
    const own = new Map([...flags].filter(([name]) => name !== "config"));
    const known = new Set(this.#coreOptions.filter(({ name }) => name !== "config").map(variableOf));
    const variables = Object.fromEntries(Object.entries(this.#options.environment).filter(([name]) => known.has(name)));
    const without = (environment: Environment) => loadConfig({ flags: own, environment, defaultFile: null, skipDeniedFile: true, core: this.#coreOptions, sections: [], directory });
    try {
      return await this.#commandConfig(flags, null, directory).catch((error: unknown) => without(variablesAfter(error, variables)));
    } catch (error) {
      return without(variablesAfter(error, {}));
    }
  }

  async #allCommands(): Promise<readonly ProgramCommand[]> {
    const plugins = await this.#catalog.all().catch(() => this.#catalog.bundled());
    return [
      ...plugins.flatMap(({ plugin }) => (plugin.commands ?? []).map((spec) => ({ spec, plugin }))),
      ...this.#coreCommands.map((spec) => ({ spec, plugin: null })),
    ];
  }

  async #serverConfig(flags: ReadonlyMap<string, GivenFlag>, directory: string): Promise<Config> {
    const plugins = await this.#catalog.all();
    return loadConfig({
      flags,
      environment: this.#options.environment,
      defaultFile: this.#defaultFile,
      skipDeniedFile: false,
      core: this.#coreOptions,
      sections: [...coreSections, ...plugins.map(({ plugin }) => ({ name: plugin.name, options: plugin.config ?? [] }))],
      directory,
    });
  }

  async #runServer(mode: string, flags: ReadonlyMap<string, GivenFlag>, directory: string): Promise<number> {
    const loaded = await this.#catalog.all();
    const config = await this.#serverConfig(flags, directory);
    // a server logs what nobody caught, by its own rules
    this.#untrap();
    return this.#options.startServer({
      mode,
      plugins: loaded.map(({ plugin }) => plugin),
      pluginPaths: new Map(loaded.flatMap(({ plugin, origin, sha256 }) => (sha256 === undefined ? [] : [[plugin.name, origin]]))),
      config,
      software: this.#options.software,
      environment: this.#options.environment,
      loadConfig: () => this.#serverConfig(flags, directory),
    });
  }

  get #defaultFile(): string | null {
    return this.#options.defaultFile === undefined ? DEFAULT_CONFIG_FILE : this.#options.defaultFile;
  }

  async #rootHelp(): Promise<string> {
    let failure: unknown = null;
    // help is what somebody asks for whose plugin does not load: it is given all the same
    const plugins = await this.#catalog.all().catch((error: unknown) => {
      failure = error;
      return this.#catalog.bundled();
    });
    if (failure !== null) this.#sinks.stderr(reportError(failure, wantedForm(this.#options)).text);
    const commands = [...plugins.flatMap(({ plugin }) => plugin.commands ?? []), ...this.#coreCommands];
    return rootHelp(commands, this.#options.software);
  }

  #output(json: boolean): TerminalOutput {
    return new TerminalOutput({ json, colour: wantsColour(this.#options.environment), sinks: this.#sinks });
  }
}

/** What is left to go on with after a mistake in the configuration; throws all other errors again. */
function variablesAfter(error: unknown, variables: Environment): Environment {
  if (error instanceof LockdError && error.code === "config") return variables;
  throw error;
}

function refuseSurplus(args: readonly string[]): void {
  if (args.length > 1) throw new LockdError("usage", `${args[0] ?? ""} stands alone`, { hint: "lockd COMMAND --help explains a command" });
}

/** Flags that are read before the command is known: it may be one of a plugin. */
const AHEAD = ["config", "plugin"];

/** A plugin's code may be of any kind; an exit status is one byte. */
function checkedCode(path: string, code: unknown): number {
  if (typeof code === "number" && Number.isInteger(code) && code >= 0 && code <= 255) return code;
  throw new LockdError("failed", `${path}: its code returned no exit code from 0 to 255`);
}

/** How to report errors, also of a command line that could not be parsed. */
function wantedForm({ args, environment }: ProgramOptions): { json: boolean; stack: boolean } {
  const end = args.indexOf("--");
  const own = end === -1 ? args : args.slice(0, end);
  const level = own.findIndex((word) => word === "--log-level");
  const text = own.find((word) => word.startsWith("--log-level="))?.slice("--log-level=".length);
  const logLevel = text ?? (level === -1 ? environment["LOCKD_LOG_LEVEL"] : own[level + 1]);
  return {
    json: own.some((word) => word === "--json" || word === "--json=true" || word === "--json=1"),
    stack: logLevel === "debug" || logLevel === "trace",
  };
}

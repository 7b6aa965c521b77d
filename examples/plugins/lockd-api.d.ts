/**
 * Types of the plugin interface, version 1.0.0, for editors and tsc: copy this file beside a plugin. At run
 * time lockd itself provides `lockd:api`; `lockd:lock` has types only, so import it with `import type`.
 */
declare module "lockd:api" {
  export const API_VERSION: string;

  /** Identity with a type. */
  export function definePlugin(plugin: Plugin): Plugin;

  export interface Plugin {
    /** lower-case letters, digits and dashes; also the section of the configuration file */
    name: string;
    /** such as 1.2.3 */
    version: string;
    requires: {
      /** range of the interface's versions: ^1, ^1.2, ">=1 <2" */
      lockd: string;
      /** plugins that are set up before this one, and whose services it uses */
      plugins?: readonly string[];
    };
    config?: readonly OptionSpec[];
    commands?: readonly CommandSpec[];
    /** in a server process: registers what the plugin brings; over within 10 seconds */
    setup?(host: Host): PluginInstance | Promise<PluginInstance>;
  }

  export interface PluginInstance {
    start?(): void | Promise<void>;
    stop?(): void | Promise<void>;
    describe?(detail: "summary" | "full"): string[];
  }

  /** What the core gives to a plugin in a server process. */
  export interface Host {
    readonly mode: string;
    readonly nodeName: string;
    readonly software: string;
    listenAddress(): string;
    readonly access: Access;
    readonly config: Readonly<Record<string, OptionValue>>;
    readonly logger: Logger;
    readonly clock: Clock;
    readonly timers: Timers;
    random(count: number): Uint8Array;
    readonly namespace: Namespace;
    readonly store: { readonly directoryId: string; readonly failed: Promise<Error>; stats(): StoreStats };
    readonly messages: MessageRegistry;
    readonly metrics: Metrics;
    readonly health: Health;
    readonly http: HttpRoutes;
    provide<T extends object>(service: T): void;
    use<T extends object>(plugin: string): T;
    fail(error: Error): void;
  }

  // Errors.

  export type ErrorCode =
    | "failed" | "unknown" | "cancelled" | "protocol" | "usage" | "invalid" | "corrupt" | "notfound" | "notheld" | "unavailable"
    | "duplicate" | "overflow" | "precondition" | "timedout" | "deadlock" | "lost" | "denied" | "config";

  export class LockdError extends Error {
    constructor(code: ErrorCode, message: string, options?: { hint?: string; retryable?: boolean; cause?: unknown });
    override readonly name: string;
    readonly code: ErrorCode;
    readonly hint: string | undefined;
    readonly retryable: boolean;
    get exitCode(): number;
    toJSON(): { code: ErrorCode; message: string; hint?: string; retryable: boolean };
  }

  // Options and commands.

  export type OptionValue = string | number | boolean | readonly string[] | null;

  export type OptionType =
    | { type: "string"; pattern?: RegExp; accepted?: string }
    | { type: "choice"; choices: readonly string[] }
    | { type: "boolean" }
    | { type: "integer"; min: number; max: number }
    | { type: "duration"; minMs: number; maxMs: number; word?: string }
    | { type: "address"; word?: string }
    | { type: "list"; of: "string" | "address" | "path" }
    | { type: "size"; min: number; max: number }
    | { type: "tables"; accepted: string; check(table: unknown, directory: string): { text: string } | { problem: string } }
    | { type: "path"; word?: string };

  export type OptionSpec = OptionType & {
    /** unique over lockd and all plugins */
    name: string;
    help: string;
    default?: OptionValue | (() => OptionValue);
    defaultText?: string;
    noFlag?: boolean;
    noEnvironment?: boolean;
    noFile?: boolean;
    valueName?: string;
  };

  export type FlagSpec = OptionSpec & { short?: string };

  export interface CommandSpec {
    name: string;
    summary: string;
    group?: string;
    description?: string;
    positionals?: readonly PositionalSpec[];
    flags?: readonly FlagSpec[];
    /** options of lockd or of this plugin that are flags of this command, too */
    options?: readonly string[];
    childCommand?: "required" | "none";
    examples?: readonly (readonly [commandLine: string, what: string])[];
    hidden?: boolean;
    subcommands?: readonly CommandSpec[];
    load?(): Promise<CommandModule>;
  }

  export interface PositionalSpec {
    /** upper-case word as in the usage line */
    name: string;
    help: string;
    arity: "one" | "optional" | "some" | "any";
    /** what a shell offers for it: these words, or what a server knows; absent: files for FILE, directories for DIR */
    complete?: readonly string[] | { load(): Promise<Completer> };
  }

  export interface Completer {
    /** words that begin with `prefix`; the caller stops when it has enough */
    complete(client: LockdClient, prefix: string): AsyncIterable<{ word: string; help: string }>;
  }

  export interface CommandModule {
    /** the exit code, 0 to 255 */
    run(context: CommandContext): Promise<number>;
  }

  export interface CommandContext {
    readonly positionals: readonly string[];
    readonly values: Values;
    readonly child: readonly string[];
    readonly out: Output;
    readonly environment: Readonly<Record<string, string | undefined>>;
    loadConfig(): Promise<Config>;
    /** for commands whose options hold clientOptions; close the client */
    connect(choices?: { program?: string; servers?: readonly string[]; waitMs?: number | null; signal?: AbortSignal }): Promise<LockdClient>;
    runServer(mode: string): Promise<number>;
  }

  export interface Values {
    string(name: string): string;
    stringOrNull(name: string): string | null;
    number(name: string): number;
    numberOrNull(name: string): number | null;
    boolean(name: string): boolean;
    list(name: string): readonly string[];
    given(name: string): boolean;
  }

  export interface Output {
    readonly json: boolean;
    readonly colour: boolean;
    result(json: Readonly<Record<string, unknown>>, text: string): Promise<void>;
    write(data: string | Uint8Array): Promise<void>;
    note(sentence: string): void;
    warn(sentence: string): void;
  }

  export interface Config {
    file: string | null;
    core: ReadonlyMap<string, { value: OptionValue }>;
    sections: ReadonlyMap<string, ReadonlyMap<string, { value: OptionValue }>>;
  }

  /** Options of a command that talks to a server. */
  export const clientOptions: readonly string[];

  /** The part of the client library that commands of plugins need. */
  export interface LockdClient extends AsyncDisposable {
    /** a message that a plugin of the server serves */
    request(type: string, body: Body, options?: { timeoutMs?: number }): Promise<{ type: string; body: Body }>;
    lock(
      objects: string | readonly string[],
      options?: { wait?: number | null; duration?: number; signal?: AbortSignal },
    ): Promise<{ readonly token: number; readonly signal: AbortSignal; release(): Promise<unknown> }>;
    close(): Promise<void>;
  }

  // Messages on the wire.

  export type Body = Readonly<Record<string, unknown>>;

  export interface MessageRegistry {
    /** `type`: upper-case letters and digits; one that lockd or another plugin serves is refused */
    on<T>(type: string, parse: (body: Body) => T, handle: (connection: Connection, id: number, body: T) => void | Promise<void>): void;
  }

  export interface Connection {
    readonly id: number;
    readonly identity: Identity;
    readonly closed: boolean;
    send(type: string, id: number, body: Body): void;
    closeWith(code: string, message: string): void;
    onClose(listener: () => void): void;
  }

  export interface Identity {
    role: "client" | "peer" | "sync";
    principal: Principal;
    name: string;
    host: string;
    pid: number;
    program: string;
    software: string;
    features: readonly string[];
    address: string;
  }

  export interface Principal {
    name: string;
    by: "certificate" | "token" | "secret" | "nothing";
  }

  export type Action = "lock" | "list" | "release";

  export interface Access {
    allows(principal: Principal, action: Action, object: string): boolean;
    allowsAll(principal: Principal, action: Action): boolean;
    prefixes(principal: Principal, action: Action, within: string): readonly string[];
  }

  /** Fields of a body with their types. Each throws LockdError `invalid` unless the field is there and fits, or `absent` is given. */
  export function readText<A extends string | null = never>(body: Body, name: string, options: { bytesMax: number; absent?: A }): string | A;
  export function readInteger<A extends number | null = never>(body: Body, name: string, options: { min: number; max: number; absent?: A }): number | A;
  export function readBoolean<A extends boolean | null = never>(body: Body, name: string, options?: { absent?: A }): boolean | A;
  export function readBytes<A extends Uint8Array | null = never>(body: Body, name: string, options: { bytesMax: number; absent?: A }): Uint8Array | A;

  // Storage.

  export interface Namespace {
    records(): Iterable<[key: string, value: Uint8Array]>;
    stream(name: string, fromId?: number): Iterable<StreamAppend>;
    /** resolves when all of the batch is on disk */
    commit(batch: {
      changes: readonly { key: string; value: Uint8Array | null }[];
      appends?: readonly StreamAppend[];
      trims?: readonly { stream: string; throughId: number }[];
    }): Promise<void>;
  }

  export interface StreamAppend {
    stream: string;
    firstId: number;
    lastId: number;
    data: Uint8Array;
  }

  export interface StoreStats {
    commits: number;
    batches: number;
    bytes: number;
    lastCommitMs: number;
    walBytes: number;
  }

  // Time.

  export interface Clock {
    monotonicMs(): number;
    bootMs(): number;
    wallMs(): number;
  }
  export interface Timer {
    cancel(): void;
  }
  export interface Timers {
    after(delayMs: number, fire: () => void): Timer;
    every(periodMs: number, fire: () => void): Timer;
  }

  // Observation.

  export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

  export interface Logger {
    trace(msg: string, fields?: LogFields): void;
    debug(msg: string, fields?: LogFields): void;
    info(msg: string, fields?: LogFields): void;
    warn(msg: string, fields?: LogFields): void;
    error(msg: string, fields?: LogFields): void;
    enabled(level: "trace" | "debug" | "info" | "warn" | "error" | "silent"): boolean;
    child(fields: LogFields): Logger;
  }

  export interface Metrics {
    counter(name: string, help: string, labels?: Readonly<Record<string, string>>): { add(amount?: number): void };
    gauge(name: string, help: string, labels?: Readonly<Record<string, string>>): { set(value: number): void };
    gaugeFrom(name: string, help: string, read: () => number, labels?: Readonly<Record<string, string>>): void;
    histogram(name: string, help: string, bounds: readonly number[], labels?: Readonly<Record<string, string>>): { observe(value: number): void };
  }

  export interface Health {
    add(kind: "live" | "ready", name: string, check: () => { ok: boolean; reason?: string }): void;
  }

  export interface HttpRoutes {
    /** `path` is exact, or a prefix when it ends in a slash and a star */
    route(method: "GET" | "POST" | "DELETE", path: string, handler: (request: Request) => Response | Promise<Response>): void;
  }
}

declare module "lockd:lock" {
  /** `host.use<LocksService>("lock")`, for plugins that have `lock` in requires.plugins. */
  export interface LocksService {
    subscribe(listener: (event: LockEvent) => void, options?: { prefix?: string; from?: number }): Subscription;
    list(options?: { prefix?: string; after?: readonly [object: string, number: number] | null; limit?: number }): Promise<TicketList>;
    why(object: string): Promise<Why>;
  }

  export interface Subscription {
    readonly firstId: number;
    stop(): void;
  }

  export interface LockEvent {
    id: number;
    /** milliseconds since 1970 by the server's wall clock */
    time: number;
    /** waiting, granted, released, expiring, expired, forced, kicked, failed, cancelled, lost */
    event: string;
    object: string;
    ticket: string;
    mode: "exclusive" | "shared" | "semaphore";
    holder: Holder;
    token?: number;
    /** milliseconds, of what was granted or given up */
    waited?: number;
    /** milliseconds, of what ended */
    held?: number;
    reason?: string;
  }

  export interface Holder {
    name: string;
    host: string;
    pid: number;
    program: string;
    address: string;
    session: string;
    commandLine?: string;
  }

  /** Times are milliseconds, relative to the answer. */
  export interface Ticket {
    object: string;
    ticket: string;
    state: string;
    mode: "exclusive" | "shared" | "semaphore";
    permits?: number;
    count?: number;
    holder: Holder;
    detached: boolean;
    token?: number;
    sinceAgo: number;
    expiresIn?: number;
    freeIn?: number;
    waitLeft?: number;
    position?: number;
    value?: string;
  }

  export interface TicketList {
    tickets: readonly Ticket[];
    next: readonly [object: string, number: number] | null;
  }

  export interface Why {
    object: string;
    holders: readonly Ticket[];
    waiters: readonly Ticket[];
    waitersTotal: number;
    delayLeft?: number;
    cycle: readonly { waiter: Holder; object: string; holder: Holder }[];
    events: readonly LockEvent[];
  }
}

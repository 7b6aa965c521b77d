/**
 * The helper that becomes the command. Started while the lock is still awaited, it makes everything
 * ready, waits for one message and replaces itself by the command at once. Owns its side of the two
 * pipes to the wrapper; knows nothing of locks. Loads nothing but libc: its start-up time counts.
 */
import { closeOnExec, readFully, writeFully } from "../../../src/system/files.ts";
import { cString, libc, prepareExec } from "../../../src/system/libc.ts";
import {
  SIGNALS,
  becomeGroupLeader,
  defaultSignal,
  dieWithParent,
  ignoreSignal,
  ignoredSignals,
  parentPid,
  setOpenFilesSoftLimit,
} from "../../../src/system/process.ts";

/** Descriptors at which the wrapper put its pipes. */
export const GO_DESCRIPTOR = 3;
export const STATUS_DESCRIPTOR = 4;

/** First byte of what the shim says on the status pipe. */
export const SHIM_SAYS = {
  /** everything is prepared */
  ready: 0x52,
  /** followed by four bytes little-endian: the errno of exec */
  execFailed: 0x45,
  /** followed by a sentence: why it could not prepare */
  failed: 0x46,
} as const;

export interface ShimOptions {
  wrapperPid: number;
  ignored: ReadonlySet<number>;
  openFilesSoft: number;
  argv: readonly string[];
}

/** The shim's own arguments; nothing in them is secret. */
export function shimArguments(options: ShimOptions): string[] {
  const { wrapperPid, ignored, openFilesSoft, argv } = options;
  return [String(wrapperPid), [...ignored].join(","), String(openFilesSoft), "--", ...argv];
}

/** The message that lets the command start: variables that are added to its environment. */
export function goMessage(environment: Readonly<Record<string, string>>): Uint8Array {
  const pairs = Object.entries(environment).map(([name, value]) => cString(`${name}=${value}`));
  const body = Buffer.concat(pairs);
  const message = Buffer.alloc(4 + body.length);
  message.writeUInt32LE(body.length, 0);
  body.copy(message, 4);
  return message;
}

/** Runs the shim; never returns. */
export function main(args: readonly string[]): never {
  try {
    const options = parse(args);
    prepare(options);
    const become = prepareExec(options.argv);
    say(SHIM_SAYS.ready);
    addToEnvironment(awaitGo());
    const code = become();
    sayExecFailed(code);
    return exit(1);
  } catch (error) {
    say(SHIM_SAYS.failed, Buffer.from(error instanceof Error ? error.message : String(error), "utf8"));
    return exit(1);
  }
}

function parse(args: readonly string[]): ShimOptions {
  const [pid, ignored = "", soft, separator, ...argv] = args;
  if (separator !== "--" || argv.length === 0) throw new Error("start shim: not meant to be run by hand");
  const numbers = ignored === "" ? [] : ignored.split(",").map(Number);
  return { wrapperPid: Number(pid), ignored: new Set(numbers), openFilesSoft: Number(soft), argv };
}

function prepare(options: ShimOptions): void {
  dieWithParent(SIGNALS.SIGKILL);
  // the wrapper may have died before the line above took effect
  if (parentPid() !== options.wrapperPid) exit(1);
  closeOnExec(GO_DESCRIPTOR);
  closeOnExec(STATUS_DESCRIPTOR);
  becomeGroupLeader();
  setOpenFilesSoftLimit(options.openFilesSoft);
  restoreSignals(options.ignored);
}

/**
 * Handlers fall back to the default at exec, ignored signals stay ignored: only those matter. The
 * signals that end a process are set now, so that one sent before the exec does what it would do to
 * the command. The mask of blocked signals was inherited and is left as it is.
 */
function restoreSignals(ignored: ReadonlySet<number>): void {
  for (const signal of ignoredSignals("self")) if (!ignored.has(signal)) defaultSignal(signal);
  for (const signal of [SIGNALS.SIGINT, SIGNALS.SIGTERM]) if (!ignored.has(signal)) defaultSignal(signal);
  for (const signal of ignored) ignoreSignal(signal);
}

/** Blocks until the wrapper lets the command start. Ends the process when the wrapper is gone. */
function awaitGo(): Uint8Array {
  const header = Buffer.alloc(4);
  if (!readFully(GO_DESCRIPTOR, header)) exit(0);
  const body = Buffer.alloc(header.readUInt32LE(0));
  if (!readFully(GO_DESCRIPTOR, body)) exit(0);
  return body;
}

/** Into C's own environment, so that all other variables reach the command byte for byte. */
function addToEnvironment(body: Uint8Array): void {
  for (const pair of Buffer.from(body).toString("utf8").split("\0")) {
    const equals = pair.indexOf("=");
    if (equals > 0) libc.setenv(cString(pair.slice(0, equals)), cString(pair.slice(equals + 1)), 1);
  }
}

function sayExecFailed(code: number): void {
  const detail = Buffer.alloc(4);
  detail.writeInt32LE(code, 0);
  say(SHIM_SAYS.execFailed, detail);
}

function say(kind: number, detail: Uint8Array = new Uint8Array(0)): void {
  try {
    writeFully(STATUS_DESCRIPTOR, Buffer.concat([Buffer.from([kind]), detail]));
  } catch {
    // nobody listens any more: the wrapper is gone, and so is the reason to go on
    exit(1);
  }
}

/** Ends at once, without the runtime's own end: it would touch the terminal that it shares. */
function exit(code: number): never {
  libc._exit(code);
  throw new Error("unreachable");
}

/**
 * A command that is guarded from before its start to its end: the shim that becomes it, the supervisor
 * that outlives us, the terminal and the times at which it must be gone. Knows deadlines on the boot
 * clock, not locks: whoever holds a lock or a leadership drives it.
 */
import { closeDescriptor, openPipe, setNonBlocking, writeFully, writeWhole } from "../../../src/system/files.ts";
import { bootTimeMs } from "../../../src/system/bootTimer.ts";
import { SIGNALS, groupIsAlive, signalGroup } from "../../../src/system/process.ts";
import { LockdError, assert } from "../../../src/errors.ts";
import type { Inheritance } from "./inheritance.ts";
import { orderBytes, type Order, type ReleaseOrder } from "./orders.ts";
import { helperCommand } from "./self.ts";
import { SHIM_SAYS, goMessage, shimArguments } from "./shim.ts";
import { JobTerminal } from "./terminal.ts";

/** What is done to the command when its deadline passes without a renewal. */
export type OnLost = "term" | "kill" | "ignore";

export type ChildEnd =
  | { kind: "code"; code: number }
  | { kind: "signal"; signal: number }
  /** it could not be run at all */
  | { kind: "execFailed"; errno: number };

export interface GuardOptions {
  argv: readonly string[];
  onLost: OnLost;
  /** how long the service still keeps others out after the deadline */
  unlockDurationMs: number;
  inheritance: Inheritance;
}

export interface StartOptions {
  /** added to the command's environment */
  environment: Readonly<Record<string, string>>;
  /** boot time until which the command may surely run */
  deadlineMs: number;
  /** what the supervisor releases when this process was killed and the group is gone */
  release: ReleaseOrder | null;
}

/** The command gets at most this long after TERM. */
const KILL_AFTER_MS_MAX = 5_000;
/** The group is dead this long before the service may let others in. */
const SAFETY_MS = 200;
const GROUP_POLL_MS = 20;

/**
 * Time between TERM and KILL: 5 s or half the unlock duration, and 200 ms before its end at the
 * latest, whichever comes first.
 */
export function killAfterMs(unlockDurationMs: number): number {
  return Math.max(0, Math.min(KILL_AFTER_MS_MAX, unlockDurationMs / 2, unlockDurationMs - SAFETY_MS));
}

export interface Spoiled {
  signal: number | null;
  error: LockdError;
}

export class GuardedChild {
  /** Resolves when the command could start at once; stays open when it never can, see `spoiled`. */
  readonly ready: Promise<void>;
  /** How the command ended. Its group may live on, see `end`. */
  readonly exited: Promise<ChildEnd>;
  /** Resolves when a helper is gone before the start: by which signal, if by one. It can never start. */
  readonly spoiled: Promise<Spoiled>;
  /** Resolves when the supervisor is gone before its time: nobody guards the group any more. */
  readonly unguarded: Promise<void>;

  readonly #options: GuardOptions;
  readonly #shim: Bun.Subprocess;
  readonly #supervisor: Bun.Subprocess<"ignore" | number, "pipe", "ignore">;
  readonly #goDescriptor: number;
  readonly #ordersDescriptor: number;
  readonly #terminal: JobTerminal | null;
  #state: "prepared" | "running" | "ended" = "prepared";
  #killTimer: ReturnType<typeof setTimeout> | null = null;
  #terminating = false;
  #deadlineMs = 0;
  #lostToSupervisor = false;
  #childStateListener: (() => void) | null = null;
  #markUnguarded: () => void = () => undefined;
  #markSpoiled: (spoiled: Spoiled) => void = () => undefined;

  private constructor(options: GuardOptions) {
    this.#options = options;
    this.#terminal = JobTerminal.open();
    this.unguarded = new Promise((resolve) => {
      this.#markUnguarded = resolve;
    });
    this.spoiled = new Promise((resolve) => {
      this.#markSpoiled = resolve;
    });
    const go = openPipe();
    const status = openPipe();
    const shim = helperCommand("__shim", ...shimArguments({ ...options.inheritance, wrapperPid: process.pid, argv: options.argv }));
    this.#shim = Bun.spawn(shim.command, {
      argv0: shim.argv0,
      stdio: ["inherit", "inherit", "inherit", go.readEnd, status.writeEnd],
    });
    closeDescriptor(go.readEnd);
    closeDescriptor(status.writeEnd);
    this.#goDescriptor = go.writeEnd;

    const orders = openPipe();
    const supervisor = helperCommand("__supervise");
    this.#supervisor = Bun.spawn(supervisor.command, {
      argv0: supervisor.argv0,
      stdio: [orders.readEnd, "pipe", "ignore"],
      // a session of its own from its first moment: Ctrl-C must not reach it
      detached: true,
    });
    closeDescriptor(orders.readEnd);
    setNonBlocking(orders.writeEnd);
    this.#ordersDescriptor = orders.writeEnd;

    const shimReport = readShim(Bun.file(status.readEnd).stream());
    // the supervisor need not be up: its orders wait in the pipe, and so would the end of the pipe
    void this.#followSupervisor();
    this.ready = shimReport.ready;
    this.exited = this.#awaitEnd(shimReport);
  }

  /** Starts the helpers; the command itself waits. Throws LockdError `failed` when that is impossible. */
  static prepare(options: GuardOptions): GuardedChild {
    assert(options.argv.length > 0, "a command has a name");
    return new GuardedChild(options);
  }

  /** Process id of the command, and number of its group. */
  get pid(): number {
    return this.#shim.pid;
  }

  /** Whether a terminal controls this process, so that the command may be stopped from it. */
  get hasTerminal(): boolean {
    return this.#terminal !== null;
  }

  /** Whether the supervisor had to act in our place: the command ran up to its deadline without us. */
  get lostToSupervisor(): boolean {
    return this.#lostToSupervisor;
  }

  /** Lets the command start. Call it only once `ready` has resolved. */
  start(options: StartOptions): void {
    assert(this.#state === "prepared", "a command starts once");
    this.#state = "running";
    this.#deadlineMs = options.deadlineMs;
    this.#order({ order: "guard", group: this.pid, ...this.#times(options.deadlineMs), release: options.release });
    const terminal = this.#terminal;
    if (terminal !== null) {
      terminal.start(this.pid);
      this.#childStateListener = () => terminal.onChildState(this.pid);
      process.on("SIGCHLD", this.#childStateListener);
    }
    try {
      writeFully(this.#goDescriptor, goMessage(options.environment));
    } catch {
      // the shim died meanwhile, by a signal perhaps: `exited` says how
    }
    closeDescriptor(this.#goDescriptor);
  }

  /** The command may run until this boot time: after each renewal. */
  setDeadline(deadlineMs: number): void {
    if (this.#state !== "running" || this.#terminating) return;
    this.#deadlineMs = deadlineMs;
    this.#order({ order: "deadline", ...this.#times(deadlineMs) });
  }

  /** Passes a signal on to the whole group. Nothing happens before the start and after the end. */
  signal(signal: number): void {
    if (this.#state !== "running") return;
    if (signal === SIGNALS.SIGCONT && this.#terminal !== null) this.#terminal.resume();
    else signalGroup(this.pid, signal);
  }

  /**
   * The right to run is lost: ends the group as `onLost` says. TERM now and KILL in time, counted from
   * now, or from a deadline that has passed already.
   */
  terminate(): void {
    if (this.#state !== "running" || this.#terminating || this.#options.onLost === "ignore") return;
    this.#terminating = true;
    const nowMs = bootTimeMs();
    const afterMs = this.#options.onLost === "kill" ? 0 : killAfterMs(this.#options.unlockDurationMs);
    const killAtMs = Math.min(nowMs, this.#deadlineMs) + afterMs;
    this.#order({ order: "deadline", termAtMs: null, killAtMs });
    if (killAtMs <= nowMs) {
      signalGroup(this.pid, SIGNALS.SIGKILL);
      return;
    }
    signalGroup(this.pid, SIGNALS.SIGTERM);
    // a stopped process would not see it
    signalGroup(this.pid, SIGNALS.SIGCONT);
    this.#killTimer = setTimeout(() => signalGroup(this.pid, SIGNALS.SIGKILL), killAtMs - nowMs);
  }

  /**
   * After a loss: resolves when no member of the group can do anything any more. What the command left
   * behind gets the rest of the time between TERM and KILL.
   */
  async groupGone(): Promise<void> {
    while (groupIsAlive(this.pid)) await Bun.sleep(GROUP_POLL_MS);
  }

  /**
   * The command has ended and its group is to be left alone: takes the terminal back, lets the
   * supervisor go. Says whether the command had the terminal.
   */
  finish(): boolean {
    assert(this.#state === "running", "only a started command is finished");
    this.#state = "ended";
    this.#order({ order: "done" });
    closeDescriptor(this.#ordersDescriptor);
    if (this.#killTimer !== null) clearTimeout(this.#killTimer);
    if (this.#childStateListener !== null) process.off("SIGCHLD", this.#childStateListener);
    return this.#terminal?.finish() ?? false;
  }

  /** The lock was not obtained: the helpers end and the command never starts. */
  abandon(): void {
    if (this.#state !== "prepared") return;
    this.#state = "ended";
    closeDescriptor(this.#goDescriptor);
    closeDescriptor(this.#ordersDescriptor);
    this.#terminal?.finish();
  }

  #times(deadlineMs: number): { termAtMs: number | null; killAtMs: number | null } {
    const { onLost, unlockDurationMs } = this.#options;
    if (onLost === "ignore") return { termAtMs: null, killAtMs: null };
    if (onLost === "kill") return { termAtMs: null, killAtMs: deadlineMs };
    return { termAtMs: deadlineMs, killAtMs: deadlineMs + killAfterMs(unlockDurationMs) };
  }

  #order(order: Order): void {
    // a full pipe means that the supervisor hangs: as good as dead
    if (!writeWhole(this.#ordersDescriptor, orderBytes(order))) this.#markUnguarded();
  }

  /** Listens to what the supervisor had to do, and to its end. */
  async #followSupervisor(): Promise<void> {
    for await (const _ of this.#supervisor.stdout) this.#lostToSupervisor = true;
    await this.#supervisor.exited;
    const error = new LockdError("failed", "guard command: the supervisor has ended");
    if (this.#state === "prepared") this.#markSpoiled({ signal: endSignal(this.#supervisor), error });
    if (this.#state === "running") this.#markUnguarded();
  }

  async #awaitEnd(report: ShimReport): Promise<ChildEnd> {
    const code = await this.#shim.exited;
    const { execErrno, failure } = await report.end;
    const signal = endSignal(this.#shim);
    if (this.#state === "prepared") {
      const error = new LockdError("failed", `prepare command: ${failure ?? "the helper was ended"}`);
      this.#markSpoiled({ signal, error });
    }
    if (execErrno !== null) return { kind: "execFailed", errno: execErrno };
    return signal === null ? { kind: "code", code } : { kind: "signal", signal };
  }
}

function endSignal(ended: Bun.Subprocess): number | null {
  const name = ended.signalCode;
  return typeof name === "string" ? SIGNALS[name] : name;
}

interface ShimReport {
  ready: Promise<void>;
  /** resolves at the end of the pipe: the command runs, or the shim has ended */
  end: Promise<{ execErrno: number | null; failure: string | null }>;
}

/** Follows the shim's status pipe. */
function readShim(stream: ReadableStream<Uint8Array>): ShimReport {
  let markReady: () => void = () => undefined;
  const ready = new Promise<void>((resolve) => {
    markReady = resolve;
  });
  const follow = async (): Promise<{ execErrno: number | null; failure: string | null }> => {
    let said = Buffer.alloc(0);
    for await (const bytes of stream) {
      said = Buffer.concat([said, bytes]);
      if (said[0] === SHIM_SAYS.ready) markReady();
    }
    const failure = said[0] === SHIM_SAYS.failed ? said.subarray(1).toString("utf8") : null;
    const execErrno = said[1] === SHIM_SAYS.execFailed && said.length >= 6 ? said.readInt32LE(2) : null;
    return { execErrno, failure };
  };
  return { ready, end: follow() };
}

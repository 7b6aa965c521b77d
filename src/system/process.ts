/**
 * Processes, groups, signals and limits as Linux has them, in typed calls over libc. Struct layouts
 * are those of 64-bit Linux. Decides nothing: who is signalled and when is the caller's business.
 */
import { readFileSync, readdirSync } from "node:fs";
import { constants } from "node:os";
import { ERRNO, check, errno, libc } from "./libc.ts";

/** Signal numbers by name; equal on Linux x64 and arm64. */
export const SIGNALS = constants.signals;
export type SignalName = NodeJS.Signals;

const PR_SET_PDEATHSIG = 1;
const RLIMIT_NOFILE = 7;
const SIG_DFL = 0n;
const SIG_IGN = 1n;

/** Makes this process the leader of a group of its own. */
export function becomeGroupLeader(): void {
  check("setpgid", () => libc.setpgid(0, 0));
}

export const ownGroup = (): number => libc.getpgid(0);
export const parentPid = (): number => libc.getppid();

/** Sends a signal to every member of a group. False when there is no such group any more. */
export function signalGroup(group: number, signal: number): boolean {
  if (libc.kill(-group, signal) === 0) return true;
  // EPERM: members exist, but none that we may signal (a setuid program)
  return errno() !== ERRNO.ESRCH;
}

/** Sends a signal to this process alone; a stop takes effect before this returns. */
export function signalSelf(signal: number): void {
  libc.kill(process.pid, signal);
}

/** Sends a signal to the whole group that this process belongs to. */
export function signalOwnGroup(signal: number): void {
  libc.kill(0, signal);
}

/**
 * Whether a group has a member that is not a zombie: the answer to "may it still do something?".
 * Reads all of /proc, some milliseconds: for the ends of lives, not for hot paths.
 */
export function groupIsAlive(group: number): boolean {
  if (!signalGroup(group, 0)) return false;
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    const stat = processStat(Number(entry));
    if (stat !== null && stat.group === group && stat.state !== "Z" && stat.state !== "X") return true;
  }
  return false;
}

export interface ProcessStat {
  state: string;
  parent: number;
  group: number;
  session: number;
}

/** The first fields of /proc/PID/stat; null when there is no such process. */
export function processStat(pid: number): ProcessStat | null {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return null;
  }
  // the name in parentheses may hold spaces and parentheses itself: the fields follow the last one
  const [state = "", parent, group, session] = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return { state, parent: Number(parent), group: Number(group), session: Number(session) };
}

/** The kernel kills this process with `signal` when the thread that started it ends. */
export function dieWithParent(signal: number): void {
  check("prctl", () => libc.prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0));
}

export function ignoreSignal(signal: number): void {
  libc.signal(signal, SIG_IGN);
}

export function defaultSignal(signal: number): void {
  libc.signal(signal, SIG_DFL);
}

/** The signals that a process ignores, from the `SigIgn` line of its /proc/PID/status. */
export function ignoredSignals(pid: number | "self"): ReadonlySet<number> {
  const text = readFileSync(`/proc/${pid}/status`, "latin1");
  const mask = BigInt(`0x${/^SigIgn:\s*([0-9a-f]+)/m.exec(text)?.[1] ?? "0"}`);
  const ignored = new Set<number>();
  for (let signal = 1; signal <= 64; signal++) if ((mask >> BigInt(signal - 1)) & 1n) ignored.add(signal);
  return ignored;
}

/** Soft and hard limit of open files of this process. */
export function openFilesLimit(): { soft: number; hard: number } {
  const limit = new BigUint64Array(2);
  check("getrlimit", () => libc.getrlimit(RLIMIT_NOFILE, limit));
  return { soft: Number(limit[0] ?? 0n), hard: Number(limit[1] ?? 0n) };
}

/** Sets the soft limit of open files and leaves the hard one. */
export function setOpenFilesSoftLimit(soft: number): void {
  const limit = new BigUint64Array(2);
  check("getrlimit", () => libc.getrlimit(RLIMIT_NOFILE, limit));
  limit[0] = BigInt(soft);
  check("setrlimit", () => libc.setrlimit(RLIMIT_NOFILE, limit));
}

/** The soft limit of open files of another process; null when it cannot be read. */
export function openFilesSoftLimitOf(pid: number): number | null {
  try {
    const line = /^Max open files\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/limits`, "latin1"));
    return line === null ? null : Number(line[1]);
  } catch {
    return null;
  }
}

const P_PID = 1;
const WNOHANG = 1;
const WSTOPPED = 2;
const CLD_STOPPED = 5;

/** The signal that stopped the child `pid` since the last call, null when it was not stopped. */
export function takeChildStop(pid: number): number | null {
  // siginfo_t: si_signo 0, si_errno 4, si_code 8, si_pid 16, si_uid 20, si_status 24
  const info = new Int32Array(32);
  if (libc.waitid(P_PID, pid, info, WSTOPPED | WNOHANG, null) !== 0) return null;
  return info[4] === pid && info[2] === CLD_STOPPED ? (info[6] ?? null) : null;
}

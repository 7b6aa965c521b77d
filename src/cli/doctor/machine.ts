/** What the process finds around it: version, limits, environment, and what `lockd exec` needs of the system. */
import { ptr } from "bun:ffi";
import { readFileSync } from "node:fs";
import { release } from "node:os";
import { readDescriptors } from "../../net/descriptors.ts";
import { SERVER_LIMITS } from "../../net/limits.ts";
import { type Check, errorText } from "./check.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export function checkVersion(software: string): Check {
  const build = import.meta.url.includes("/$bunfs/") ? process.execPath : "from source";
  const platform = `${process.platform} ${process.arch}, kernel ${release()}`;
  return {
    check: "version",
    state: "ok",
    summary: `lockd ${software}, ${build}, Bun ${Bun.version}, ${platform}`,
    details: { software, build, bun: Bun.version, platform: process.platform, arch: process.arch, kernel: release() },
  };
}

/** Descriptors kept for files, the store and outgoing connections. */
const RESERVED = 64;
/** Fewer are soon used up by the clients of a hundred machines. */
const OPEN_FILES_LOW = 4096;

/** `limit`: open files that this process may have; null when the system does not tell. */
export function checkLimits(limit: number | null = readDescriptors().limit): Check {
  if (limit === null) return { check: "limits", state: "ok", summary: "the limit of open files cannot be seen here", details: { openFiles: null } };
  const connections = Math.max(0, Math.min(SERVER_LIMITS.connectionsMax, limit - RESERVED));
  const details = { openFiles: limit, connections };
  const summary = `${limit.toLocaleString("en")} open files: a server takes ${connections.toLocaleString("en")} connections`;
  if (limit >= OPEN_FILES_LOW) return { check: "limits", state: "ok", summary, details };
  return { check: "limits", state: connections < RESERVED ? "failed" : "warning", summary, hint: "raise it: LimitNOFILE=65536 in the unit, or ulimit -Hn", details };
}

/** Variables that change what the executable itself does, whoever set them. */
const DANGEROUS = ["BUN_OPTIONS", "BUN_BE_BUN", "LD_PRELOAD", "LD_LIBRARY_PATH"];

/** Tells names only: values may be secrets. Unknown LOCKD_ variables are mistakes of the configuration. */
export function checkEnvironment(environment: Environment): Check {
  const names = Object.keys(environment).sort();
  const own = names.filter((name) => name.startsWith("LOCKD_"));
  const dangerous = DANGEROUS.filter((name) => environment[name] !== undefined && environment[name] !== "");
  const details = { variables: own, dangerous };
  if (dangerous.length > 0) {
    return {
      check: "environment",
      state: "warning",
      summary: `${dangerous.join(", ")} set: code of others may run inside lockd`,
      hint: `unset ${dangerous.join(" ")}, in the unit: UnsetEnvironment=${dangerous.join(" ")}`,
      details,
    };
  }
  return { check: "environment", state: "ok", summary: own.length === 0 ? "no LOCKD_ variables" : own.join(", "), details };
}

const PR_GET_PDEATHSIG = 2;

/** Calls into the C library, the parent-death signal, and /proc: without them no command can be guarded. */
export async function checkSystem(): Promise<Check> {
  if (process.platform !== "linux") {
    return { check: "exec", state: "warning", summary: `exec, elect and servers are not supported on ${process.platform}`, hint: "`lockd lock --hold` and the client library work on every platform" };
  }
  try {
    const { check, libc } = await import("../../system/libc.ts");
    const signal = new Int32Array(1);
    check("prctl", () => libc.prctl(PR_GET_PDEATHSIG, BigInt(ptr(signal)), 0, 0, 0));
    readFileSync("/proc/self/stat", "latin1");
    readFileSync("/proc/self/status", "latin1");
    return { check: "exec", state: "ok", summary: "C library, prctl and /proc are there for `lockd exec`" };
  } catch (error) {
    return {
      check: "exec",
      state: "failed",
      summary: `\`lockd exec\` cannot guard a command here: ${errorText(error)}`,
      hint: "it needs /proc, prctl and calls into the C library (MemoryDenyWriteExecute must be off in a unit)",
    };
  }
}

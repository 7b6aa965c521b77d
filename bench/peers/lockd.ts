/**
 * The compiled lockd as a contestant: one durable server on a port of its own. Reads the port from the
 * line that says that it is ready.
 */
import { LockdError } from "../../src/errors.ts";
import type { Stage, StartedProcess } from "../lib/stage.ts";
import { lockdProgram } from "../lib/tools.ts";

export interface LockdServer {
  /** `127.0.0.1:PORT` */
  readonly address: string;
  readonly process: StartedProcess;
}

export interface LockdOptions {
  /** data directory; default: a new one */
  data?: string;
  /** further flags of `lockd serve` */
  flags?: readonly string[];
}

/** Starts a server; resolves as soon as it says that it is ready. */
export async function startLockd(stage: Stage, options: LockdOptions = {}): Promise<LockdServer> {
  const server = stage.start([
    ...[lockdProgram(), "serve", "--data", options.data ?? stage.folder("lockd"), "--listen", "127.0.0.1:0", "--http", "off"],
    ...["--log-format", "json", "--log-level", "info", ...(options.flags ?? [])],
  ]);
  for await (const line of server.stderrLines()) {
    const address = readyAddress(line);
    if (address !== null) return { address, process: server };
  }
  throw new LockdError("unavailable", `start lockd: it ended: ${server.lastWords()}`);
}

/** The `listen` field of the log line with msg `ready`; null for every other line. */
export function readyAddress(line: string): string | null {
  let entry: unknown;
  try {
    entry = JSON.parse(line);
  } catch {
    return null; // not a line of the log
  }
  if (typeof entry !== "object" || entry === null || !("msg" in entry) || entry.msg !== "ready") return null;
  return "listen" in entry && typeof entry.listen === "string" ? entry.listen : null;
}

/** Resident memory of a process in bytes, as /proc tells it. */
export async function residentBytes(pid: number): Promise<number> {
  const status = await Bun.file(`/proc/${pid}/status`).text();
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
  if (kilobytes === undefined) throw new LockdError("failed", `read memory of process ${pid}: no VmRSS`);
  return Number(kilobytes) * 1024;
}

/**
 * What a service manager such as systemd hears of the process: ready, status, stopping, and the
 * watchdog's sign of life (sd_notify(3)). Loaded only when NOTIFY_SOCKET is set; knows no server.
 */
import { closeSync } from "node:fs";
import { openLibc } from "../clock/libc.ts";
import type { Timers } from "../clock/clock.ts";
import { LockdError } from "../errors.ts";
import type { Logger } from "./types.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export interface Notifier {
  /** One datagram of `NAME=value` lines. A manager that does not listen is logged once and ignored. */
  notify(assignments: Readonly<Record<string, string>>): void;
  /**
   * Sends WATCHDOG=1 at half of the time that the manager allows, as long as `alive` says so; that the
   * event loop runs is proved by the beat itself. Does nothing when the manager has no watchdog.
   */
  startWatchdog(timers: Timers, alive: () => boolean): void;
  close(): void;
}

/** Linux, x64 and arm64 alike. */
const AF_UNIX = 1;
const SOCK_DGRAM_CLOEXEC_NONBLOCK = 2 | 0o2000000 | 0o4000;
const MSG_NOSIGNAL = 0x4000;
/** sun_path of sockaddr_un (unix(7)). */
const PATH_BYTES_MAX = 108;

/** Throws LockdError `config` when NOTIFY_SOCKET is no address of a local socket. */
export function openNotifier(socket: string, environment: Environment, logger: Logger): Notifier {
  const address = socketAddress(socket);
  const library = openLibc({
    socket: { args: ["i32", "i32", "i32"], returns: "i32" },
    sendto: { args: ["i32", "ptr", "u64", "i32", "ptr", "u32"], returns: "i64" },
  });
  const fd = library.symbols.socket(AF_UNIX, SOCK_DGRAM_CLOEXEC_NONBLOCK, 0);
  if (fd < 0) throw new LockdError("failed", "notify the service manager: no socket could be opened");
  const period = watchdogPeriodMs(environment, process.pid);
  let failed = false;
  let beat: { cancel(): void } | null = null;

  const notify = (assignments: Readonly<Record<string, string>>): void => {
    const bytes = Buffer.from(encodeAssignments(assignments));
    const sent = library.symbols.sendto(fd, bytes, bytes.length, MSG_NOSIGNAL, address, address.length);
    if (Number(sent) === bytes.length) {
      failed = false;
    } else if (!failed) {
      failed = true;
      logger.warn("service-manager-unreachable", { socket, lost: Object.keys(assignments).join(" ") });
    }
  };
  return {
    notify,
    startWatchdog: (timers, alive) => {
      if (period === null) return;
      const send = () => (alive() ? notify({ WATCHDOG: "1" }) : undefined);
      send();
      beat = timers.every(period / 2, send);
    },
    close: () => {
      beat?.cancel();
      closeSync(fd);
    },
  };
}

/** `NAME=value` lines; a newline in a value would begin an assignment of its own. */
export const encodeAssignments = (assignments: Readonly<Record<string, string>>): string =>
  Object.entries(assignments)
    .map(([name, value]) => `${name}=${value.replaceAll("\n", " ")}`)
    .join("\n");

/** Milliseconds after which the manager gives the process up, null when it does not watch this one. */
export function watchdogPeriodMs(environment: Environment, pid: number): number | null {
  const usec = environment["WATCHDOG_USEC"];
  const watched = environment["WATCHDOG_PID"];
  if (usec === undefined || !/^[1-9]\d{0,15}$/.test(usec)) return null;
  if (watched !== undefined && watched !== String(pid)) return null;
  return Number(usec) / 1000;
}

/** sockaddr_un of a path or, with a leading `@`, of an abstract name. */
function socketAddress(socket: string): Uint8Array {
  const name = Buffer.from(socket);
  const abstract = socket.startsWith("@");
  if ((!abstract && !socket.startsWith("/")) || name.length < 2 || name.length >= PATH_BYTES_MAX) {
    throw new LockdError("config", `read NOTIFY_SOCKET: ${JSON.stringify(socket)} is not an absolute path or an abstract name of up to 107 bytes`);
  }
  if (abstract) name[0] = 0;
  // a path ends in a NUL, an abstract name at its length
  const address = Buffer.alloc(2 + name.length + (abstract ? 0 : 1));
  address.writeUInt16LE(AF_UNIX, 0);
  name.copy(address, 2);
  return address;
}

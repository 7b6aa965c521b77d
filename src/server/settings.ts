/**
 * What a server process reads from its configuration, typed and checked before anything is opened.
 * Knows the names of core options; opens no socket and no file.
 */
import { lookup } from "node:dns/promises";
import { type Address, parseAddress } from "../config/address.ts";
import { dataDirectory } from "../config/data-directory.ts";
import { ConfigReader } from "../config/reader.ts";
import type { Config } from "../config/types.ts";
import { assert, LockdError } from "../errors.ts";
import { isLoopbackHost } from "../loopback.ts";
import { LOG_LEVELS, type LogFormat } from "../observe/logging.ts";
import type { LogLevel } from "../observe/types.ts";
import type { ServerSecurity } from "../security/server-security.ts";

export interface ServerSettings {
  name: string;
  /** `host:port` as configured */
  listen: string;
  /** null: no HTTP server */
  http: Address | null;
  dataDirectory: string;
  insecure: boolean;
  /** texts of [[auth.client]] */
  clients: readonly string[];
  traceMessages: boolean;
  /** null: nobody waits on a descriptor */
  readyFd: number | null;
  log: { level: LogLevel; format: LogFormat; /** null: standard error */ file: string | null };
}

export function readSettings(config: Config): ServerSettings {
  const values = new ConfigReader(config.core);
  const http = values.stringOrNull("http");
  const format = values.string("log-format");
  assert(format === "text" || format === "json", "log-format is one of its choices");
  return {
    name: values.string("name"),
    listen: values.string("listen"),
    http: http === null ? null : addressOf(http),
    dataDirectory: dataDirectory(values),
    insecure: values.boolean("insecure"),
    clients: clientsOf(config),
    traceMessages: values.boolean("trace-messages"),
    readyFd: values.numberOrNull("ready-fd"),
    log: { level: logLevelOf(config), format, file: values.stringOrNull("log-file") },
  };
}

/** None when the configuration has no such section. */
function clientsOf(config: Config): readonly string[] {
  const section = config.sections.get("auth");
  return section === undefined ? [] : new ConfigReader(section).list("client");
}

export function logLevelOf(config: Config): LogLevel {
  const text = new ConfigReader(config.core).string("log-level");
  const level = LOG_LEVELS.find((name) => name === text);
  assert(level !== undefined, "log-level is one of its choices");
  return level;
}

export function addressOf(text: string): Address {
  const address = parseAddress(text);
  assert(address !== null, `${text} was accepted as an address`);
  return address;
}

/** What makes an address fit to be reached by other machines. */
export type Protection = Pick<ServerSecurity, "methods"> & { tls: object | null };

/**
 * Which of the addresses other machines can reach without having to say who they are, or only by a
 * token that everybody between can read. Throws LockdError `config` when there is one and it was not
 * asked for by --insecure.
 */
export async function checkExposure(
  settings: Pick<ServerSettings, "listen" | "http" | "insecure">,
  protection: Protection,
): Promise<string[]> {
  const candidates = [{ option: "listen", address: addressOf(settings.listen), danger: wireDanger(protection) }];
  if (settings.http !== null) candidates.push({ option: "http", address: settings.http, danger: HTTP_DANGER });
  const exposed: string[] = [];
  for (const { option, address, danger } of candidates) {
    if (danger === null || (await staysOnThisMachine(address.host))) continue;
    if (!settings.insecure) {
      throw new LockdError("config", `check --${option}: ${address.host} can be reached from other machines, and ${danger.why}`, { hint: danger.hint });
    }
    exposed.push(option);
  }
  return exposed;
}

interface Danger {
  why: string;
  hint: string;
}

const NOBODY_ASKED = "nothing asks them who they are";
const HTTP_DANGER: Danger = {
  why: NOBODY_ASKED,
  hint: "listen on 127.0.0.1 and reach it through a tunnel, or accept the risk on a trusted network with --insecure",
};

function wireDanger({ methods, tls }: Protection): Danger | null {
  if (methods.length === 0) {
    return {
      why: NOBODY_ASKED,
      hint: "set --secret-file, or --tls-cert, --tls-key and --tls-ca; or listen on 127.0.0.1; or accept the risk on a trusted network with --insecure",
    };
  }
  if (tls !== null || methods.includes("secret")) return null;
  return { why: "tokens would cross the network in the clear", hint: "set --tls-cert and --tls-key, or accept the risk on a trusted network with --insecure" };
}

/** A name counts as loopback only if all that it stands for now is; what does not resolve fails at binding. */
async function staysOnThisMachine(host: string): Promise<boolean> {
  if (isLoopbackHost(host)) return true;
  try {
    const found = await lookup(host, { all: true });
    return found.every(({ address }) => isLoopbackHost(address));
  } catch {
    return false;
  }
}

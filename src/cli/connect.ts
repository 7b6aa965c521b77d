/** How a command becomes a client: servers and credentials from its options, and who asks. */
import { readFileSync } from "node:fs";
import { connect, type LockdClient } from "../client/client.ts";
import type { ConfigReader } from "../config/reader.ts";
import { readClientSecurity } from "../security/client-files.ts";
import { clientFiles } from "../security/option-names.ts";
import { softwareVersion } from "../version.ts";
import type { ConnectChoices } from "./types.ts";

/** See CommandContext.connect; `values` hold the client options. */
export async function connectClient(values: ConfigReader, choices: ConnectChoices & { program: string }): Promise<LockdClient> {
  return connect({
    servers: choices.servers ?? values.list("connect"),
    security: readClientSecurity(clientFiles(values)),
    name: userName(),
    program: choices.program,
    software: `lockd ${await softwareVersion()}`,
    wait: choices.waitMs,
    signal: choices.signal,
  });
}

/**
 * The login name for listings: by the user id, because USER is missing in cron jobs and units and is
 * not changed by every way to become another user; else LOGNAME, else the number.
 */
function userName(): string {
  const uid = process.getuid?.();
  const named = uid === undefined ? undefined : accountName(uid);
  return named ?? process.env["LOGNAME"] ?? process.env["USER"] ?? `uid ${uid ?? "unknown"}`;
}

function accountName(uid: number): string | undefined {
  try {
    for (const line of readFileSync("/etc/passwd", "utf8").split("\n")) {
      const [name, , id] = line.split(":");
      if (id === String(uid)) return name;
    }
  } catch {
    // a system without that file: the environment has to do
  }
  return undefined;
}

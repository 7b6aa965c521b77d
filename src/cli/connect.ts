/** How a command becomes a client: servers and credentials from its options, and who asks. */
import { connect, type LockdClient } from "../client/client.ts";
import type { ConfigReader } from "../config/reader.ts";
import { readClientSecurity } from "../security/client-files.ts";
import { clientFiles } from "../security/option-names.ts";
import { currentAccount } from "../system/accounts.ts";
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
    onRetry: choices.onRetry,
  });
}

/**
 * The login name for listings: by the user id, because USER is missing in cron jobs and units and is
 * not changed by every way to become another user; else LOGNAME, else the number.
 */
function userName(): string {
  return currentAccount()?.name ?? process.env["LOGNAME"] ?? process.env["USER"] ?? `uid ${process.getuid?.() ?? "unknown"}`;
}

/** What every client command does around its own work: connect to `--connect`, say who asks, close. */
import { readFileSync } from "node:fs";
import type { CommandContext } from "../../../src/cli/types.ts";
import { connect, type LockdClient } from "../../../src/client/client.ts";
import { readClientSecurity } from "../../../src/security/client-files.ts";
import { clientFiles } from "../../../src/security/option-names.ts";
import { softwareVersion } from "../../../src/version.ts";

export interface ClientChoices {
  /** what listings show as the program; default `lockd COMMAND` */
  program: string;
  /** how long to look for a server: absent, one round over all; null: without end */
  waitMs?: number | null;
  signal?: AbortSignal;
}

/** Runs `work` with a connected client and closes it whatever happens. Rejects as `connect` does. */
export async function withClient<T>(context: CommandContext, choices: ClientChoices, work: (client: LockdClient) => Promise<T>): Promise<T> {
  const client = await connectAs(context, choices);
  try {
    return await work(client);
  } finally {
    await client.close();
  }
}

/** A connected client, which the caller closes: servers and credentials from the command's options. Rejects as `connect` does. */
export async function connectAs(context: CommandContext, choices: ClientChoices): Promise<LockdClient> {
  return connect({
    servers: context.values.list("connect"),
    security: readClientSecurity(clientFiles(context.values)),
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
export function userName(): string {
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

/**
 * Which files a client's security comes from: names of options and of files, never contents, so that
 * declarations of commands may load it, and the names may be handed to a helper process.
 */
import type { ConfigReader } from "../config/reader.ts";

/** Names of the options that a client's security comes from; every command that talks to a server takes them. */
export const CLIENT_SECURITY_OPTIONS = ["tls-cert", "tls-key", "tls-ca", "secret-file", "token-file", "insecure"] as const;

/** Absolute paths; null: not given. */
export interface ClientFiles {
  tlsCert: string | null;
  tlsKey: string | null;
  tlsCa: string | null;
  secretFile: string | null;
  tokenFile: string | null;
  insecure: boolean;
}

export function clientFiles(values: ConfigReader): ClientFiles {
  return {
    tlsCert: values.stringOrNull("tls-cert"),
    tlsKey: values.stringOrNull("tls-key"),
    tlsCa: values.stringOrNull("tls-ca"),
    secretFile: values.stringOrNull("secret-file"),
    tokenFile: values.stringOrNull("token-file"),
    insecure: values.boolean("insecure"),
  };
}

/**
 * The module `lockd:api`: what external plugins import. Everything here is part of the plugin interface
 * and versioned with it (API_VERSION); docs/plugins.md describes it.
 */
import { CLIENT_SECURITY_OPTIONS } from "../security/option-names.ts";

export { LockdError } from "../errors.ts";
export { readBoolean, readBytes, readInteger, readText } from "./fields.ts";
export { API_VERSION, definePlugin } from "./types.ts";

/** Options of a command that talks to a server by `context.connect()`: where servers are, and credentials. */
export const clientOptions: readonly string[] = ["connect", ...CLIENT_SECURITY_OPTIONS];

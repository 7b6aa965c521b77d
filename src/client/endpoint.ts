/** Server addresses as users write them: `host:port`, `[v6]:port`. Knows no socket. */
import { LockdError } from "../errors.ts";

export interface Endpoint {
  /** name or IP address, without brackets */
  host: string;
  port: number;
  /** as it was given, for messages */
  text: string;
}

const ADDRESS = /^(?:\[(?<v6>[0-9a-fA-F:.]+(?:%[^\]]+)?)\]|(?<host>[^\s:[\]]+)):(?<port>[0-9]{1,5})$/;

/** Throws LockdError `invalid` when the text is not an address. */
export function parseEndpoint(text: string): Endpoint {
  const match = ADDRESS.exec(text);
  const host = match?.groups?.["v6"] ?? match?.groups?.["host"];
  const port = Number(match?.groups?.["port"]);
  if (host === undefined || !(port >= 1 && port <= 65_535)) {
    throw new LockdError("invalid", `parse server address ${JSON.stringify(text)}: not host:port or [v6]:port`);
  }
  return { host, port, text };
}

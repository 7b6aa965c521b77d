/** A client's security out of its files. Knows no option but for messages. */
import { LockdError } from "../errors.ts";
import type { ClientSecurity } from "./client-security.ts";
import { readPem, readSecret, readToken } from "./files.ts";
import type { ClientFiles } from "./option-names.ts";

/** Reads them now. Throws LockdError `config` naming option and file. */
export function readClientSecurity(files: ClientFiles): ClientSecurity {
  const { tlsCert, tlsKey, tlsCa, secretFile, tokenFile, insecure } = files;
  if ((tlsCert === null) !== (tlsKey === null)) {
    const [given, missing] = tlsCert === null ? ["tls-key", "tls-cert"] : ["tls-cert", "tls-key"];
    throw new LockdError("config", `read ${given}: it needs ${missing}, too`);
  }
  const tls = {
    ...(tlsCa === null ? {} : { ca: readPem("tls-ca", tlsCa) }),
    ...(tlsCert === null || tlsKey === null ? {} : { certificate: readPem("tls-cert", tlsCert), key: readPem("tls-key", tlsKey) }),
  };
  return {
    ...(tlsCa === null && tlsCert === null ? {} : { tls }),
    ...(secretFile === null ? {} : { secret: readSecret("secret-file", secretFile) }),
    ...(tokenFile === null ? {} : { token: readToken("token-file", tokenFile) }),
    ...(insecure ? { insecure } : {}),
  };
}

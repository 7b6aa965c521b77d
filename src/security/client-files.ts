/** A client's security out of its files. Knows no option but for messages. */
import { LockdError } from "../errors.ts";
import type { ClientSecurity } from "./client-security.ts";
import { readPem, readSecret, readToken } from "./files.ts";
import { checkPair } from "./key-pair.ts";
import type { ClientFiles } from "./option-names.ts";

/** Reads them now. Throws LockdError `config` naming option and file. */
export function readClientSecurity(files: ClientFiles): ClientSecurity {
  const { tlsCert, tlsKey, tlsCa, secretFile, tokenFile, insecure } = files;
  if ((tlsCert === null) !== (tlsKey === null)) {
    const [given, missing] = tlsCert === null ? ["tls-key", "tls-cert"] : ["tls-cert", "tls-key"];
    throw new LockdError("config", `read ${given}: it needs ${missing}, too`);
  }
  const pair = tlsCert === null || tlsKey === null ? {} : readPair(tlsCert, tlsKey);
  const tls = {
    ...(tlsCa === null ? {} : { ca: readPem("tls-ca", tlsCa) }),
    ...pair,
  };
  return {
    ...(tlsCa === null && tlsCert === null ? {} : { tls }),
    ...(secretFile === null ? {} : { secret: readSecret("secret-file", secretFile) }),
    ...(tokenFile === null ? {} : { token: readToken("token-file", tokenFile) }),
    ...(insecure ? { insecure } : {}),
  };
}

function readPair(certificateFile: string, keyFile: string): { certificate: string; key: string } {
  const certificate = readPem("tls-cert", certificateFile);
  const key = readPem("tls-key", keyFile);
  checkPair({ certificate, certificateFile, key, keyFile });
  return { certificate, key };
}

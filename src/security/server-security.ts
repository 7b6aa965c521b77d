/**
 * The security of a server's wire out of its configuration: files are read and checked here, at the
 * start and again at each reload. Knows no socket; keeps secrets in memory only.
 */
import { createHash } from "node:crypto";
import type { ConfigReader } from "../config/reader.ts";
import { LockdError } from "../errors.ts";
import { Authenticator } from "./authenticator.ts";
import { sameBytes } from "./challenge.ts";
import { type ClientEntry, clientEntries } from "./clients.ts";
import { readableByAll, readPem, readSecret, readToken } from "./files.ts";
import { checkPair, parseCertificate } from "./key-pair.ts";
import { AccessRules } from "./rules.ts";

/** Contents of the PEM files. */
export interface ServerTls {
  certificate: string;
  key: string;
  /** CA of clients' certificates; null: none is asked for */
  ca: string | null;
  /** SHA-256 of the certificate (DER) */
  certificateHash: Uint8Array;
  /** end of its validity, wall clock */
  expiresMs: number;
}

export interface ServerSecurity {
  tls: ServerTls | null;
  authenticator: Authenticator;
  access: AccessRules;
  /** by what it is of, a digest of what was read: tells what a reload has changed in files of the same name */
  digests: ReadonlyMap<string, string>;
  /** how clients may say who they are, for the log */
  methods: readonly string[];
  /** secret files that every user of this machine may read */
  exposedFiles: readonly string[];
}

/** `clients` are the texts of `[[auth.client]]`. Throws LockdError `config`. */
export function readServerSecurity(
  values: ConfigReader,
  options: { clients: readonly string[]; random: (count: number) => Uint8Array },
): ServerSecurity {
  const tls = readTls(values);
  const entries = clientEntries(options.clients);
  const secretFile = values.stringOrNull("secret-file");
  const secret = secretFile === null ? null : readSecret("secret-file", secretFile);
  const tokens = entries.flatMap(tokenOf);
  const shared = tokens.find(({ sha256 }, index) => tokens.findIndex((other) => sameBytes(other.sha256, sha256)) !== index);
  if (shared !== undefined) throw new LockdError("config", `read [[auth.client]]: the token of ${shared.name} is that of another client, too`);
  const authenticator = new Authenticator({
    certificates: tls !== null && tls.ca !== null,
    secret,
    tokens,
    insecure: values.boolean("insecure"),
    random: options.random,
  });
  if (entries.length > 0 && !authenticator.asks) {
    throw new LockdError("config", "read [[auth.client]]: there are rules, and nothing by which a client could show who it is", {
      hint: "give each client a token-sha256 or token-file, or set tls-ca or secret-file",
    });
  }
  const methods = [
    ...(tls?.ca === null || tls === null ? [] : ["certificate"]),
    ...(secret === null ? [] : ["secret"]),
    ...(tokens.length === 0 ? [] : ["token"]),
  ];
  const digests = new Map([
    ["certificate", digestOf(tls?.certificate ?? "", tls?.key ?? "")],
    ["ca", digestOf(tls?.ca ?? "")],
    ["secret", digestOf(secret ?? "")],
    ["tokens", digestOf(...tokens.flatMap(({ name, sha256 }) => [`${name}\0`, sha256]))],
  ]);
  const secretFiles = [secretFile, values.stringOrNull("tls-key"), ...entries.map(({ tokenFile }) => tokenFile)];
  return {
    tls,
    authenticator,
    access: new AccessRules({ asks: authenticator.asks, clients: entries }),
    digests,
    methods,
    exposedFiles: secretFiles.filter((path) => path !== null).filter(readableByAll),
  };
}

function readTls(values: ConfigReader): ServerTls | null {
  const certificateFile = values.stringOrNull("tls-cert");
  const keyFile = values.stringOrNull("tls-key");
  const caFile = values.stringOrNull("tls-ca");
  if (certificateFile === null || keyFile === null) {
    const given = ["tls-cert", "tls-key", "tls-ca"].filter((name) => values.stringOrNull(name) !== null);
    if (given.length === 0) return null;
    throw new LockdError("config", `read ${given.join(", ")}: a server's TLS needs both tls-cert and tls-key`, {
      hint: "`lockd tls issue` makes them",
    });
  }
  const certificate = readPem("tls-cert", certificateFile);
  const key = readPem("tls-key", keyFile);
  const { raw, validTo } = checkPair({ certificate, certificateFile, key, keyFile });
  const ca = caFile === null ? null : readPem("tls-ca", caFile);
  if (ca !== null && caFile !== null) parseCertificate("tls-ca", caFile, ca);
  const certificateHash = new Uint8Array(createHash("sha256").update(raw).digest());
  return { certificate, key, ca, certificateHash, expiresMs: Date.parse(validTo) };
}

function digestOf(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest("hex");
}

function tokenOf({ name, tokenSha256, tokenFile }: ClientEntry): { name: string; sha256: Uint8Array }[] {
  if (tokenSha256 !== null) return [{ name, sha256: new Uint8Array(Buffer.from(tokenSha256, "hex")) }];
  if (tokenFile === null) return [];
  const token = readToken("token-file", tokenFile);
  return [{ name, sha256: new Uint8Array(createHash("sha256").update(token).digest()) }];
}

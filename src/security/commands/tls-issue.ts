/** `lockd tls issue NAME`: a certificate of the private CA, with all files that its owner needs. */
import { isIP } from "node:net";
import { join } from "node:path";
import type { CommandContext } from "../../cli/types.ts";
import { parseAddress } from "../../config/address.ts";
import { LockdError } from "../../errors.ts";
import { quoted } from "../../text.ts";
import { CLIENT_NAME } from "../clients.ts";
import { readPem } from "../files.ts";
import { writeNewFiles } from "../new-files.ts";
import { issueCertificate } from "../x509.ts";

export async function run({ positionals, values, out }: CommandContext): Promise<number> {
  const [name = ""] = positionals;
  const directory = values.stringOrNull("dir");
  const target = values.stringOrNull("out");
  if (directory === null || target === null) {
    throw new LockdError("usage", `tls issue: ${directory === null ? "--dir" : "--out"} is missing`, { hint: "lockd tls issue NAME --dir DIR --out DIR" });
  }
  if (!CLIENT_NAME.test(name)) throw new LockdError("usage", `tls issue: ${quoted(name)} is not a name (accepted: 1 to 64 letters, digits, dots, dashes, underscores and @)`);
  const given = values.list("host");
  const bad = given.find((host) => !isHost(host));
  if (bad !== undefined) throw new LockdError("usage", `tls issue: --host: ${quoted(bad)} is neither a host name nor an IP address`);
  const authority = { certificatePem: readPem("CA", join(directory, "ca.pem")), keyPem: readPem("CA", join(directory, "ca-key.pem")) };
  const hosts = given.length > 0 ? given : isHost(name) ? [name] : [];
  const issued = issueCertificate(authority, { name, hosts, nowMs: Date.now(), days: values.number("days") });
  writeNewFiles(target, [
    { name: "key.pem", text: issued.keyPem, secret: true },
    { name: "cert.pem", text: issued.certificatePem, secret: false },
    { name: "ca.pem", text: authority.certificatePem, secret: false },
  ]);
  const [certificate, key, ca] = [join(target, "cert.pem"), join(target, "key.pem"), join(target, "ca.pem")];
  await out.result({ name, certificate, key, ca }, `${certificate}\n${key}\n${ca}\n`);
  return 0;
}

/** A name may begin with `*.` for all of one level. */
const isHost = (host: string): boolean => isIP(host) !== 0 || parseAddress(`${host.replace(/^\*\./, "")}:1`) !== null;

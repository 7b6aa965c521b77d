/** Whether a certificate and a key are what they should be, and belong together, told before TLS would. Knows no option but for messages. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { LockdError } from "../errors.ts";

/** What TLS would say only when somebody connects. Throws LockdError `config`. */
export function checkPair(files: { certificate: string; certificateFile: string; key: string; keyFile: string }): X509Certificate {
  const certificate = parseCertificate("tls-cert", files.certificateFile, files.certificate);
  let matches: boolean;
  try {
    matches = certificate.checkPrivateKey(createPrivateKey(files.key));
  } catch (error) {
    throw new LockdError("config", `read tls-key ${files.keyFile}: it is not a private key without a passphrase`, { cause: error });
  }
  if (!matches) throw new LockdError("config", `read tls-key ${files.keyFile}: it does not belong to the certificate ${files.certificateFile}`);
  return certificate;
}

/** Throws LockdError `config`. */
export function parseCertificate(option: string, path: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw new LockdError("config", `read ${option} ${path}: it is not a certificate`, { cause: error });
  }
}

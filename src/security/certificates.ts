/** What certificates say: the client they name, and in words what is wrong with one. Knows no socket. */
import { X509Certificate } from "node:crypto";

/** The common name, else the first DNS name; null when it names nobody, or several. `der` is the certificate. */
export function nameInCertificate(der: Uint8Array): string | null {
  const { subject, subjectAltName } = new X509Certificate(der);
  const commonNames = (subject ?? "").split("\n").filter((line) => line.startsWith("CN="));
  if (commonNames.length === 1) return commonNames[0]?.slice("CN=".length) ?? null;
  if (commonNames.length > 1) return null;
  const [first] = (subjectAltName ?? "").split(", ").filter((entry) => entry.startsWith("DNS:"));
  return first?.slice("DNS:".length) ?? null;
}

/** OpenSSL's verdict on the other side's certificate in words. */
export const certificateProblem = (code: string): string => PROBLEMS[code] ?? code;

const UNKNOWN_CA = "it is not of a CA that is trusted here";
const PROBLEMS: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "it has expired",
  CERT_NOT_YET_VALID: "it is not valid yet",
  CERT_REVOKED: "it was revoked",
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_CA,
  INVALID_PURPOSE: "it was not issued for this purpose",
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_CA,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_CA,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_CA,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_CA,
};

export const isCertificateProblem = (code: string): boolean => Object.hasOwn(PROBLEMS, code);

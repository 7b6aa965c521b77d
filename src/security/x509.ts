/**
 * X.509 certificates of a small private CA: ECDSA P-256 keys, SHA-256 signatures, written as DER (X.690)
 * after RFC 5280. Knows no file and no command; keys and signatures are node:crypto's.
 */
import { createHash, createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, sign, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { LockdError } from "../errors.ts";

const DAY_MS = 86_400_000;
/** Clocks of two machines may differ by this much before a new certificate is refused as not yet valid. */
const SKEW_MS = 5 * 60_000;

const OID = {
  ecdsaWithSha256: "2a8648ce3d040302",
  commonName: "550403",
  subjectKeyIdentifier: "551d0e",
  keyUsage: "551d0f",
  subjectAltName: "551d11",
  basicConstraints: "551d13",
  authorityKeyIdentifier: "551d23",
  extendedKeyUsage: "551d25",
  serverAuth: "2b06010505070301",
  clientAuth: "2b06010505070302",
} as const;

export interface IssuedCertificate {
  certificatePem: string;
  /** PKCS #8 */
  keyPem: string;
}

export interface Validity {
  /** wall clock at which it is issued */
  nowMs: number;
  days: number;
}

/** A new CA: its own key, signed by itself, good for signing leaves only. */
export function createAuthority(options: Validity & { name: string }): IssuedCertificate {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const subject = nameOf(options.name);
  const spki = publicKey.export({ type: "spki", format: "der" });
  const keyId = keyIdentifier(spki);
  const extensions = [
    extension(OID.basicConstraints, "critical", sequence(TRUE, integer(Buffer.from([0])))),
    // keyCertSign and cRLSign
    extension(OID.keyUsage, "critical", bitString(Buffer.from([0b0000_0110]), 1)),
    extension(OID.subjectKeyIdentifier, "plain", octets(keyId)),
  ];
  const certificatePem = signed({ ...options, issuer: subject, subject, spki, extensions, key: privateKey });
  return { certificatePem, keyPem: keyPem(privateKey) };
}

/**
 * A certificate for one server or client. `hosts` are DNS names and IP addresses by which a server is
 * reached. Throws LockdError `config` when the CA's files do not belong together or are not usable.
 */
export function issueCertificate(
  authority: IssuedCertificate,
  options: Validity & { name: string; hosts: readonly string[] },
): IssuedCertificate {
  const { certificate, key } = readAuthority(authority);
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const spki = publicKey.export({ type: "spki", format: "der" });
  const issuerKeyId = keyIdentifierOf(certificate.raw);
  const extensions = [
    extension(OID.basicConstraints, "critical", sequence()),
    // digitalSignature
    extension(OID.keyUsage, "critical", bitString(Buffer.from([0b1000_0000]), 7)),
    extension(OID.extendedKeyUsage, "plain", sequence(oid(OID.serverAuth), oid(OID.clientAuth))),
    // an empty list of names is not allowed
    ...(options.hosts.length === 0 ? [] : [extension(OID.subjectAltName, "plain", sequence(...options.hosts.map(generalName)))]),
    extension(OID.subjectKeyIdentifier, "plain", octets(keyIdentifier(spki))),
    ...(issuerKeyId === null ? [] : [extension(OID.authorityKeyIdentifier, "plain", sequence(tagged(0x80, issuerKeyId)))]),
  ];
  const notAfterMs = Math.min(options.nowMs + options.days * DAY_MS, Date.parse(certificate.validTo));
  const days = (notAfterMs - options.nowMs) / DAY_MS;
  if (days <= 0) throw unusable("the CA's certificate has expired");
  const subject = nameOf(options.name);
  const certificatePem = signed({ ...options, days, issuer: subjectOf(certificate.raw), subject, spki, extensions, key });
  return { certificatePem, keyPem: keyPem(privateKey) };
}

function readAuthority({ certificatePem, keyPem: pem }: IssuedCertificate): { certificate: X509Certificate; key: KeyObject } {
  let certificate: X509Certificate;
  let key: KeyObject;
  try {
    certificate = new X509Certificate(certificatePem);
    key = createPrivateKey(pem);
  } catch (error) {
    throw unusable("it is not a certificate and a key in PEM", error);
  }
  if (key.asymmetricKeyType !== "ec") throw unusable("its key is not an elliptic-curve key");
  if (!certificate.ca) throw unusable("its certificate is not that of a CA");
  if (!certificate.checkPrivateKey(key)) throw unusable("its key does not belong to its certificate");
  return { certificate, key };
}

const unusable = (why: string, cause?: unknown): LockdError =>
  new LockdError("config", `use CA: ${why}`, { hint: "`lockd tls init --dir DIR` makes a new one", cause });

const keyPem = (key: KeyObject): string => key.export({ type: "pkcs8", format: "pem" }).toString();

// Certificates.

interface Contents extends Validity {
  issuer: Buffer;
  subject: Buffer;
  spki: Buffer;
  extensions: readonly Buffer[];
  key: KeyObject;
}

function signed({ issuer, subject, spki, extensions, key, nowMs, days }: Contents): string {
  const algorithm = sequence(oid(OID.ecdsaWithSha256));
  const serial = randomBytes(16);
  // positive, and of full length whatever was drawn
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40;
  const validity = sequence(time(nowMs - SKEW_MS), time(nowMs + days * DAY_MS));
  const version3 = tagged(0xa0, integer(Buffer.from([2])));
  const toBeSigned = sequence(version3, integer(serial), algorithm, issuer, validity, subject, spki, tagged(0xa3, sequence(...extensions)));
  const certificate = sequence(toBeSigned, algorithm, bitString(sign("sha256", toBeSigned, key), 0));
  const lines = certificate.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

const nameOf = (commonName: string): Buffer => sequence(tagged(0x31, sequence(oid(OID.commonName), tagged(0x0c, Buffer.from(commonName)))));

function generalName(host: string): Buffer {
  return isIP(host) === 0 ? tagged(0x82, Buffer.from(host, "ascii")) : tagged(0x87, addressBytes(host));
}

/** Four or sixteen bytes of an IP address. */
function addressBytes(host: string): Buffer {
  if (isIP(host) === 4) return Buffer.from(host.split(".").map(Number));
  // URL parsing writes an embedded IPv4 part in hexadecimal, too
  const [head = "", tail] = new URL(`http://[${host}]/`).hostname.slice(1, -1).split("::");
  const groups = (text: string): string[] => text.split(":").filter((group) => group !== "");
  const before = groups(head);
  const after = groups(tail ?? "");
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => "0");
  return Buffer.from([...before, ...zeros, ...after].map((group) => group.padStart(4, "0")).join(""), "hex");
}

const extension = (id: string, weight: "critical" | "plain", value: Buffer): Buffer =>
  weight === "critical" ? sequence(oid(id), TRUE, octets(value)) : sequence(oid(id), octets(value));

/** RFC 5280, 4.2.1.2, method 1: SHA-1 of the public key's bits. */
function keyIdentifier(spki: Buffer): Buffer {
  // of a P-256 key the bits are the last 65 bytes: an uncompressed point
  return createHash("sha1").update(spki.subarray(-65)).digest();
}

/** The subject as it stands in the CA's certificate, byte for byte: issuer and subject must be equal. */
function subjectOf(certificate: Buffer): Buffer {
  const fields = children(children(certificate)[0]?.whole ?? certificate);
  // version, serial, algorithm, issuer, validity, subject
  const subject = fields[5];
  if (subject === undefined) throw unusable("its certificate has no subject");
  return subject.whole;
}

function keyIdentifierOf(certificate: Buffer): Buffer | null {
  const mark = Buffer.concat([oid(OID.subjectKeyIdentifier), Buffer.from([0x04, 0x16, 0x04, 0x14])]);
  const at = certificate.indexOf(mark);
  return at < 0 ? null : certificate.subarray(at + mark.length, at + mark.length + 20);
}

// DER.

/** Parts of a constructed value, each with its head. */
function children(der: Buffer): { whole: Buffer }[] {
  const found: { whole: Buffer }[] = [];
  let at = contentStart(der, 0).start;
  while (at < der.length) {
    const { start, length } = contentStart(der, at);
    found.push({ whole: der.subarray(at, start + length) });
    at = start + length;
  }
  return found;
}

function contentStart(der: Buffer, at: number): { start: number; length: number } {
  const first = der[at + 1] ?? 0;
  if (first < 0x80) return { start: at + 2, length: first };
  const size = first & 0x7f;
  return { start: at + 2 + size, length: der.readUIntBE(at + 2, size) };
}

function tagged(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(contents);
  if (body.length < 0x80) return Buffer.concat([Buffer.from([tag, body.length]), body]);
  const size = body.length < 0x100 ? 1 : 2;
  const length = Buffer.alloc(size);
  length.writeUIntBE(body.length, 0, size);
  return Buffer.concat([Buffer.from([tag, 0x80 | size]), length, body]);
}

const TRUE = Buffer.from([0x01, 0x01, 0xff]);
const sequence = (...items: readonly Uint8Array[]): Buffer => tagged(0x30, ...items);
const oid = (hex: string): Buffer => tagged(0x06, Buffer.from(hex, "hex"));
/** of bytes that are positive as they stand */
const integer = (bytes: Uint8Array): Buffer => tagged(0x02, bytes);
const octets = (bytes: Uint8Array): Buffer => tagged(0x04, bytes);
const bitString = (bytes: Uint8Array, unusedBits: number): Buffer => tagged(0x03, Buffer.from([unusedBits]), bytes);

/** UTCTime until 2049, GeneralizedTime from then on, as RFC 5280 wants it. */
function time(ms: number): Buffer {
  const text = `${new Date(ms).toISOString().replace(/[-:T]/g, "").slice(0, 14)}Z`;
  return Number(text.slice(0, 4)) < 2050 ? tagged(0x17, Buffer.from(text.slice(2))) : tagged(0x18, Buffer.from(text));
}

/**
 * The shared-secret challenge: both sides prove that they know the secret, which never leaves them.
 * Each proof is HMAC-SHA256 over who proves, a fresh nonce of each side, and the certificate of the TLS
 * connection if there is one, so that it is worth nothing to anybody else, elsewhere or later.
 * Pure functions; knows no frame and no file.
 */
import { createHmac, timingSafeEqual } from "node:crypto";

export const NONCE_BYTES = 32;

export interface ProofInput {
  secret: Uint8Array;
  /** the side that proves: a proof sent back to where it came from proves nothing */
  role: "client" | "server";
  clientNonce: Uint8Array;
  serverNonce: Uint8Array;
  /** SHA-256 of the server's certificate (DER) as this side sees it; empty without TLS */
  certificateHash: Uint8Array;
}

export function proofOf({ secret, role, clientNonce, serverNonce, certificateHash }: ProofInput): Uint8Array {
  const hmac = createHmac("sha256", secret);
  // every part but the last has a fixed length, so no two inputs give the same bytes
  hmac.update(`lockd 1 ${role}\0`).update(clientNonce).update(serverNonce).update(certificateHash);
  return new Uint8Array(hmac.digest());
}

/** Whether what the other side sent is that proof; takes the same time wherever they differ. */
export function proves(given: unknown, input: ProofInput): boolean {
  return given instanceof Uint8Array && sameBytes(given, proofOf(input));
}

export const isNonce = (value: unknown): value is Uint8Array => value instanceof Uint8Array && value.length === NONCE_BYTES;

export const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && timingSafeEqual(a, b);

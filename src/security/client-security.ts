/**
 * How a client secures its connections, and its half of saying who it is: what goes into HELLO, the
 * answer to a challenge, and whether the server's own proof holds. Runs in Bun and in Node. Knows no
 * socket, no frame and no file.
 */
import { randomBytes } from "node:crypto";
import { LockdError } from "../errors.ts";
import { isNonce, NONCE_BYTES, proofOf, proves } from "./challenge.ts";

/** All of it optional: without anything, connections are not encrypted and the client shows nothing. */
export interface ClientSecurity {
  /** speak TLS, and check the server's certificate and that it names the host that was asked for */
  tls?: {
    /** CA certificates in PEM; default: those that the runtime trusts */
    ca?: string;
    /** own certificate and its key in PEM */
    certificate?: string;
    key?: string;
  };
  /** shared with the server; both sides prove that they know it, and a server that does not is refused */
  secret?: Uint8Array;
  /** by which the server knows this client; beats `secret` */
  token?: string;
  /** send the token over connections that others may read */
  insecure?: boolean;
}

/** What the client sees of the connection when it stands. */
export interface ServerFacts {
  /** as it was asked for, for messages */
  label: string;
  /** SHA-256 of the server's certificate; null without TLS */
  certificateHash: Uint8Array | null;
  loopback: boolean;
}

/** How the sentence of a server ends that was shown something and does not take it. */
const NOT_ACCEPTED = "the credentials are not accepted";
const SECRET_HINT = "the secret that was given is not the server's: --secret-file must hold the same as the server's file";
const NO_SECRET_HINT = "this server takes no secret: give --token-file, or --tls-cert and --tls-key, as it wants it";
const TOKEN_HINT = "the token that was given is not one of this server's clients";

/** One handshake, from HELLO to HELLO. */
export class ClientHandshake {
  readonly #security: ClientSecurity;
  readonly #facts: ServerFacts;
  readonly #nonce: Uint8Array | null;
  #serverNonce: Uint8Array | null = null;

  constructor(security: ClientSecurity, facts: ServerFacts) {
    this.#security = security;
    this.#facts = facts;
    this.#nonce = security.secret !== undefined && security.token === undefined ? new Uint8Array(randomBytes(NONCE_BYTES)) : null;
  }

  /** The field `auth` of HELLO, undefined when there is nothing to show. Throws LockdError `denied`. */
  auth(): Readonly<Record<string, unknown>> | undefined {
    const { token, insecure } = this.#security;
    const { label, certificateHash, loopback } = this.#facts;
    if (token === undefined) return this.#nonce === null ? undefined : { nonce: this.#nonce };
    if (certificateHash === null && !loopback && insecure !== true) {
      throw new LockdError("denied", `authenticate to ${label}: a token is sent only inside TLS`, {
        hint: "give --tls-ca, the CA of the server's certificate; --insecure sends it for everybody between to read",
      });
    }
    return { token };
  }

  /** The body of PROOF, the answer to CHALLENGE. Throws LockdError `protocol` when nothing was there to be challenged. */
  prove(nonce: unknown): Readonly<Record<string, unknown>> {
    if (this.#nonce === null || this.#serverNonce !== null || !isNonce(nonce)) {
      throw new LockdError("protocol", `authenticate to ${this.#facts.label}: the challenge is not one of lockd`);
    }
    this.#serverNonce = new Uint8Array(nonce);
    return { proof: proofOf({ ...this.#shared(this.#nonce, this.#serverNonce), role: "client" }) };
  }

  /** `proof` is that field of the server's HELLO. Throws LockdError `denied` when it had to prove something and did not. */
  check(proof: unknown): void {
    if (this.#nonce === null) return;
    if (this.#serverNonce === null || !proves(proof, { ...this.#shared(this.#nonce, this.#serverNonce), role: "server" })) {
      throw new LockdError("denied", `authenticate ${this.#facts.label}: the server did not prove that it knows the secret`, {
        hint: "it may not be the server you mean, or it was started without --secret-file",
      });
    }
  }

  /**
   * The server's refusal with a hint that knows what was shown: the server tells everybody the same, so that
   * nobody learns from it which of several credentials was nearly right.
   */
  explain(refusal: LockdError): LockdError {
    if (refusal.code !== "denied" || !refusal.message.endsWith(NOT_ACCEPTED)) return refusal;
    const { token, secret } = this.#security;
    const hint = token !== undefined ? TOKEN_HINT : this.#serverNonce !== null ? SECRET_HINT : secret !== undefined ? NO_SECRET_HINT : refusal.hint;
    return new LockdError("denied", refusal.message, { ...(hint === undefined ? {} : { hint }), retryable: refusal.retryable, cause: refusal });
  }

  #shared(clientNonce: Uint8Array, serverNonce: Uint8Array) {
    const { secret } = this.#security;
    if (secret === undefined) throw new LockdError("protocol", "prove secret: there is none");
    return { secret, clientNonce, serverNonce, certificateHash: this.#facts.certificateHash ?? new Uint8Array(0) };
  }
}

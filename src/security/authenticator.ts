/**
 * Decides on the server's side who a connection is, before anything else of it is looked at: by the
 * client certificate of TLS, by a token, or by the shared-secret challenge. Knows no socket and no
 * rule; what it refuses it refuses in the same words, whichever part of the credentials was wrong.
 */
import { createHash } from "node:crypto";
import { LockdError } from "../errors.ts";
import { isNonce, NONCE_BYTES, proofOf, proves, sameBytes } from "./challenge.ts";
import { NOBODY_ASKED, type Principal } from "./rules.ts";

/** What is known of a connection below the first frame. */
export interface ConnectionFacts {
  /** null: no TLS */
  tls: {
    /** SHA-256 of this server's certificate */
    certificateHash: Uint8Array;
    /** what the client showed: nothing, a certificate of the CA with its name, or one that was refused and why */
    client: { kind: "none" } | { kind: "trusted"; name: string } | { kind: "refused"; reason: string };
  } | null;
  /** whether the other side is on this machine */
  loopback: boolean;
}

export interface AuthenticatorOptions {
  /** whether certificates of clients are asked for */
  certificates: boolean;
  secret: Uint8Array | null;
  /** SHA-256 of each token */
  tokens: readonly { name: string; sha256: Uint8Array }[];
  /** whether tokens are taken over any connection */
  insecure: boolean;
  random(count: number): Uint8Array;
}

export type Verdict =
  | { kind: "admitted"; principal: Principal; /** the server's own proof, for its HELLO */ proof: Uint8Array | null }
  | { kind: "challenge"; nonce: Uint8Array; finish(proof: unknown): Verdict };

export class Authenticator {
  readonly #options: AuthenticatorOptions;

  constructor(options: AuthenticatorOptions) {
    this.#options = options;
  }

  /** Whether a client must say who it is. */
  get asks(): boolean {
    const { certificates, secret, tokens } = this.#options;
    return certificates || secret !== null || tokens.length > 0;
  }

  /**
   * `auth` is that field of the client's HELLO, `claimedName` the name in it, which only the secret
   * lets a client choose. Throws LockdError `denied`.
   */
  begin(auth: unknown, claimedName: string, facts: ConnectionFacts): Verdict {
    if (!this.asks) return { kind: "admitted", principal: NOBODY_ASKED, proof: null };
    const client = facts.tls?.client ?? { kind: "none" };
    if (client.kind === "refused") {
      throw new LockdError("denied", `authenticate client: its certificate is not accepted: ${client.reason}`, {
        hint: "the certificate must be of the CA that the server names with --tls-ca",
      });
    }
    const { nonce, token } = typeof auth === "object" && auth !== null ? fieldsOf(auth) : {};
    if (token !== undefined) return this.#byToken(token, facts);
    if (nonce !== undefined && this.#options.secret !== null) return this.#challenge(nonce, claimedName, facts);
    if (client.kind === "trusted") return { kind: "admitted", principal: { name: client.name, by: "certificate" }, proof: null };
    if (nonce !== undefined) throw notAccepted();
    throw new LockdError("denied", "authenticate client: this server asks who its clients are, and this one shows nothing", { hint: CREDENTIALS_HINT });
  }

  #byToken(token: unknown, facts: ConnectionFacts): Verdict {
    if (facts.tls === null && !facts.loopback && !this.#options.insecure) {
      throw new LockdError("denied", "authenticate client: a token is taken only inside TLS", { hint: "anybody between may have read it: replace it, and use TLS" });
    }
    if (typeof token !== "string") throw notAccepted();
    const sha256 = createHash("sha256").update(token).digest();
    // all are looked at, so that the time tells nothing of which
    const [found] = this.#options.tokens.filter((entry) => sameBytes(entry.sha256, sha256));
    if (found === undefined) throw notAccepted();
    return { kind: "admitted", principal: { name: found.name, by: "token" }, proof: null };
  }

  #challenge(clientNonce: unknown, claimedName: string, facts: ConnectionFacts): Verdict {
    const { secret, random } = this.#options;
    if (secret === null || !isNonce(clientNonce)) throw notAccepted();
    const serverNonce = random(NONCE_BYTES);
    const certificateHash = facts.tls?.certificateHash ?? new Uint8Array(0);
    // the client proves first: who only knocks learns nothing to try secrets against
    const shared = { secret, clientNonce: new Uint8Array(clientNonce), serverNonce, certificateHash };
    return {
      kind: "challenge",
      nonce: serverNonce,
      finish: (proof) => {
        if (!proves(proof, { ...shared, role: "client" })) throw notAccepted();
        return { kind: "admitted", principal: { name: claimedName, by: "secret" }, proof: proofOf({ ...shared, role: "server" }) };
      },
    };
  }
}

/** Lets everybody in. */
export const ASKS_NOBODY = new Authenticator({ certificates: false, secret: null, tokens: [], insecure: false, random: () => new Uint8Array(0) });

const CREDENTIALS_HINT = "give --secret-file, --token-file, or --tls-cert and --tls-key, as the server wants it";

/** One sentence for an unknown token, a wrong one, a wrong secret, and a secret where none is known. */
const notAccepted = (): LockdError => new LockdError("denied", "authenticate client: the credentials are not accepted", { hint: CREDENTIALS_HINT });

function fieldsOf(auth: object): { nonce?: unknown; token?: unknown } {
  return {
    ...("nonce" in auth ? { nonce: auth.nonce } : {}),
    ...("token" in auth ? { token: auth.token } : {}),
  };
}

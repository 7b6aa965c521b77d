import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { LockdError } from "../../src/errors.ts";
import { Authenticator, type AuthenticatorOptions, type ConnectionFacts, type Verdict } from "../../src/security/authenticator.ts";
import { proofOf } from "../../src/security/challenge.ts";
import { ClientHandshake, type ClientSecurity } from "../../src/security/client-security.ts";

const SECRET = new TextEncoder().encode("correct horse battery staple");
const TOKEN = "a-token-of-some-length";
const sha256 = (text: string): Uint8Array => new Uint8Array(createHash("sha256").update(text).digest());
const CERTIFICATE = sha256("certificate");
const random = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count));

const server = (options: Partial<AuthenticatorOptions> = {}): Authenticator =>
  new Authenticator({ certificates: false, secret: null, tokens: [], insecure: false, random, ...options });

const PLAIN: ConnectionFacts = { tls: null, loopback: true };
const FAR: ConnectionFacts = { tls: null, loopback: false };
const tls = (client: NonNullable<ConnectionFacts["tls"]>["client"]): ConnectionFacts => ({ tls: { certificateHash: CERTIFICATE, client }, loopback: false });
const NO_CERTIFICATE = tls({ kind: "none" });

const client = (security: ClientSecurity, facts: { certificateHash?: Uint8Array; loopback?: boolean } = {}): ClientHandshake =>
  new ClientHandshake(security, { label: "db1:4050", certificateHash: facts.certificateHash ?? null, loopback: facts.loopback ?? true });

function errorOf(run: () => unknown): LockdError {
  try {
    run();
  } catch (error) {
    if (error instanceof LockdError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

function challenged(verdict: Verdict): Extract<Verdict, { kind: "challenge" }> {
  if (verdict.kind !== "challenge") throw new Error(`the client was ${verdict.kind}`);
  return verdict;
}

/** The whole handshake; throws what either side throws. */
function shakeHands(known: { server: Uint8Array; client: Uint8Array }, seen: { server?: ConnectionFacts; client?: Uint8Array } = {}): Verdict {
  const one = client({ secret: known.client }, seen.client === undefined ? {} : { certificateHash: seen.client });
  const verdict = challenged(server({ secret: known.server }).begin(one.auth(), "ann", seen.server ?? PLAIN));
  const { proof } = one.prove(verdict.nonce);
  const outcome = verdict.finish(proof);
  if (outcome.kind !== "admitted") throw new Error("challenged twice");
  one.check(outcome.proof);
  return outcome;
}

describe("a server that asks nobody", () => {
  test("lets in whoever comes, with or without credentials", () => {
    for (const auth of [undefined, null, 7, {}, { token: "x" }, { nonce: random(32) }]) {
      expect(server().begin(auth, "ann", FAR)).toEqual({ kind: "admitted", principal: { name: "", by: "nothing" }, proof: null });
    }
  });

  test("is refused by a client that has a secret: nobody proved anything to it", () => {
    const one = client({ secret: SECRET });
    one.auth();
    expect(errorOf(() => one.check(undefined))).toMatchObject({ code: "denied", message: expect.stringContaining("did not prove that it knows the secret") });
  });
});

describe("the shared secret", () => {
  test("lets in who knows it, under the name that the client gives itself, and the server proves it too", () => {
    expect(shakeHands({ server: SECRET, client: SECRET })).toMatchObject({ kind: "admitted", principal: { name: "ann", by: "secret" } });
    expect(shakeHands({ server: SECRET, client: SECRET }, { server: NO_CERTIFICATE, client: CERTIFICATE })).toMatchObject({ kind: "admitted" });
  });

  test("that is another one is refused", () => {
    for (const other of [SECRET.slice(1), new Uint8Array([...SECRET, 1]), new Uint8Array(28)]) {
      expect(errorOf(() => shakeHands({ server: SECRET, client: other })).code).toBe("denied");
    }
  });

  test("proves nothing over another TLS connection than the one it was proved on, nor without TLS", () => {
    expect(errorOf(() => shakeHands({ server: SECRET, client: SECRET }, { server: NO_CERTIFICATE, client: sha256("of the one between") })).code).toBe("denied");
    expect(errorOf(() => shakeHands({ server: SECRET, client: SECRET }, { server: NO_CERTIFICATE })).code).toBe("denied");
    expect(errorOf(() => shakeHands({ server: SECRET, client: SECRET }, { client: CERTIFICATE })).code).toBe("denied");
  });

  test("is never sent, nor anything that is the same twice", () => {
    const sent = (): Uint8Array[] => {
      const one = client({ secret: SECRET });
      const auth = one.auth();
      const verdict = challenged(server({ secret: SECRET }).begin(auth, "ann", PLAIN));
      const { proof } = one.prove(verdict.nonce);
      return [auth?.["nonce"], verdict.nonce, proof].filter((value): value is Uint8Array => value instanceof Uint8Array);
    };
    const [first, second] = [sent(), sent()];
    expect(first.map((bytes) => bytes.length)).toEqual([32, 32, 32]);
    for (const [index, bytes] of first.entries()) {
      expect(Buffer.from(bytes).includes(SECRET)).toBe(false);
      expect(Buffer.from(bytes).equals(Buffer.from(second[index] ?? []))).toBe(false);
    }
  });

  test("is refused when an earlier handshake is played again", () => {
    const one = client({ secret: SECRET });
    const auth = one.auth();
    const { proof } = one.prove(challenged(server({ secret: SECRET }).begin(auth, "ann", PLAIN)).nonce);
    const again = challenged(server({ secret: SECRET }).begin(auth, "ann", PLAIN));
    expect(errorOf(() => again.finish(proof)).code).toBe("denied");
  });

  test("is refused when a side gets its own proof back", () => {
    const one = client({ secret: SECRET });
    one.auth();
    const { proof } = one.prove(random(32));
    expect(errorOf(() => one.check(proof)).code).toBe("denied");
  });

  test("is refused when the server tells its proof of another conversation", () => {
    const one = client({ secret: SECRET });
    one.auth();
    one.prove(random(32));
    const stolen = proofOf({ secret: SECRET, role: "server", clientNonce: random(32), serverNonce: random(32), certificateHash: new Uint8Array(0) });
    for (const proof of [stolen, undefined, null, "", new Uint8Array(0), new Uint8Array(33)]) {
      expect(errorOf(() => one.check(proof)).code).toBe("denied");
    }
  });

  test("is not tried on nonces and proofs of another form", () => {
    for (const nonce of [null, 7, "x", new Uint8Array(0), new Uint8Array(31), new Uint8Array(33), {}]) {
      expect(errorOf(() => server({ secret: SECRET }).begin({ nonce }, "ann", PLAIN)).code).toBe("denied");
      const one = client({ secret: SECRET });
      one.auth();
      expect(errorOf(() => one.prove(nonce)).code).toBe("protocol");
    }
    for (const proof of [undefined, null, 7, "x", new Uint8Array(0), new Uint8Array(31), new Uint8Array(33)]) {
      expect(errorOf(() => challenged(server({ secret: SECRET }).begin({ nonce: random(32) }, "ann", PLAIN)).finish(proof)).code).toBe("denied");
    }
  });

  test("is proved once: a second challenge, and one that was not asked for, are refused by the client", () => {
    const one = client({ secret: SECRET });
    one.auth();
    one.prove(random(32));
    expect(errorOf(() => one.prove(random(32))).code).toBe("protocol");
    expect(errorOf(() => client({}).prove(random(32))).code).toBe("protocol");
  });
});

describe("a token", () => {
  const tokens = [{ name: "other", sha256: sha256("of-somebody-else") }, { name: "ci", sha256: sha256(TOKEN) }];

  test("is known by its digest and gives its client's name", () => {
    for (const facts of [PLAIN, NO_CERTIFICATE]) {
      expect(server({ tokens }).begin({ token: TOKEN }, "root", facts)).toEqual({ kind: "admitted", principal: { name: "ci", by: "token" }, proof: null });
    }
  });

  test("that is unknown, of another form, or shown where there are none, gets the same answer as a wrong secret", () => {
    const answers = [
      errorOf(() => server({ tokens }).begin({ token: `${TOKEN}x` }, "ci", PLAIN)),
      errorOf(() => server({ tokens }).begin({ token: 7 }, "ci", PLAIN)),
      errorOf(() => server({ secret: SECRET }).begin({ token: TOKEN }, "ci", PLAIN)),
      errorOf(() => server({ tokens }).begin({ nonce: random(32) }, "ci", PLAIN)),
      errorOf(() => challenged(server({ secret: SECRET }).begin({ nonce: random(32) }, "ci", PLAIN)).finish(random(32))),
    ];
    expect(new Set(answers.map(({ message, hint, code }) => `${code} ${message} ${hint}`)).size).toBe(1);
    expect(answers[0]).toMatchObject({ code: "denied", message: "authenticate client: the credentials are not accepted" });
  });

  test("is neither sent nor taken where others could read it, unless both are told so", () => {
    expect(errorOf(() => client({ token: TOKEN }, { loopback: false }).auth())).toMatchObject({ code: "denied", message: expect.stringContaining("only inside TLS") });
    expect(errorOf(() => server({ tokens }).begin({ token: TOKEN }, "ci", FAR))).toMatchObject({ code: "denied", message: expect.stringContaining("only inside TLS") });
    expect(client({ token: TOKEN, insecure: true }, { loopback: false }).auth()).toEqual({ token: TOKEN });
    expect(client({ token: TOKEN }, { loopback: false, certificateHash: CERTIFICATE }).auth()).toEqual({ token: TOKEN });
    expect(client({ token: TOKEN }).auth()).toEqual({ token: TOKEN });
    expect(server({ tokens, insecure: true }).begin({ token: TOKEN }, "ci", FAR).kind).toBe("admitted");
  });

  test("beats the secret when a client has both", () => {
    expect(client({ token: TOKEN, secret: SECRET }).auth()).toEqual({ token: TOKEN });
  });
});

describe("a client certificate", () => {
  const asking = server({ certificates: true });

  test("of the CA lets its owner in under the name in it, whatever it calls itself", () => {
    expect(asking.begin(undefined, "root", tls({ kind: "trusted", name: "ci" }))).toEqual({ kind: "admitted", principal: { name: "ci", by: "certificate" }, proof: null });
  });

  test("that is not accepted is refused with the reason, whatever else the client shows", () => {
    const refused = tls({ kind: "refused", reason: "it has expired" });
    const both = server({ certificates: true, tokens: [{ name: "ci", sha256: sha256(TOKEN) }] });
    for (const auth of [undefined, { token: TOKEN }]) {
      expect(errorOf(() => both.begin(auth, "ci", refused))).toMatchObject({ code: "denied", message: expect.stringContaining("it has expired") });
    }
  });

  test("that is missing is missed", () => {
    for (const facts of [NO_CERTIFICATE, PLAIN]) {
      for (const auth of [undefined, null, "token", [], {}]) {
        expect(errorOf(() => asking.begin(auth, "ci", facts))).toMatchObject({ code: "denied", message: expect.stringContaining("shows nothing") });
      }
    }
  });

  test("does not stand in for a secret that the client wants to be proved", () => {
    expect(server({ certificates: true, secret: SECRET }).begin({ nonce: random(32) }, "ci", tls({ kind: "trusted", name: "ci" })).kind).toBe("challenge");
  });
});

/** A program for Node: tries each way of securing its connection that it is told, and says what came of it. */
import { readFileSync } from "node:fs";
import { connect } from "../../src/client/client.ts";
import { LockdError } from "../../src/errors.ts";
import type { ClientSecurity } from "../../src/security/client-security.ts";

export interface Attempt {
  server: string;
  ca?: string;
  certificate?: string;
  key?: string;
  secret?: string;
  token?: string;
}

const attempts: readonly Attempt[] = JSON.parse(process.argv[2] ?? "[]");
const outcomes: string[] = [];
for (const attempt of attempts) outcomes.push(await outcomeOf(attempt));
console.log(JSON.stringify({ runtime: process.release.name, outcomes }));

async function outcomeOf(attempt: Attempt): Promise<string> {
  try {
    const client = await connect({ servers: [attempt.server], security: securityOf(attempt) });
    const lock = await client.lock("from node");
    await lock.release();
    await client.close();
    return "locked";
  } catch (error) {
    return error instanceof LockdError ? `${error.code} ${error.message}` : String(error);
  }
}

function securityOf({ ca, certificate, key, secret, token }: Attempt): ClientSecurity {
  const pem = (path: string): string => readFileSync(path, "utf8");
  const pair = certificate === undefined || key === undefined ? {} : { certificate: pem(certificate), key: pem(key) };
  return {
    ...(ca === undefined ? {} : { tls: { ca: pem(ca), ...pair } }),
    ...(secret === undefined ? {} : { secret: new TextEncoder().encode(secret) }),
    ...(token === undefined ? {} : { token }),
  };
}

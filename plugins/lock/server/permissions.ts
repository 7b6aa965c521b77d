/**
 * Which requests about locks a client may make: the core's rules of names, prefixes and actions, applied
 * to this plugin's requests. Handles and sessions are secrets of their own: who has one may use it.
 */
import { LockdError } from "../../../src/errors.ts";
import type { Access } from "../../../src/security/rules.ts";
import type { Connection } from "../../../src/wire/types.ts";

const HINT = "what each client may do stands in [auth] of the server's configuration";

export class Permissions {
  readonly #access: Access;

  constructor(access: Access) {
    this.#access = access;
  }

  /** Why it may not lock them, or null. */
  refusesLock(connection: Connection, objects: readonly string[]): LockdError | null {
    const { principal } = connection.identity;
    const refused = objects.find((object) => !this.#access.allows(principal, "lock", object));
    return refused === undefined ? null : denied(connection, `lock ${quoted(refused)}`);
  }

  /** Whether it may see tickets and events of the object. */
  sees(connection: Connection, object: string): boolean {
    return this.#access.allows(connection.identity.principal, "list", object);
  }

  /** The part of the objects with this prefix that it may see, as prefixes in the order of listings. */
  seenPrefixes(connection: Connection, within: string): readonly string[] {
    return this.#access.prefixes(connection.identity.principal, "list", within);
  }

  /** Throws LockdError `denied`. */
  mustSee(connection: Connection, object: string): void {
    if (!this.sees(connection, object)) throw denied(connection, `list ${quoted(object)}`);
  }

  /** Waiting for an object tells no more than trying to lock it. Throws LockdError `denied`. */
  mustSeeFreedom(connection: Connection, object: string): void {
    if (!this.#access.allows(connection.identity.principal, "lock", object)) this.mustSee(connection, object);
  }

  /** Sessions may hold and wait for anything. Throws LockdError `denied`. */
  mustSeeAll(connection: Connection): void {
    if (!this.#access.allowsAll(connection.identity.principal, "list")) throw denied(connection, "list sessions");
  }

  /** Throws LockdError `denied`. */
  mustForce(connection: Connection, object: string): void {
    if (!this.#access.allows(connection.identity.principal, "release", object)) throw denied(connection, `release ${quoted(object)} by force`);
  }

  /** A session is ended with all that it holds. Throws LockdError `denied`. */
  mustForceAll(connection: Connection): void {
    if (!this.#access.allowsAll(connection.identity.principal, "release")) throw denied(connection, "kick a session");
  }
}

function denied(connection: Connection, what: string): LockdError {
  return new LockdError("denied", `${what}: client ${connection.identity.name} may not`, { hint: HINT });
}

const quoted = (object: string): string => JSON.stringify(object);

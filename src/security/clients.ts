/**
 * `[[auth.client]]` of the configuration file: one client, how its token is told, and what it may do.
 * Checks one table and turns it into its typed form. Knows no file but the one a token is in.
 */
import * as v from "valibot";
import { resolve } from "node:path";
import { LockdError } from "../errors.ts";
import { ACTIONS, type Rule } from "./rules.ts";

export interface ClientEntry {
  name: string;
  /** SHA-256 of its token in hexadecimal, or the file that the token is in; neither: known by certificate */
  tokenSha256: string | null;
  tokenFile: string | null;
  allow: readonly Rule[];
}

/** What names of clients look like, in rules and in certificates of `lockd tls issue`. */
export const CLIENT_NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;

const schema = v.strictObject({
  name: v.pipe(v.string(), v.regex(CLIENT_NAME)),
  "token-sha256": v.optional(v.pipe(v.string(), v.regex(/^[0-9a-fA-F]{64}$/))),
  "token-file": v.optional(v.pipe(v.string(), v.nonEmpty())),
  allow: v.array(
    v.strictObject({
      prefix: v.pipe(v.string(), v.maxBytes(1024)),
      actions: v.pipe(v.array(v.picklist(ACTIONS)), v.nonEmpty()),
    }),
  ),
});

const ACCEPTED: Readonly<Record<string, string>> = {
  name: "1 to 64 letters, digits, dots, dashes, underscores and @",
  "token-sha256": "64 hexadecimal digits, such as `printf %s \"$token\" | sha256sum` prints",
  "token-file": "a path",
  allow: 'a list such as [{ prefix = "ci/", actions = ["lock", "list", "release"] }]',
};

/**
 * The table as one line of JSON with paths made absolute, which `clientEntry` reads back; or in words
 * what is wrong with it, without its values: one may be a token in the wrong place.
 */
export function checkClientTable(table: unknown, directory: string): { text: string } | { problem: string } {
  const result = v.safeParse(schema, table, { abortEarly: true });
  if (!result.success) return { problem: problemOf(result.issues[0]) };
  const { "token-sha256": tokenSha256, "token-file": tokenFile } = result.output;
  if (tokenSha256 !== undefined && tokenFile !== undefined) return { problem: "token-sha256 and token-file exclude each other" };
  const absolute = tokenFile === undefined ? {} : { "token-file": resolve(directory, tokenFile) };
  return { text: JSON.stringify({ ...result.output, ...absolute }) };
}

/** The typed form of what `checkClientTable` accepted. */
export function clientEntry(text: string): ClientEntry {
  const entry = v.parse(schema, JSON.parse(text));
  return {
    name: entry.name,
    tokenSha256: entry["token-sha256"]?.toLowerCase() ?? null,
    tokenFile: entry["token-file"] ?? null,
    allow: entry.allow,
  };
}

/** Throws LockdError `config` when two entries have one name. */
export function clientEntries(texts: readonly string[]): ClientEntry[] {
  const entries = texts.map(clientEntry);
  const twice = entries.find(({ name }, index) => entries.findIndex((other) => other.name === name) !== index);
  if (twice !== undefined) throw new LockdError("config", `read [[auth.client]]: ${twice.name} is named twice`);
  return entries;
}

function problemOf(issue: v.BaseIssue<unknown>): string {
  const path = v.getDotPath(issue) ?? "";
  const [field = ""] = path.split(".");
  if (field === "") return "a table with name and allow is needed";
  const accepted = ACCEPTED[field];
  if (accepted === undefined) return `unknown key ${JSON.stringify(field)} (accepted: ${Object.keys(ACCEPTED).join(", ")})`;
  const what = issue.received === "undefined" ? "is missing" : "is not accepted";
  return `${path} ${what} (accepted: ${accepted})`;
}

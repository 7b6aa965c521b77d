/**
 * What the sources of lockd say about bodies: fields of interfaces, members of unions, and the types of
 * messages that a file sends. Reads text; knows the way in which these sources are written.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

export interface InterfaceField {
  name: string;
  optional: boolean;
  type: string;
}

export const sourceOf = (path: string): string => readFileSync(resolve(import.meta.dir, "../..", path), "utf8");

/** The fields of an exported interface, in order. */
export function interfaceFields(source: string, name: string): InterfaceField[] {
  const start = source.indexOf(`export interface ${name} {`);
  if (start < 0) throw new Error(`there is no interface ${name}`);
  const block = source.slice(start, source.indexOf("\n}", start)).replace(/\/\*\*[^]*?\*\//g, "");
  const fields = [...block.matchAll(/^ {2}(\w+)(\??): ((?:[^;{]|\{[^}]*\}[^;{]*)+);$/gm)];
  // an inner map over several lines ends where its indentation does
  const inner = [...block.matchAll(/^ {2}(\w+)(\??): \{\n[^]*?\n {2}\};$/gm)];
  return [...fields, ...inner]
    .filter((match, index, all) => all.findIndex((other) => other[1] === match[1]) === index)
    .map(([, field = "", mark, type]) => ({ name: field, optional: mark === "?" || (type?.includes("| undefined") ?? false), type: type ?? "{}" }));
}

/** The texts of an exported union of texts. */
export function unionMembers(source: string, name: string): string[] {
  const text = new RegExp(`export type ${name} =([^;]*);`).exec(source)?.[1];
  if (text === undefined) throw new Error(`there is no union ${name}`);
  return [...text.matchAll(/"([a-z]+)"/g)].map((match) => match[1] ?? "");
}

/** A number that a source gives a name: `const NAME = …` or a member `name: …`. */
export function constant(source: string, name: string): number {
  const text = new RegExp(`(?:const ${name} =|[\\s{]${name}:) ([0-9_ *<]+?) ?[;,}]`).exec(source)?.[1];
  if (text === undefined) throw new Error(`no number is called ${name}`);
  const factors = text.replaceAll("_", "").split("*").map((factor) => {
    const [value = "", shift] = factor.split("<<");
    return Number(value) * 2 ** Number(shift ?? 0);
  });
  return factors.reduce((product, factor) => product * factor, 1);
}

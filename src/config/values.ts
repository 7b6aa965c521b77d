/**
 * One value of one option: from text (flag, environment) or from TOML to its typed form, what is
 * accepted in words, and back to TOML. Knows no option by name and reads nothing.
 */
import { resolve } from "node:path";
import { quoted } from "../text.ts";
import { formatAddress, parseAddress } from "./address.ts";
import { durationText, parseDuration } from "./duration.ts";
import { formatSize, parseSize } from "./size.ts";
import type { OptionSpec, OptionType, OptionValue } from "./types.ts";

/** The typed value, or in words what is wrong with it and what is accepted. */
export type ParsedValue = { value: OptionValue } | { problem: string };

/** The value of a flag or variable. Relative paths are resolved against `directory`. */
export function parseText(spec: OptionSpec, text: string, directory: string): ParsedValue {
  if ("word" in spec && spec.word === text) return { value: null };
  switch (spec.type) {
    case "string":
      return spec.pattern === undefined || spec.pattern.test(text) ? { value: text } : refused(spec, text, "is not accepted");
    case "choice":
      return spec.choices.includes(text) ? { value: text } : refused(spec, text, "is not one of the choices");
    case "boolean":
      if (text === "true" || text === "1") return { value: true };
      return text === "false" || text === "0" ? { value: false } : refused(spec, text, "is neither true nor false");
    case "integer":
      return inRange(spec, text, /^(?:0|-?[1-9]\d{0,14})$/.test(text) ? Number(text) : null, spec, "is not a whole number");
    case "duration":
      return inRange(spec, text, parseDuration(text), { min: spec.minMs, max: spec.maxMs }, "is not a duration");
    case "size":
      return inRange(spec, text, parseSize(text), spec, "is not a size");
    case "address": {
      const address = parseAddress(text);
      return address === null ? refused(spec, text, notAddress(spec, text)) : { value: formatAddress(address) };
    }
    case "path":
      return isPath(text) ? { value: resolve(directory, text) } : refused(spec, text, "is not a path");
    case "list":
      return parseList(spec, text.split(","), directory);
    case "tables":
      return { problem: `a text is not accepted (accepted: ${acceptedText(spec)})` };
  }
}

/** The value of a key in the file, which TOML has already given a type. */
export function parseToml(spec: OptionSpec, value: unknown, directory: string): ParsedValue {
  if (typeof value === "string") {
    const textOnly = spec.type === "boolean" || spec.type === "integer";
    return textOnly ? refused(spec, value, "is a text") : parseText(spec, value, directory);
  }
  if (typeof value === "boolean" && spec.type === "boolean") return { value };
  if (typeof value === "number" && (spec.type === "integer" || spec.type === "duration" || spec.type === "size")) {
    // String() writes huge and tiny numbers with an exponent, which no parser accepts: refused, not bent
    return parseText(spec, String(value), directory);
  }
  if (Array.isArray(value) && spec.type === "tables") return parseTables(spec, value, directory);
  if (Array.isArray(value) && spec.type === "list") {
    const texts: string[] = [];
    for (const item of value) {
      if (typeof item !== "string") return refused(spec, String(item), "is not a text in quotes");
      texts.push(item);
    }
    return parseList(spec, texts, directory);
  }
  return { problem: `${kindOf(value)} is not accepted (accepted: ${acceptedText(spec)})` };
}

function parseTables(spec: OptionSpec & { type: "tables" }, tables: readonly unknown[], directory: string): ParsedValue {
  const texts: string[] = [];
  for (const [index, table] of tables.entries()) {
    const checked = spec.check(table, directory);
    if ("problem" in checked) return { problem: `number ${index + 1}: ${checked.problem}` };
    texts.push(checked.text);
  }
  return { value: texts };
}

/** Values of a list, each one element: `texts` are the parts between commas, or the items in the file. */
export function parseList(
  spec: OptionSpec & { type: "list" },
  texts: readonly string[],
  directory: string,
): ParsedValue {
  const values: string[] = [];
  for (const text of texts) {
    if (text === "") return { problem: `an element is empty (accepted: ${acceptedText(spec)})` };
    if (spec.of === "path") {
      if (!isPath(text)) return refused(spec, text, "is not a path");
      values.push(resolve(directory, text));
    } else if (spec.of === "address") {
      const address = parseAddress(text);
      // a list names others, and nobody can be reached at port 0
      if (address === null || address.port === 0) return refused(spec, text, notAddress(spec, text));
      values.push(formatAddress(address));
    } else {
      values.push(text);
    }
  }
  return { value: values };
}

/** What is accepted, in words, for help and messages. */
export function acceptedText(type: OptionType): string {
  const word = "word" in type && type.word !== undefined ? `, or ${type.word}` : "";
  switch (type.type) {
    case "string":
      return type.accepted ?? "any text";
    case "choice":
      return type.choices.join(", ");
    case "boolean":
      return "true or false";
    case "integer":
      return `whole numbers from ${type.min} to ${type.max}`;
    case "duration":
      return `${durationText(type.minMs)} to ${durationText(type.maxMs)}, such as 250ms, 10s, 5m, 2h, 1d, or a number of seconds${word}`;
    case "size":
      return `${formatSize(type.min)} to ${formatSize(type.max)}, such as 4096, 64KiB, 16MiB`;
    case "address":
      return `host:port or [v6]:port${word}`;
    case "path":
      return `a path${word}`;
    case "tables":
      return type.accepted;
    case "list":
      return type.of === "address" ? "host:port or [v6]:port, separated by commas" : "values separated by commas";
  }
}

/** A value as the user would write it; null is the option's word, or empty. */
export function valueText(type: OptionType, value: OptionValue): string {
  if (value === null) return "word" in type && type.word !== undefined ? type.word : "";
  if (typeof value === "number" && type.type === "duration") return durationText(value);
  if (typeof value === "number" && type.type === "size") return formatSize(value);
  return typeof value === "object" ? value.join(",") : String(value);
}

/** A value as it stands in the file, or null when the file cannot say it. */
export function tomlText(type: OptionType, value: OptionValue): string | null {
  if (typeof value === "boolean") return String(value);
  if (typeof value === "number" && type.type === "integer") return String(value);
  if (value !== null && typeof value === "object") return `[${value.map(tomlString).join(", ")}]`;
  const text = valueText(type, value);
  return value === null && text === "" ? null : tomlString(text);
}

/** JSON's escapes are TOML's too, but for the one control character that JSON leaves as it is. */
const tomlString = (text: string): string => JSON.stringify(text).replaceAll("\u007f", "\\u007f");

const refused = (spec: OptionSpec, text: string, what: string): ParsedValue => ({
  problem: `${spec.noFlag === true ? "the value" : quoted(text)} ${what} (accepted: ${acceptedText(spec)})`,
});

/** What is wrong with an address; of one without a port, what was probably meant. */
function notAddress(spec: OptionSpec, text: string): string {
  const usual = spec.default instanceof Array ? spec.default[0] : spec.default;
  const port = typeof usual === "string" ? parseAddress(usual)?.port : undefined;
  const whole = port === undefined ? null : parseAddress(`${text}:${port}`);
  return whole === null ? "is not an address" : `has no port: write ${formatAddress(whole)}`;
}

function inRange(
  spec: OptionSpec,
  text: string,
  value: number | null,
  range: { min: number; max: number },
  what: string,
): ParsedValue {
  if (value === null) return refused(spec, text, what);
  return value < range.min || value > range.max ? refused(spec, text, "is out of range") : { value };
}

const isPath = (text: string): boolean => text !== "" && !text.includes("\0");

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return "a list";
  if (value instanceof Date) return "a date";
  return typeof value === "object" ? "a table" : `a ${typeof value}`;
}

/**
 * How one log line looks, as text for people and as JSON for programs: pure functions of the line.
 * Owns escaping and redaction; knows no file and no level threshold.
 */
import { printable } from "../text.ts";
import type { LogFields, LogLevel } from "./types.ts";

export interface LogLine {
  date: Date;
  level: Exclude<LogLevel, "silent">;
  msg: string;
  fields: LogFields;
}

const REDACTED = "[redacted]";
const SECRET_WORDS = new Set(["handle", "secret", "password", "authorization"]);
const CONTROL_AFTER_JSON = /[\u007f-\u009f\u2028\u2029]/g;
const BARE_VALUE = /^[^\s"'=]+$/u;

/** Secrets must not reach a log: whether any word of `userSecret`, `auth-handle`, … is a secret's name. */
export function isSecretField(name: string): boolean {
  const words = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase().split(/[^a-z0-9]+/);
  return words.some((word) => SECRET_WORDS.has(word));
}

/** One JSON object and a newline: time, level, msg, then the fields in their order. */
export function formatJson(line: LogLine): string {
  const entries: [string, unknown][] = [
    ["time", line.date.toISOString()],
    ["level", line.level],
    ["msg", line.msg],
  ];
  for (const [name, value] of Object.entries(line.fields)) {
    if (value === undefined) continue;
    // a field must not stand in for the line's own time, level or msg
    const own = name === "time" || name === "level" || name === "msg";
    entries.push([own ? `_${name}` : name, jsonValue(name, value)]);
  }
  // fromEntries defines own properties, so a field named __proto__ is a field like others
  const text = JSON.stringify(Object.fromEntries(entries));
  // JSON leaves DEL, the C1 controls and two line separators as they are; terminals and readers do not
  return `${text.replace(CONTROL_AFTER_JSON, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)}\n`;
}

function jsonValue(name: string, value: string | number | boolean | null): string | number | boolean | null {
  if (value !== null && isSecretField(name)) return REDACTED;
  // JSON has no word for these, and null would say less
  return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
}

const COLOURS: Readonly<Record<LogLine["level"], string>> = {
  trace: "\u001b[2m",
  debug: "\u001b[36m",
  info: "\u001b[32m",
  warn: "\u001b[33m",
  error: "\u001b[31m",
};
const DIM = "\u001b[2m";
const PLAIN = "\u001b[0m";

/** `time LEVEL msg name=value …` in columns; a field named `stack` follows as indented lines. */
export function formatText(line: LogLine, paint: "plain" | "coloured"): string {
  const colour = (code: string, text: string) => (paint === "coloured" ? `${code}${text}${PLAIN}` : text);
  const fields: string[] = [];
  let stack = "";
  for (const [name, value] of Object.entries(line.fields)) {
    if (value === undefined) continue;
    if (name === "stack" && typeof value === "string") {
      // the indent of every line keeps it apart from real lines, which begin with a time
      stack = value.split("\n").map((part) => `    ${printable(part).trim()}\n`).join("");
      continue;
    }
    fields.push(colour(DIM, `${textName(name)}=`) + textValue(name, value));
  }
  const level = colour(COLOURS[line.level], line.level.toUpperCase().padEnd(5));
  const msg = printable(line.msg).padEnd(fields.length === 0 ? 0 : 22);
  return `${[line.date.toISOString(), level, msg, ...fields].join(" ")}\n${stack}`;
}

const textName = (name: string): string => printable(name).replace(/[\s"=]/g, "_");

function textValue(name: string, value: string | number | boolean | null): string {
  if (value !== null && isSecretField(name)) return REDACTED;
  const text = String(value);
  const shown = printable(text);
  return shown === text && BARE_VALUE.test(text) ? text : `"${shown.replaceAll('"', '\\"')}"`;
}

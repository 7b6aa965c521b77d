/**
 * docs/protocol.md as data: the tables of bodies and structures, other tables, and the frames of the
 * conversation. Throws with the line on whatever it cannot read, so that a slip in the page is an error.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { type FieldType, parseType } from "./field-type.ts";

export interface Field {
  name: string;
  type: FieldType;
  /** the column `absent`; null: the field must be there */
  absent: string | null;
}

/** One table of fields. Of one type there may be several, each another form of its body. */
export interface BodyTable {
  /** type of the message, or name of the structure */
  name: string;
  /** of a message: who sends it */
  from: "client" | "server" | "both" | null;
  fields: readonly Field[];
}

export interface ShownFrame {
  line: number;
  /** that it stands under */
  heading: string;
  /** connection of the conversation */
  connection: string;
  from: "client" | "server";
  /** `[type, id, body]` as shown; byte strings as Uint8Array */
  shown: unknown;
  bytes: Uint8Array;
}

export interface Page {
  bodies: readonly BodyTable[];
  structures: readonly BodyTable[];
  /** rows of every other table, cells trimmed, by its header cells joined with `|` */
  tables: ReadonlyMap<string, readonly (readonly string[])[]>;
  frames: readonly ShownFrame[];
}

const FIELD_HEADER = "field|type|absent|meaning";
const BODY_TITLE = /^\*\*([A-Z]+)\*\* (client to server|server to client|both ways)(?:, .+)?$/;
const FRAME_TITLE = /^([A-Z]) (→|←) (\[.*\])$/;

export const PAGE_PATH = resolve(import.meta.dir, "../../docs/protocol.md");

export function readPage(text = readFileSync(PAGE_PATH, "utf8")): Page {
  const bodies: BodyTable[] = [];
  const structures: BodyTable[] = [];
  const tables = new Map<string, string[][]>();
  const frames: ShownFrame[] = [];
  const lines = text.split("\n");
  let heading = "";
  let inStructures = false;
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index] ?? "";
    if (line.startsWith("## ")) inStructures = line === "## Structures";
    if (/^#{2,3} /.test(line)) heading = line.replace(/^#+ /, "");
    if (/^[A-Z] [→←] /.test(line)) {
      const hex: string[] = [];
      while (/^ {2}[0-9a-f]/.test(lines[index + hex.length + 1] ?? "")) hex.push(lines[index + hex.length + 1] ?? "");
      frames.push({ ...readFrame(line, hex, index + 1), heading });
      continue;
    }
    if (!line.startsWith("|")) continue;
    const title = lines[index - 1] ?? "";
    const rows: string[][] = [];
    for (; (lines[index] ?? "").startsWith("|"); index += 1) rows.push(cellsOf(lines[index] ?? ""));
    const [header, rule, ...content] = rows;
    if (header === undefined || rule?.every((cell) => /^-+$/.test(cell)) !== true) throw new Error(`line ${index}: a table without a header`);
    if (header.join("|") !== FIELD_HEADER) {
      tables.set(header.join("|"), content);
      continue;
    }
    const fields = content.map((row) => readField(row, index));
    const [, name, direction] = BODY_TITLE.exec(title) ?? [];
    if (name !== undefined) {
      if (name !== heading) throw new Error(`line ${index}: ${name} stands under ${heading}`);
      bodies.push({ name, from: direction === "both ways" ? "both" : direction === "client to server" ? "client" : "server", fields });
    } else if (inStructures) structures.push({ name: heading, from: null, fields });
    else throw new Error(`line ${index}: a table of fields without the title of its message`);
  }
  return { bodies, structures, tables, frames };
}

const cellsOf = (line: string): string[] => line.slice(1, line.lastIndexOf("|")).split("|").map((cell) => cell.trim());

function readField(row: readonly string[], line: number): Field {
  const [name, type, absent, meaning] = row;
  if (name === undefined || type === undefined || absent === undefined || meaning === undefined || row.length !== 4) {
    throw new Error(`line ${line}: four cells are needed`);
  }
  if (absent === "") throw new Error(`line ${line}: ${name}: what its absence means is needed`);
  return { name, type: parseType(type), absent: absent === "no" ? null : absent };
}

function readFrame(title: string, hex: readonly string[], line: number): Omit<ShownFrame, "heading"> {
  const [, connection, arrow, json] = FRAME_TITLE.exec(title) ?? [];
  if (connection === undefined || json === undefined) throw new Error(`line ${line}: not a frame: ${title}`);
  return { line, connection, from: arrow === "→" ? "client" : "server", shown: readValue(json), bytes: Buffer.from(hex.join("").replace(/\s/g, ""), "hex") };
}

/** JSON, and byte strings as the diagnostic notation of CBOR has them: h'00ff'. */
export function readValue(text: string): unknown {
  const json = text.replace(/h'([0-9a-f]*)'/g, (_, hex: string) => JSON.stringify({ $bytes: hex }));
  return JSON.parse(json, (_, value: unknown) => {
    const hex = typeof value === "object" && value !== null && "$bytes" in value ? value.$bytes : null;
    return typeof hex === "string" ? new Uint8Array(Buffer.from(hex, "hex")) : value;
  });
}

/** The inverse of readValue, on one line. */
export function showValue(value: unknown): string {
  if (value instanceof Uint8Array) return `h'${Buffer.from(value).toString("hex")}'`;
  if (Array.isArray(value)) return `[${value.map(showValue).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return `{${Object.entries(value).map(([key, entry]) => `${JSON.stringify(key)}: ${showValue(entry)}`).join(", ")}}`;
}

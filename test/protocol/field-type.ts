/**
 * The types of the fields in docs/protocol.md: read from its notation, checked against values, and
 * turned into values at, inside and outside their bounds. Knows no message.
 */
export type FieldType =
  | { kind: "text" | "bytes"; min: number; max: number }
  | { kind: "number"; min: number; max: number }
  | { kind: "flag" }
  | { kind: "one of"; values: readonly string[] }
  | { kind: "list"; item: FieldType; min: number; max: number }
  | { kind: "tuple"; items: readonly FieldType[] }
  | { kind: "nullable"; type: FieldType }
  | { kind: "structure"; name: string };

const INTEGER_MAX = Number.MAX_SAFE_INTEGER;

export function parseType(text: string): FieldType {
  if (text.endsWith(" or null")) return { kind: "nullable", type: parseType(text.slice(0, -" or null".length)) };
  const oneOf = /^one of (.+)$/.exec(text)?.[1];
  if (oneOf !== undefined) return { kind: "one of", values: oneOf.split(", ") };
  const list = /^list of (?:(\d+)\.\.(\d+) )?(.+)$/.exec(text);
  if (list?.[3] !== undefined) return { kind: "list", item: parseType(list[3]), min: Number(list[1] ?? 0), max: Number(list[2] ?? Infinity) };
  const tuple = /^\[(.+)\]$/.exec(text)?.[1];
  if (tuple !== undefined) return { kind: "tuple", items: tuple.split(", ").map(parseType) };
  if (text === "flag") return { kind: "flag" };
  if (text === "signed ms") return { kind: "number", min: -INTEGER_MAX, max: INTEGER_MAX };
  const [, kind, min, max] = /^(text|bytes|integer|ms)(?: (\d+)\.\.(\d+))?$/.exec(text) ?? [];
  if (kind === "text" || kind === "bytes") return { kind, min: Number(min ?? 0), max: Number(max ?? Infinity) };
  if (kind !== undefined) return { kind: "number", min: Number(min ?? 0), max: Number(max ?? INTEGER_MAX) };
  if (/^[A-Z][A-Za-z]+$/.test(text)) return { kind: "structure", name: text };
  throw new Error(`not a type of the page: ${JSON.stringify(text)}`);
}

export type Check = (name: string, value: unknown, path: string) => string[];

/** What is wrong with the value, each with its path; `structure` checks a map of that name. */
export function problems(type: FieldType, value: unknown, path: string, structure: Check): string[] {
  const wrong = (): string[] => [`${path}: ${JSON.stringify(value)} is not ${describe(type)}`];
  const sized = (length: number, { min, max }: { min: number; max: number }): boolean => length >= min && length <= max;
  switch (type.kind) {
    case "nullable":
      return value === null ? [] : problems(type.type, value, path, structure);
    case "text":
      return typeof value === "string" && sized(Buffer.byteLength(value), type) ? [] : wrong();
    case "bytes":
      return value instanceof Uint8Array && sized(value.length, type) ? [] : wrong();
    case "number":
      return typeof value === "number" && Number.isSafeInteger(value) && sized(value, type) ? [] : wrong();
    case "flag":
      return typeof value === "boolean" ? [] : wrong();
    case "one of":
      return typeof value === "string" && type.values.includes(value) ? [] : wrong();
    case "list":
      if (!Array.isArray(value) || !sized(value.length, type)) return wrong();
      return value.flatMap((item: unknown, index) => problems(type.item, item, `${path}[${index}]`, structure));
    case "tuple":
      if (!Array.isArray(value) || value.length !== type.items.length) return wrong();
      return type.items.flatMap((item, index) => problems(item, value[index], `${path}[${index}]`, structure));
    case "structure":
      return structure(type.name, value, path);
  }
}

export function describe(type: FieldType): string {
  switch (type.kind) {
    case "text":
    case "bytes":
    case "number":
      return `${type.kind} ${type.min}..${type.max}`;
    case "one of":
      return `one of ${type.values.join(", ")}`;
    case "list":
      return `list of ${type.min}..${type.max} ${describe(type.item)}`;
    case "tuple":
      return `[${type.items.map(describe).join(", ")}]`;
    case "nullable":
      return `${describe(type.type)} or null`;
    case "structure":
      return type.name;
    case "flag":
      return "flag";
  }
}

/** Values that the type takes: its bounds, and every choice. */
export function accepted(type: FieldType): unknown[] {
  switch (type.kind) {
    case "text":
      return sizes(type, 5000).flatMap((size) => [textOf(size), ...(size > 3 && size % 3 === 0 ? ["€".repeat(size / 3)] : [])]);
    case "bytes":
      return sizes(type, 5000).map((size) => new Uint8Array(size));
    case "number":
      return [type.min, type.max];
    case "flag":
      return [true, false];
    case "one of":
      return [...type.values];
    case "list":
      return [...sizes(type, 100).map((size) => row(type.item, size)), ...accepted(type.item).map((item) => [item])];
    case "tuple":
      return [type.items.map((item) => accepted(item)[0])];
    case "nullable":
      return [null, ...accepted(type.type)];
    case "structure":
      throw new Error(`no client sends ${type.name}`);
  }
}

/** Values that the type does not take: beside its bounds, and of every other type. */
export function refused(type: FieldType): unknown[] {
  if (type.kind === "nullable") return refused(type.type).filter((value) => value !== null);
  const foreign: unknown[] = [null, true, "x".repeat(70), 1.5, -1, new Uint8Array(3), {}, [[]]];
  const fits: Check = (name) => [name];
  return [...foreign, ...beside(type)].filter((value) => problems(type, value, "", fits).length > 0);
}

function beside(type: FieldType): unknown[] {
  switch (type.kind) {
    case "text":
      return [...(type.min > 0 ? [textOf(type.min - 1)] : []), ...(Number.isFinite(type.max) ? [textOf(type.max + 1), `${textOf(type.max - 1)}é`] : [])];
    case "bytes":
      return [new Uint8Array(type.min - 1), new Uint8Array(type.max + 1)];
    case "number":
      return [type.min - 1, type.max + 1, type.min + 0.5, String(type.min)];
    case "list": {
      const many = Number.isFinite(type.max) ? [row(type.item, type.max + 1)] : [];
      return [...(type.min > 0 ? [[]] : []), ...many, ...refused(type.item).map((item) => [item])];
    }
    case "tuple": {
      const sound = type.items.map((item) => accepted(item)[0]);
      return [sound.slice(1), ...type.items.map((item, index) => sound.with(index, refused(item)[0]))];
    }
    default:
      return ["another"];
  }
}

const sizes = ({ min, max }: { min: number; max: number }, unbounded: number): number[] => [min, Number.isFinite(max) ? max : unbounded];

/** Fit for a name, a session id and a handle. */
const textOf = (size: number): string => "x".repeat(size);

const row = (item: FieldType, size: number): unknown[] => Array.from({ length: size }, (_, index) => distinct(item, index));

function distinct(item: FieldType, index: number): unknown {
  if (item.kind === "text") return `${index}`.padStart(Math.max(item.min, 4), "x");
  return item.kind === "number" ? index : accepted(item)[0];
}

/**
 * Bodies against the tables of docs/protocol.md, and bodies made from them. Knows no code of lockd.
 */
import { accepted, type Check, problems, type FieldType } from "./field-type.ts";
import type { BodyTable, Page } from "./page.ts";

export class Tables {
  readonly #page: Page;

  constructor(page: Page) {
    this.#page = page;
  }

  /** The forms that a body of this type may have. */
  of(name: string, from: "client" | "server"): readonly BodyTable[] {
    return this.#page.bodies.filter((table) => table.name === name && (table.from === from || table.from === "both"));
  }

  /** Types that this side sends, each once, sorted. */
  types(from: "client" | "server"): string[] {
    return [...new Set(this.#page.bodies.filter((table) => table.from === from || table.from === "both").map(({ name }) => name))].sort();
  }

  /** A structure, or the body of a message that stands for one. */
  structure(name: string): BodyTable {
    const found = this.#page.structures.find((table) => table.name === name) ?? this.of(name === "Event" ? "EVENT" : name, "server")[0];
    if (found === undefined) throw new Error(`the page names ${name} and does not describe it`);
    return found;
  }

  /** What keeps the body from being of any documented form; of the form that comes nearest. */
  problems(name: string, from: "client" | "server", body: unknown): string[] {
    const forms = this.of(name, from).map((table) => this.#against(table, body, name));
    return forms.sort((a, b) => a.length - b.length)[0] ?? [`${name} from the ${from} is not documented`];
  }

  readonly #structureProblems: Check = (name, value, path) => this.#against(this.structure(name), value, path);

  #against(table: BodyTable, value: unknown, path: string): string[] {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return [`${path}: not a map`];
    const given = new Map<string, unknown>(Object.entries(value));
    const found = table.fields.flatMap(({ name, type, absent }) => {
      if (!given.has(name)) return absent === null ? [`${path}.${name} is missing`] : [];
      return problems(type, given.get(name), `${path}.${name}`, this.#structureProblems);
    });
    const known = new Set(table.fields.map(({ name }) => name));
    return [...found, ...[...given.keys()].filter((key) => !known.has(key)).map((key) => `${path}.${key} is not documented`)];
  }

  /** A sound body, with all fields or with those that must be there. */
  sample(table: BodyTable, which: "all" | "needed"): Record<string, unknown> {
    const fields = table.fields.filter(({ absent }) => which === "all" || absent === null);
    return Object.fromEntries(fields.map(({ name, type }) => [name, this.#value(type, which)]));
  }

  #value(type: FieldType, which: "all" | "needed"): unknown {
    switch (type.kind) {
      case "structure":
        return this.sample(this.structure(type.name), which);
      case "list":
        return which === "all" || type.min > 0 ? [this.#value(type.item, which)] : [];
      case "nullable":
        return which === "all" ? this.#value(type.type, which) : null;
      case "text":
        return "x".repeat(Math.max(type.min, 1));
      case "tuple":
        return type.items.map((item) => this.#value(item, which));
      default:
        return accepted(type)[0];
    }
  }
}

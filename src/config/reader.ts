/** Typed access to resolved options by name. A wrong name or type is a defect and asserts. */
import { assert } from "../errors.ts";
import type { ConfigValue, OptionOrigin, OptionValue } from "./types.ts";

export class ConfigReader {
  readonly #values: ReadonlyMap<string, ConfigValue>;

  constructor(values: ReadonlyMap<string, ConfigValue>) {
    this.#values = values;
  }

  #value(name: string): OptionValue {
    const found = this.#values.get(name);
    assert(found !== undefined, `option ${name} is declared`);
    return found.value;
  }

  string(name: string): string {
    const value = this.#value(name);
    assert(typeof value === "string", `option ${name} is a string`);
    return value;
  }

  stringOrNull(name: string): string | null {
    return this.#value(name) === null ? null : this.string(name);
  }

  number(name: string): number {
    const value = this.#value(name);
    assert(typeof value === "number", `option ${name} is a number`);
    return value;
  }

  numberOrNull(name: string): number | null {
    return this.#value(name) === null ? null : this.number(name);
  }

  boolean(name: string): boolean {
    const value = this.#value(name);
    assert(typeof value === "boolean", `option ${name} is a boolean`);
    return value;
  }

  list(name: string): readonly string[] {
    const value = this.#value(name);
    assert(Array.isArray(value), `option ${name} is a list`);
    return value;
  }

  origin(name: string): OptionOrigin {
    const found = this.#values.get(name);
    assert(found !== undefined, `option ${name} is declared`);
    return found.origin;
  }

  /** Whether the user gave it, on whatever way, instead of leaving the default. */
  given(name: string): boolean {
    return this.origin(name).kind !== "default";
  }
}

/**
 * Reads the fields of one stored record, in their order, and trusts none of them: whatever is not as
 * expected is `corrupt` and names the record's key. Knows no particular kind of record.
 */
import { Decoder } from "cbor-x/decode";
import { LockdError } from "../../../src/errors.ts";

const decoder = new Decoder({ useRecords: false });

/** The error for a record that cannot be used. */
export function corrupt(key: string, detail: string, options: { hint?: string; cause?: unknown } = {}): LockdError {
  return new LockdError("corrupt", `read lock table record ${JSON.stringify(key)}: ${detail}`, {
    hint: "Restore the data directory from a backup.",
    ...options,
  });
}

export class Fields {
  readonly #key: string;
  readonly #fields: readonly unknown[];
  #next = 0;

  constructor(key: string, bytes: Uint8Array) {
    this.#key = key;
    let decoded: unknown;
    try {
      decoded = decoder.decode(bytes);
    } catch (cause) {
      throw corrupt(key, "not CBOR", { cause });
    }
    if (!Array.isArray(decoded)) throw corrupt(key, "not an array");
    this.#fields = decoded;
  }

  text(): string {
    const value = this.#take();
    return typeof value === "string" ? value : this.#refuse("a text");
  }

  textOrNull(): string | null {
    const value = this.#take();
    return typeof value === "string" || value === null ? value : this.#refuse("a text or null");
  }

  texts(): string[] {
    return this.textsOrNull() ?? this.#refuse("texts");
  }

  textsOrNull(): string[] | null {
    const value = this.#take();
    if (value === null) return null;
    if (!Array.isArray(value) || value.length === 0) return this.#refuse("texts");
    return value.map((item: unknown) => (typeof item === "string" ? item : this.#refuse("texts")));
  }

  count(): number {
    const value = this.#take();
    return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : this.#refuse("a whole number");
  }

  time(): number {
    return this.timeOrNull() ?? this.#refuse("a time");
  }

  timeOrNull(): number | null {
    const value = this.#take();
    if (value === null) return null;
    return typeof value === "number" && Number.isFinite(value) ? value : this.#refuse("a time or null");
  }

  flag(): boolean {
    const value = this.#take();
    return typeof value === "boolean" ? value : this.#refuse("true or false");
  }

  bytes(): Uint8Array {
    const value = this.#take();
    return value instanceof Uint8Array ? value : this.#refuse("bytes");
  }

  choice<T extends string>(among: readonly T[]): T {
    return this.choiceOrNull(among) ?? this.#refuse("a choice");
  }

  choiceOrNull<T extends string>(among: readonly T[]): T | null {
    const value = this.#take();
    if (value === null) return null;
    const chosen = typeof value === "number" ? among[value] : undefined;
    return chosen ?? this.#refuse("a choice");
  }

  #take(): unknown {
    return this.#fields[this.#next++];
  }

  #refuse(wanted: string): never {
    throw corrupt(this.#key, `field ${this.#next} is not ${wanted}`);
  }
}

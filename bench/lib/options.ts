/**
 * Flags of a benchmark program: numbers and lists of numbers with defaults. Knows no benchmark.
 */
import { LockdError } from "../../src/errors.ts";

export type NumberDefaults = Readonly<Record<string, number | readonly number[]>>;

/** The defaults with what the command line changed: a number stays one, a list stays a list. */
export type NumberOptions<D extends NumberDefaults> = { [K in keyof D]: D[K] extends number ? number : readonly number[] };

/** Reads `--name 3` and `--name 1,16,64`; anything else is a `usage` error that lists the flags. */
export function readOptions<D extends NumberDefaults>(argv: readonly string[], defaults: D): NumberOptions<D> {
  const values: Record<string, number | readonly number[]> = { ...defaults };
  for (let place = 0; place < argv.length; place += 2) {
    const name = argv[place]?.replace(/^--/, "") ?? "";
    const fallback = Object.hasOwn(defaults, name) ? defaults[name] : undefined;
    if (fallback === undefined || argv[place] === name) {
      throw new LockdError("usage", `read ${argv[place] ?? ""}: unknown flag`, { hint: `flags: ${describeFlags(defaults)}` });
    }
    const numbers = (argv[place + 1] ?? "").split(",").map((text) => readNumber(name, text));
    const first = numbers[0];
    if (typeof fallback !== "number") values[name] = numbers;
    else if (first !== undefined && numbers.length === 1) values[name] = first;
    else throw new LockdError("usage", `read --${name}: takes one number`);
  }
  return values as NumberOptions<D>; // every value is of its default's kind: checked above
}

export function describeFlags(defaults: NumberDefaults): string {
  return Object.entries(defaults)
    .map(([name, value]) => `--${name} ${String(value)}`)
    .join(" ");
}

function readNumber(name: string, text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0) {
    throw new LockdError("usage", `read --${name}: ${text === "" ? "a number is missing" : `${text} is not a number`}`);
  }
  return value;
}

/**
 * The judge of everything that must exclude each other: reads what critical sections appended to one file,
 * `enter TOKEN`, `beat TOKEN` and `leave TOKEN`, and throws when two overlap or a token does not rise.
 */
import { readFileSync } from "node:fs";

/** The tokens of the sections in the order in which they were entered. A section may end without `leave`: killed. */
export function sectionsOf(path: string): number[] {
  const tokens: number[] = [];
  let left = true;
  const fault = (line: number, what: string): Error => new Error(`line ${line + 1} of ${path}: ${what}`);
  for (const [index, text] of readFileSync(path, "utf8").trimEnd().split("\n").entries()) {
    const [word = "", number = ""] = text.split(" ");
    const token = Number(number);
    const last = tokens.at(-1) ?? 0;
    if (!Number.isSafeInteger(token) || token < 1) throw fault(index, `no token in ${JSON.stringify(text)}`);
    if (word === "enter") {
      if (token <= last) throw fault(index, `section ${token} begins after section ${last}`);
      tokens.push(token);
      left = false;
    } else if (token !== last) throw fault(index, `section ${token} goes on (${word}) in section ${last}`);
    else if (left) throw fault(index, `section ${token} goes on (${word}) after it ended`);
    else if (word === "leave") left = true;
    else if (word !== "beat") throw fault(index, `what is ${JSON.stringify(text)}?`);
  }
  return tokens;
}

/**
 * Bash's command line as text: cut into words as the shell would, without running anything in it, and
 * words written so that the shell reads them back unaltered, whatever is in them. Pure.
 */

/** How the text at a place is quoted: not, by ', by ", by $'. */
type Quoting = "none" | "single" | "double" | "ansi";

export interface BashLine {
  /** whole words before the cursor, without their quotes */
  before: readonly string[];
  /** what was typed of the word at the cursor, without its quotes */
  current: string;
  /** how much of `current` bash keeps as it is: it replaces only what follows */
  kept: number;
  quoting: Quoting;
}

/**
 * `text` is the line up to the cursor, `breaks` bash's COMP_WORDBREAKS: at these characters readline begins
 * the piece of a word that it replaces. Null when the cursor is where no word can be completed safely:
 * behind a substitution, whose value only the shell knows, or in a $'…'.
 */
export function readBashLine(text: string, breaks: string): BashLine | null {
  const before: string[] = [];
  let word: string | null = null;
  let kept = 0;
  let quoting: Quoting = "none";
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at] ?? "";
    const next = text[at + 1];
    if (quoting === "single") {
      if (character === "'") quoting = "none";
      else word = (word ?? "") + character;
      if (quoting === "none") kept = word?.length ?? 0;
    } else if (quoting === "ansi") {
      if (character === "'") {
        quoting = "none";
        kept = word?.length ?? 0;
      } else if (character === "\\" && next !== undefined) {
        word = (word ?? "") + (ANSI_ESCAPES[next] ?? `\\${next}`);
        at += 1;
      } else word = (word ?? "") + character;
    } else if (quoting === "double") {
      if (character === '"') {
        quoting = "none";
        kept = word?.length ?? 0;
      } else if (character === "\\" && next !== undefined && '\\"$`'.includes(next)) {
        word = (word ?? "") + next;
        at += 1;
      } else if (character === "$" || character === "`") return null;
      else word = (word ?? "") + character;
    } else if (character === "\\") {
      if (next === undefined) return null;
      word = (word ?? "") + next;
      at += 1;
    } else if (character === "$" && next === "'") {
      quoting = "ansi";
      word ??= "";
      at += 1;
    } else if (character === "$" || character === "`") {
      return null;
    } else if (character === "'" || character === '"') {
      quoting = character === "'" ? "single" : "double";
      word ??= "";
      kept = word.length;
    } else if (/\s/.test(character)) {
      if (word !== null) before.push(word);
      word = null;
      kept = 0;
    } else {
      word = (word ?? "") + character;
      if (breaks.includes(character)) kept = word.length;
    }
  }
  return quoting === "ansi" ? null : { before, current: word ?? "", kept, quoting };
}

const ANSI_ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", "\\": "\\", "'": "'", '"': '"' };

/** A word that begins with what was typed, as bash must be given the piece that it inserts. */
export function bashPiece(word: string, { kept, quoting }: Pick<BashLine, "kept" | "quoting">): string {
  const characters = [...word.slice(kept)];
  if (quoting === "double") return characters.map((one) => (CONTROL.test(one) || one === "!" ? `"${ansi(one)}"` : one.replace(/[\\"$`]/, "\\$&"))).join("");
  if (quoting === "single") return characters.map((one) => (CONTROL.test(one) ? `'${ansi(one)}'` : one.replace("'", "'\\''"))).join("");
  return characters.map((one) => (CONTROL.test(one) ? ansi(one) : PLAIN.test(one) ? one : `\\${one}`)).join("");
}

const CONTROL = /[\p{Cc}]/u;
const PLAIN = /[\p{L}\p{M}\p{N}_./:=@%+,-]/u;

/** One character as `$'…'`, which bash reads in every context but inside other quotes. */
function ansi(character: string): string {
  if (character === "\n") return "$'\\n'";
  if (character === "!") return "'!'";
  return `$'\\x${(character.codePointAt(0) ?? 0).toString(16).padStart(2, "0")}'`;
}

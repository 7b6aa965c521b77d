/**
 * A source file taken apart for the tidiness rules: its code with comments, texts and patterns blanked
 * out, its comments, and what it imports. A scanner, not a parser: it knows no grammar beyond tokens.
 */
export interface Source {
  /** relative to the root of the tree, with slashes */
  path: string;
  text: string;
  /** same length and lines as `text`; comments and the insides of literals are spaces */
  code: string;
  /** same length and lines as `text`; all but comments is spaces */
  comments: string;
}

export interface Import {
  specifier: string;
  /** static: loaded with the file; type: erased; dynamic: loaded when it is wanted */
  kind: "static" | "type" | "dynamic";
  line: number;
}

export function readSource(path: string, text: string): Source {
  const scanner = new Scanner(text);
  scanner.run();
  return { path, text, code: scanner.code.join(""), comments: scanner.comments.join("") };
}

/** The line, counted from 1, that an offset into the text lies in. */
export function lineAt(text: string, offset: number): number {
  let line = 1;
  for (let place = text.indexOf("\n"); place >= 0 && place < offset; place = text.indexOf("\n", place + 1)) line++;
  return line;
}

const FROM = /(?:^|[;}\n])\s*(import|export)\b(\s+type\b)?(?:[^;"'`()]*?\bfrom)?\s*(["'])/g;
const DYNAMIC = /\bimport\s*\(\s*(["'])/g;

/** Every import and re-export with a literal specifier, in the order of the text. */
export function importsOf(source: Source): Import[] {
  const found: (Import & { at: number })[] = [];
  const add = (kind: Import["kind"], quoteAt: number): void => {
    const quote = source.text[quoteAt] ?? "";
    const end = source.text.indexOf(quote, quoteAt + 1);
    found.push({ specifier: source.text.slice(quoteAt + 1, end), kind, line: lineAt(source.text, quoteAt), at: quoteAt });
  };
  for (const match of source.code.matchAll(FROM)) add(match[2] === undefined ? "static" : "type", match.index + match[0].length - 1);
  for (const match of source.code.matchAll(DYNAMIC)) add("dynamic", match.index + match[0].length - 1);
  return found.sort((a, b) => a.at - b.at).map(({ specifier, kind, line }) => ({ specifier, kind, line }));
}

/** A slash after one of these begins a pattern, after anything else it divides. */
const BEFORE_PATTERN = /(?:[(,=:[!&|?{};+\-*%<>~^]|\breturn|\btypeof|\bcase|\bin|\bof|\bawait|\byield|^)\s*$/;

class Scanner {
  readonly code: string[];
  readonly comments: string[];
  readonly #text: string;
  #place = 0;
  /** depth of braces within each `${` that is open */
  readonly #holes: number[] = [];

  constructor(text: string) {
    this.#text = text;
    this.code = [...blank(text)];
    this.comments = [...blank(text)];
  }

  run(): void {
    while (this.#place < this.#text.length) this.#next();
  }

  #next(): void {
    const two = this.#text.slice(this.#place, this.#place + 2);
    const one = two[0] ?? "";
    if (two === "//") return this.#comment(this.#endOf("\n", this.#place));
    if (two === "/*") return this.#comment(this.#endOf("*/", this.#place + 2) + 2);
    if (one === '"' || one === "'") return this.#quoted(one);
    if (one === "`") return this.#template();
    if (one === "/" && BEFORE_PATTERN.test(this.code.slice(Math.max(0, this.#place - 40), this.#place).join(""))) return this.#pattern();
    const depth = this.#holes.at(-1);
    if (depth !== undefined && one === "}" && depth === 0) {
      this.#holes.pop();
      return this.#template();
    }
    if (depth !== undefined && (one === "{" || one === "}")) this.#holes[this.#holes.length - 1] = depth + (one === "{" ? 1 : -1);
    this.#keep();
  }

  #keep(): void {
    this.code[this.#place] = this.#text[this.#place] ?? "";
    this.#place++;
  }

  #endOf(mark: string, from: number): number {
    const end = this.#text.indexOf(mark, from);
    return end < 0 ? this.#text.length : end;
  }

  #comment(end: number): void {
    for (; this.#place < Math.min(end, this.#text.length); this.#place++) this.comments[this.#place] = this.#text[this.#place] ?? "";
  }

  /** Keeps the quotes, so that imports can be found, and blanks what is between them. */
  #quoted(quote: string): void {
    this.#keep();
    while (this.#place < this.#text.length && this.#text[this.#place] !== quote && this.#text[this.#place] !== "\n") this.#skip();
    this.#keep();
  }

  /** From a backtick, or from the brace that ends a hole, to the next hole or the closing backtick. */
  #template(): void {
    this.#keep();
    while (this.#place < this.#text.length) {
      if (this.#text[this.#place] === "`") return this.#keep();
      if (this.#text.startsWith("${", this.#place)) {
        this.#holes.push(0);
        this.#keep();
        return this.#keep();
      }
      this.#skip();
    }
  }

  #pattern(): void {
    this.#keep();
    for (let inClass = false; this.#place < this.#text.length; this.#skip()) {
      const one = this.#text[this.#place];
      if (one === "\n" || (one === "/" && !inClass)) break;
      if (one === "[") inClass = true;
      else if (one === "]") inClass = false;
    }
    this.#keep();
  }

  #skip(): void {
    this.#place += this.#text[this.#place] === "\\" ? 2 : 1;
  }
}

/** Spaces in place of every UTF-16 code unit but line ends. */
function blank(text: string): string {
  return text.replace(/[^\n]/g, " ");
}

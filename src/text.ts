/**
 * Text for people: quoting, escaping and column widths, so that no name can break or forge a line.
 * Knows no stream and no message.
 */

/** Controls, line separators, direction marks and lone surrogates: all that can change how a line looks. */
const UNSAFE = /[\p{Cc}\p{Cs}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu;
const NAMED: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

const escapeOne = (character: string): string =>
  NAMED[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;

/** The text on one line; unambiguous, because a backslash is doubled. */
export function printable(text: string): string {
  return text.replaceAll("\\", "\\\\").replace(UNSAFE, escapeOne);
}

/** Prose made harmless for a terminal: its line breaks stay, other control characters are escaped. */
export function escapeProse(text: string): string {
  return text.replace(UNSAFE, (character) => (character === "\n" ? character : escapeOne(character)));
}

/** A user's word in a message: quoted, escaped, and cut when it is very long. */
export function quoted(text: string): string {
  const charactersMax = 100;
  const shown = text.length > charactersMax ? `${text.slice(0, charactersMax)}…` : text;
  return `"${escapeProse(shown.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"'))}"`;
}

/** The longest beginning that takes at most so many bytes of UTF-8 and splits no character. */
export function clipped(text: string, bytesMax: number): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(bytesMax));
  return text.slice(0, read).toWellFormed();
}

/** Pads with spaces to a width in terminal columns. */
export function padColumns(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - Bun.stringWidth(text)));
}

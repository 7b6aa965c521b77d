/** What the TOML parser does not tell: shapes of its values, and the line on which a key stands. */

export type Table = Readonly<Record<string, unknown>>;

export function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}

/**
 * Line (from 1) of a key of a section, "" being the top level; null when it is written in a way that
 * this simple search does not find, such as dotted or inside an inline table. For messages only.
 */
export function keyLine(text: string, section: string, key: string): number | null {
  let current = "";
  for (const [index, line] of text.split("\n").entries()) {
    const header = /^\s*\[+\s*([^\]]*?)\s*\]+/.exec(line)?.[1];
    if (header !== undefined) {
      current = unquoted(header);
      // a section that is itself the unknown key
      if (section === "" && current === key) return index + 1;
      continue;
    }
    const name = /^\s*("[^"]*"|'[^']*'|[\w-]+)\s*=/.exec(line)?.[1];
    if (current === section && name !== undefined && unquoted(name) === key) return index + 1;
  }
  return null;
}

const unquoted = (name: string): string => name.replace(/^(["'])(.*)\1$/, "$2");

/** How results look for people: tables, times and spans. Knows no command and no stream. */
import { padColumns, printable } from "../text.ts";

export { printable };

const COLUMN_GAP = "  ";

/**
 * Aligned columns, one row a line, each line ended by a newline; the first row may be a header.
 * Cells are escaped, so that a name with a newline stays one row; no line ends in spaces.
 */
export function table(rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(printable));
  const widths: number[] = [];
  for (const row of cells) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, Bun.stringWidth(cell));
  }
  const lines = cells.map((row) => row.map((cell, column) => padColumns(cell, widths[column] ?? 0)).join(COLUMN_GAP).trimEnd());
  return lines.map((line) => `${line}\n`).join("");
}

/** Wall-clock milliseconds as ISO 8601 in UTC, the form of all times in JSON. */
export function formatIso(wallMs: number): string {
  return new Date(wallMs).toISOString();
}

/** A span for people, rounded down to its two largest units: `850ms`, `12s`, `3m 12s`, `2d 4h`. */
export function formatDuration(elapsedMs: number): string {
  const whole = Math.max(0, Math.floor(elapsedMs));
  if (whole < 1000) return `${whole}ms`;
  const parts: readonly (readonly [number, string])[] = [
    [Math.floor(whole / 86_400_000), "d"],
    [Math.floor(whole / 3_600_000) % 24, "h"],
    [Math.floor(whole / 60_000) % 60, "m"],
    [Math.floor(whole / 1000) % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  return parts
    .slice(first, first + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${amount}${unit}`)
    .join(" ");
}

/**
 * A table of text for the terminal: first column left, all others right. Knows no benchmark.
 */
import { assert } from "../../src/errors.ts";

/** Lines joined by newlines, the last one ended; every row has as many cells as `head`. */
export function renderTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  for (const row of rows) assert(row.length === head.length, "a row has a cell for every column");
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  ")
      .trimEnd();
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return [line(head), rule, ...rows.map(line), ""].join("\n");
}

/** Three significant digits, without an exponent up to a million; `-` for what was not measured. */
export function formatNumber(value: number | null): string {
  if (value === null) return "-";
  if (value === 0) return "0";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en-US");
  return value.toPrecision(3);
}

/**
 * What a benchmark found, as a table for people and as bench/results/NAME.json. Rows compare
 * contestants; the ratio is always lockd divided by the peer. Knows no benchmark by name.
 */
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Machine } from "./machine.ts";
import { median } from "./statistics.ts";
import { formatNumber, renderTable } from "./table.ts";

export interface ReportRow {
  case: string;
  /** what is compared, with its unit: `cycles/s`, `p50 ms` */
  measure: string;
  /** samples of each contestant in round order; absent: not measured in this case */
  samples: Readonly<Record<string, readonly number[]>>;
}

export interface Report {
  name: string;
  /** columns in this order; the first is lockd, the second the peer of the ratio, if there is one */
  contestants: readonly [string, ...string[]];
  rows: readonly ReportRow[];
  options: Readonly<Record<string, number | readonly number[]>>;
  machine: Machine;
}

/** A row out of what every contestant measured, round by round. */
export function reportRow<T>(
  label: { case: string; measure: string },
  results: ReadonlyMap<string, readonly T[]>,
  read: (result: T) => number,
): ReportRow {
  const samples = [...results].map(([name, rounds]): [string, number[]] => [name, rounds.map(read)]);
  return { ...label, samples: Object.fromEntries(samples) };
}

/** Medians of a row and lockd's divided by the peer's; null where one of them is missing. */
export function summarise(report: Report, row: ReportRow): { medians: Record<string, number | null>; ratio: number | null } {
  const medians: Record<string, number | null> = {};
  for (const name of report.contestants) {
    const samples = row.samples[name] ?? [];
    medians[name] = samples.length === 0 ? null : median(samples);
  }
  const [own, peer] = report.contestants;
  const ours = medians[own] ?? null;
  const theirs = peer === undefined ? null : (medians[peer] ?? null);
  return { medians, ratio: ours === null || theirs === null || theirs === 0 ? null : ours / theirs };
}

export function renderReport(report: Report): string {
  const [, peer] = report.contestants;
  const head = ["case", "measure", ...report.contestants, ...(peer === undefined ? [] : [`lockd/${peer}`])];
  const rows = report.rows.map((row) => {
    const { medians, ratio } = summarise(report, row);
    const cells = [row.case, row.measure, ...report.contestants.map((name) => formatNumber(medians[name] ?? null))];
    if (peer !== undefined) cells.push(ratio === null ? "-" : ratio.toFixed(2));
    return cells;
  });
  const rounds = Math.max(0, ...report.rows.flatMap((row) => Object.values(row.samples).map((samples) => samples.length)));
  return `${report.name}: medians of ${rounds} round${rounds === 1 ? "" : "s"}\n${renderTable(head, rows)}`;
}

/** Prints the table and replaces the result file at once. Returns the path of the file. */
export function publish(report: Report, folder = fileURLToPath(new URL("../results/", import.meta.url))): string {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${report.name}.json`);
  const rows = report.rows.map((row) => ({ ...row, ...summarise(report, row) }));
  const result = { ...report, date: new Date().toISOString(), rows };
  writeFileSync(`${file}.tmp`, `${JSON.stringify(result, null, 2)}\n`);
  renameSync(`${file}.tmp`, file);
  process.stdout.write(renderReport(report));
  return file;
}

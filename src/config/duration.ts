/** Durations as people write them: `250ms`, `10s`, `5m`, `2h`, `1d`, or a bare number of seconds. */

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Milliseconds of a duration, or null when the text is none: signs, exponents, several units and
 * what is finer than a millisecond are refused, never rounded. Exact for decimal fractions.
 */
export function parseDuration(text: string): number | null {
  const match = /^(\d{1,15})(?:\.(\d{1,9}))?(ms|s|m|h|d)?$/.exec(text);
  if (match === null) return null;
  const [, whole = "", fraction = "", unit = "s"] = match;
  const unitMs = BigInt(UNITS_MS[unit] ?? 0);
  const scale = 10n ** BigInt(fraction.length);
  const scaled = (BigInt(whole) * scale + BigInt(fraction === "" ? "0" : fraction)) * unitMs;
  if (scaled % scale !== 0n) return null;
  const milliseconds = scaled / scale;
  return milliseconds > BigInt(Number.MAX_SAFE_INTEGER) ? null : Number(milliseconds);
}

/** The shortest text that parseDuration turns back into exactly this whole number of milliseconds. */
export function durationText(durationMs: number): string {
  if (durationMs === 0) return "0s";
  const unit = ["d", "h", "m", "s"].find((name) => durationMs % (UNITS_MS[name] ?? 1) === 0) ?? "ms";
  return `${durationMs / (UNITS_MS[unit] ?? 1)}${unit}`;
}

/** Sizes in bytes as people write them: `4096`, `64KiB`, `16MiB`, `1GiB`. */

const UNITS: Readonly<Record<string, number>> = { "": 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 };

/** Bytes of a size, or null when the text is none. */
export function parseSize(text: string): number | null {
  const match = /^(\d{1,15})(KiB|MiB|GiB)?$/.exec(text);
  if (match === null) return null;
  const bytes = Number(match[1]) * (UNITS[match[2] ?? ""] ?? 1);
  return Number.isSafeInteger(bytes) ? bytes : null;
}

/** The shortest text that parseSize turns back into exactly this number of bytes. */
export function formatSize(bytes: number): string {
  if (bytes === 0) return "0";
  const unit = ["GiB", "MiB", "KiB"].find((name) => bytes % (UNITS[name] ?? 1) === 0) ?? "";
  return `${bytes / (UNITS[unit] ?? 1)}${unit}`;
}

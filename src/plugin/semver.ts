/**
 * Versions and ranges as plugins state them: the small part of semver 2.0 that they need. Releases
 * only: a range with a pre-release is refused instead of being guessed at.
 */

export interface Version {
  major: number;
  minor: number;
  patch: number;
}

/** `from` (included) up to `below` (excluded). */
interface Interval {
  from: Version;
  below: Version | null;
}

/** Words for an error message. */
export const RANGE_FORMS = "accepted are ranges such as ^1, ^1.2, >=1 <2, 1.2 and 1.2.3";

const FULL = /^(\d{1,9})\.(\d{1,9})\.(\d{1,9})$/;
const COMPARATOR = /^(\^|>=|<=|>|<|=)?(\d{1,9})(?:\.(\d{1,9})(?:\.(\d{1,9}))?)?$/;

/** `1.2.3` as numbers, null when the text is anything else. */
export function parseVersion(text: string): Version | null {
  const match = FULL.exec(text);
  return match === null ? null : { major: Number(match[1]), minor: Number(match[2]), patch: Number(match[3]) };
}

/** Whether `version` is in `range` (comparators that all must hold); null when the range is malformed. */
export function satisfies(version: Version, range: string): boolean | null {
  const intervals = range.trim().split(/\s+/).map(parseComparator);
  if (intervals.includes(null)) return null;
  return intervals.every((interval) => interval !== null && contains(interval, version));
}

const contains = ({ from, below }: Interval, version: Version): boolean =>
  compare(version, from) >= 0 && (below === null || compare(version, below) < 0);

const compare = (a: Version, b: Version): number => a.major - b.major || a.minor - b.minor || a.patch - b.patch;

const ZERO: Version = { major: 0, minor: 0, patch: 0 };

/** A number left out stands for all: `1` is 1.0.0 up to 2.0.0, `>1` begins at 2.0.0, `<=1` ends there. */
function parseComparator(text: string): Interval | null {
  const match = COMPARATOR.exec(text);
  if (match === null) return null;
  const [, operator = "=", majorText = "", minorText, patchText] = match;
  const from: Version = { major: Number(majorText), minor: Number(minorText ?? 0), patch: Number(patchText ?? 0) };
  const next = after(from, minorText === undefined ? "major" : patchText === undefined ? "minor" : "patch");
  switch (operator) {
    case "=":
      return { from, below: next };
    case ">=":
      return { from, below: null };
    case ">":
      return { from: next, below: null };
    case "<":
      return { from: ZERO, below: from };
    case "<=":
      return { from: ZERO, below: next };
    case "^":
      return { from, below: caretEnd(from, minorText, patchText) };
    default:
      return null;
  }
}

/** `^`: nothing may change at or left of the first number that is not zero. */
function caretEnd(from: Version, minorText: string | undefined, patchText: string | undefined): Version {
  if (from.major > 0 || minorText === undefined) return after(from, "major");
  if (from.minor > 0 || patchText === undefined) return after(from, "minor");
  return after(from, "patch");
}

function after(version: Version, part: keyof Version): Version {
  if (part === "major") return { major: version.major + 1, minor: 0, patch: 0 };
  if (part === "minor") return { major: version.major, minor: version.minor + 1, patch: 0 };
  return { ...version, patch: version.patch + 1 };
}

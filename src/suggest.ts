/** The nearest of some known words to a mistyped one. Knows no command and no option. */

/** Longer words are no typing mistakes, and comparing them costs time. */
const LENGTH_MAX = 64;

/** The candidate that was probably meant, or null when none is near. */
export function nearest(word: string, candidates: Iterable<string>): string | null {
  if (word.length > LENGTH_MAX) return null;
  const distanceMax = Math.max(1, Math.floor(word.length / 3));
  let best: string | null = null;
  let bestDistance = distanceMax + 1;
  for (const candidate of candidates) {
    const started = word.length >= 3 && candidate.startsWith(word);
    const distance = started ? 1 : editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** `did you mean X?`, or null. */
export function didYouMean(word: string, candidates: Iterable<string>): string | null {
  const found = nearest(word, candidates);
  return found === null ? null : `did you mean ${found}?`;
}

/** Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours. */
function editDistance(a: string, b: string): number {
  let beforePrevious: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const current = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let distance = Math.min(at(previous, j) + 1, at(current, j - 1) + 1, at(previous, j - 1) + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        distance = Math.min(distance, at(beforePrevious, j - 2) + 1);
      }
      current.push(distance);
    }
    beforePrevious = previous;
    previous = current;
  }
  return at(previous, b.length);
}

const at = (row: readonly number[], index: number): number => row[index] ?? Number.POSITIVE_INFINITY;

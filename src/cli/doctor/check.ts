/** What a check of `lockd doctor` says, and bounds on how long it may take. Checks nothing itself. */

export type CheckState = "ok" | "warning" | "failed";

export interface Check {
  /** what was looked at, kebab-case */
  check: string;
  state: CheckState;
  /** one line */
  summary: string;
  /** what the reader can do about it; absent when there is nothing to do */
  hint?: string;
  /** numbers and names for programs */
  details?: Readonly<Record<string, unknown>>;
}

/** The worst of some states; `ok` of none. */
export function worst(states: readonly CheckState[]): CheckState {
  if (states.includes("failed")) return "failed";
  return states.includes("warning") ? "warning" : "ok";
}

/** What `work` gives, or `late` when it takes longer; what is late is left behind. Rejects as `work`. */
export async function within<T, L>(ms: number, work: Promise<T>, late: L): Promise<T | L> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const over = new Promise<L>((resolve) => {
    timer = setTimeout(() => resolve(late), ms);
  });
  // an error that comes too late is nobody's any more
  work.catch(() => undefined);
  try {
    return await Promise.race([work, over]);
  } finally {
    clearTimeout(timer);
  }
}

/** The middle one of some numbers, the upper of two; NaN of none. */
export function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

/** `0.42 ms` */
export const milliseconds = (ms: number): string => `${ms < 10 ? ms.toFixed(2) : ms.toFixed(0)} ms`;

export const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** `ENOENT` and so on; null for errors of another kind. */
export const systemCode = (error: unknown): string | null =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : null;

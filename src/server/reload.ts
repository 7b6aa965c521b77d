/** What differs between two configurations. Pure; run.ts decides what of it can be taken up. */
import type { Config, ConfigValue } from "../config/types.ts";

/**
 * Names of options whose values differ, sorted; those of plugins as `section.name`. Where a value
 * comes from makes no difference.
 */
export function changedOptions(before: Config, after: Config): string[] {
  const changed = changedNames(before.core, after.core);
  for (const name of new Set([...before.sections.keys(), ...after.sections.keys()])) {
    const names = changedNames(before.sections.get(name) ?? new Map(), after.sections.get(name) ?? new Map());
    changed.push(...names.map((option) => `${name}.${option}`));
  }
  return changed.sort();
}

type Values = ReadonlyMap<string, ConfigValue>;

const changedNames = (before: Values, after: Values): string[] =>
  [...new Set([...before.keys(), ...after.keys()])].filter(
    (name) => JSON.stringify(before.get(name)?.value) !== JSON.stringify(after.get(name)?.value),
  );

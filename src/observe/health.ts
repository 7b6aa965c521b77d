/**
 * Health checks by name, and their report. Owns nothing but the list: what a check looks at is its
 * owner's affair, how a report travels is http.ts's.
 */
import { LockdError } from "../errors.ts";
import type { Health, HealthState } from "./types.ts";

export interface HealthReport {
  ok: boolean;
  checks: { name: string; ok: boolean; reason: string | null }[];
}

type Kind = "live" | "ready";

export class HealthChecks {
  readonly #checks = new Map<string, { kind: Kind; name: string; owner: string; check: () => HealthState }>();

  /** The interface for one owner, whose name errors carry. */
  scope(owner: string): Health {
    return { add: (kind, name, check) => this.#add(owner, kind, name, check) };
  }

  #add(owner: string, kind: Kind, name: string, check: () => HealthState): void {
    const key = `${kind} ${name}`;
    const taken = this.#checks.get(key);
    if (taken !== undefined) {
      throw new LockdError("config", `add health check ${name}: ${owner} and ${taken.owner} both have a ${kind} check of this name`);
    }
    this.#checks.set(key, { kind, name, owner, check });
  }

  /** Runs the checks of a kind; one that throws is not ok, with its message as the reason. */
  report(kind: Kind): HealthReport {
    const checks: HealthReport["checks"] = [];
    for (const entry of this.#checks.values()) {
      if (entry.kind !== kind) continue;
      const state = stateOf(entry.check);
      checks.push({ name: entry.name, ok: state.ok, reason: state.ok ? null : (state.reason ?? "no reason given") });
    }
    return { ok: checks.every((check) => check.ok), checks };
  }
}

function stateOf(check: () => HealthState): HealthState {
  try {
    return check();
  } catch (error) {
    return { ok: false, reason: `the check failed: ${error instanceof Error ? error.message : String(error)}` };
  }
}

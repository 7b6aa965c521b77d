/**
 * The near side of the probe: starts the Worker, tells it of phases, collects what it saw.
 * Knows no benchmark.
 */
import { LockdError } from "../../src/errors.ts";
import type { ProbeResult } from "./probe.ts";

export interface Bystander {
  /** From now on operations count for this phase. */
  enter(phase: string): void;
  /** Ends the probe; the spread of its operations by phase. */
  finish(): Promise<ProbeResult>;
}

/** Resolves when the probe has had its first lock. Rejects when it cannot go on. */
export async function startBystander(server: string): Promise<Bystander> {
  const worker = new Worker(new URL("probe.ts", import.meta.url));
  const next = <T>(isWanted: (data: unknown) => data is T): Promise<T> =>
    new Promise((resolve, reject) => {
      worker.onerror = (event) => reject(new LockdError("failed", `run probe: ${event.message}`));
      worker.onmessage = (event: MessageEvent<unknown>) => {
        if (isWanted(event.data)) resolve(event.data);
      };
    });
  const ready = next((data): data is "ready" => data === "ready");
  worker.postMessage({ server });
  await ready;
  return {
    enter: (phase) => worker.postMessage({ phase }),
    async finish() {
      const result = next((data): data is ProbeResult => typeof data === "object" && data !== null);
      worker.postMessage({ phase: null });
      const found = await result;
      worker.terminate();
      return found;
    },
  };
}

/** Waiting that an AbortSignal ends. */
import { LockdError } from "../errors.ts";

/** Rejects with `cancelled` when the signal aborts first; what comes later is then ignored. `what` begins the message. */
export function unlessAborted<T>(outcome: Promise<T>, signal: AbortSignal | undefined, what: string): Promise<T> {
  if (signal === undefined) return outcome;
  return new Promise((resolve, reject) => {
    const abort = () => reject(new LockdError("cancelled", `${what}: cancelled`, { cause: signal.reason }));
    signal.addEventListener("abort", abort);
    if (signal.aborted) abort();
    outcome.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

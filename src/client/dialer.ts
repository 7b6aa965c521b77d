/**
 * Finds a server: the given ones in turn, every address of each, for a limited time each, with
 * jittered back-off between rounds. Knows no lock.
 */
import type { Timers } from "../clock/clock.ts";
import { LockdError } from "../errors.ts";
import type { ClientSecurity } from "../security/client-security.ts";
import { type Channel, type ClientIdentity, describeNetworkError, openChannel } from "./channel.ts";
import type { Endpoint } from "./endpoint.ts";
import { NoServerError } from "./errors.ts";
import type { LeaseClock } from "./lease-clock.ts";
import type { Dial, Resolve } from "./transport.ts";

const BACKOFF_MS_MIN = 50;
const BACKOFF_MS_MAX = 1000;

export interface DialerOptions {
  servers: readonly Endpoint[];
  identity: ClientIdentity;
  /** for one server with all its addresses */
  connectTimeoutMs: number;
  dial: Dial;
  security: ClientSecurity;
  resolve: Resolve;
  leaseClock: LeaseClock;
  timers: Pick<Timers, "after">;
  random: () => number;
  nextFrameId: () => number;
}

export class Dialer {
  readonly #options: DialerOptions;
  /** index of the server that the next round starts with */
  #start = 0;
  /** why each server could not be used when it was tried last: a round that is cut short has not tried all */
  readonly #failures = new Map<Endpoint, LockdError>();

  constructor(options: DialerOptions) {
    this.#options = options;
  }

  /**
   * One round over all servers. Rejects with `unavailable` naming each server and why, with the
   * servers' own error when all refuse for the same lasting reason, or with `cancelled`.
   * `untilMs` cuts the round short on the lease clock, but the first server always gets its turn.
   */
  async round(untilMs: number, signal?: AbortSignal): Promise<Channel> {
    const { servers } = this.#options;
    for (let turn = 0; turn < servers.length; turn += 1) {
      const index = (this.#start + turn) % servers.length;
      const server = servers[index];
      if (server === undefined || (turn > 0 && this.#options.leaseClock.now() >= untilMs)) break;
      try {
        const channel = await this.#tryServer(server, signal);
        // when this connection breaks, the next server is asked first
        this.#start = (index + 1) % servers.length;
        this.#failures.clear();
        return channel;
      } catch (error) {
        if (!(error instanceof LockdError)) throw error;
        if (signal?.aborted === true) throw new LockdError("cancelled", "find a server: cancelled", { cause: error });
        this.#failures.set(server, error);
      }
    }
    throw roundError(Array.from(this.#failures, ([{ text }, error]) => ({ text, error })));
  }

  /** How long to wait after this many failures in a row: 50 ms to 1 s, doubling, half of it random. */
  backoffMs(failures: number): number {
    const wholeMs = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** Math.min(failures, 10));
    return Math.max(BACKOFF_MS_MIN, wholeMs * (0.5 + this.#options.random() / 2));
  }

  async #tryServer(server: Endpoint, signal: AbortSignal | undefined): Promise<Channel> {
    const { leaseClock, connectTimeoutMs } = this.#options;
    const deadlineMs = leaseClock.now() + connectTimeoutMs;
    const addresses = await this.#addresses(server, signal);
    let last = new LockdError("unavailable", `connect to ${server.text}: the name has no address`);
    for (const [position, address] of addresses.entries()) {
      const leftMs = deadlineMs - leaseClock.now();
      if (leftMs <= 0) break;
      try {
        return await openChannel({
          target: { address, port: server.port, host: server.host },
          label: address === server.host ? server.text : `${server.text} (${address})`,
          identity: this.#options.identity,
          // an address that does not answer leaves time for those behind it
          timeoutMs: Math.max(1, Math.ceil(leftMs / (addresses.length - position))),
          dial: this.#options.dial,
          security: this.#options.security,
          leaseClock,
          timers: this.#options.timers,
          nextFrameId: this.#options.nextFrameId,
          signal,
        });
      } catch (error) {
        if (!(error instanceof LockdError)) throw error;
        if (signal?.aborted === true) throw error;
        // a server that refuses says more than an address at which nobody is
        if (last.retryable) last = error;
      }
    }
    throw last;
  }

  /** The name is looked up anew at each dial, within the server's time. */
  #addresses(server: Endpoint, signal: AbortSignal | undefined): Promise<readonly string[]> {
    const { timers, connectTimeoutMs, resolve } = this.#options;
    return new Promise((fulfil, reject) => {
      const abort = () => finish(() => reject(new LockdError("cancelled", `look up ${server.host}: cancelled`)));
      const timer = timers.after(connectTimeoutMs, () => {
        const text = `look up ${server.host}: no answer within ${connectTimeoutMs} ms`;
        finish(() => reject(new LockdError("unavailable", text)));
      });
      const finish = (settle: () => void) => {
        timer.cancel();
        signal?.removeEventListener("abort", abort);
        settle();
      };
      signal?.addEventListener("abort", abort);
      if (signal?.aborted === true) abort();
      resolve(server.host).then(
        (addresses) => finish(() => fulfil(addresses)),
        (error: unknown) => {
          const why = error instanceof Error ? describeNetworkError(error) : String(error);
          const failure = new LockdError("unavailable", `look up ${server.host}: ${why}`, { cause: error });
          finish(() => reject(failure));
        },
      );
    });
  }
}

function roundError(failures: readonly { text: string; error: LockdError }[]): LockdError {
  const first = failures[0]?.error;
  if (first !== undefined && failures.every(({ error }) => !error.retryable && error.code === first.code)) return first;
  const attempts = failures.map(({ text, error }) => ({
    server: text,
    reason: error.message.replace(/^(?:connect|talk) to [^ ]+(?: \([^)]*\))?: /, ""),
  }));
  return new NoServerError(attempts, first);
}

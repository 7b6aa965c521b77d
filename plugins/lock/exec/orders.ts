/**
 * What the wrapper tells its supervisor, one JSON object a line, and what the supervisor answers, one
 * byte each. Shared by both ends; knows neither of them.
 */

import type { ClientFiles } from "../../../src/security/option-names.ts";

/** How the supervisor lets go of the lock when the wrapper is gone. Secret: it travels by pipe only. */
export interface ReleaseOrder {
  handle: string;
  /** addresses of servers, tried in turn */
  servers: readonly string[];
  /** where its credentials are; read only when they are needed, so a pipe never carries them */
  files: ClientFiles;
}

export type Order =
  /** the command starts now: from here on the end of the pipe means that the wrapper was killed */
  | { order: "guard"; group: number; termAtMs: number | null; killAtMs: number | null; release: ReleaseOrder | null }
  /** new times on the boot clock to send TERM and KILL; null: not to */
  | { order: "deadline"; termAtMs: number | null; killAtMs: number | null }
  /** the command has ended and been waited for: leave its group alone */
  | { order: "done" };

/** Any of them means that the command ran up to its deadline without the wrapper. */
export const SUPERVISOR_SAYS = {
  /** it sent TERM, because the time had come and the wrapper had not */
  terminated: 0x54,
  /** it sent KILL */
  killed: 0x4b,
} as const;

/** Orders out of bytes that may be cut anywhere. */
export class OrderReader {
  #rest = "";
  readonly #decoder = new TextDecoder();

  *push(bytes: Uint8Array): Generator<Order> {
    const lines = (this.#rest + this.#decoder.decode(bytes, { stream: true })).split("\n");
    this.#rest = lines.pop() ?? "";
    // both ends are this same program, so the shape is known
    for (const line of lines) yield JSON.parse(line) as Order;
  }
}

export const orderBytes = (order: Order): Uint8Array => Buffer.from(`${JSON.stringify(order)}\n`, "utf8");

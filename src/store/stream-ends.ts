/**
 * Where each stream goes on, so that a gap is refused when it is written instead of being found as damage
 * at the next start. Knows what was accepted, not whether it is durable yet.
 */
import { assert } from "../errors.ts";
import type { StreamAppend } from "./types.ts";

/** Streams and the last ids that they have with a batch. */
export type Ends = readonly (readonly [place: string, lastId: number])[];

export class StreamEnds {
  readonly #readEnd: (namespace: string, stream: string) => number | null;
  readonly #ends = new Map<string, number | null>();

  /** `readEnd` answers the last durable id of a stream, null when it holds none. */
  constructor(readEnd: (namespace: string, stream: string) => number | null) {
    this.#readEnd = readEnd;
  }

  /** The ends with these appends; asserts that each goes on where its stream ends. Changes nothing. */
  with(namespace: string, appends: readonly StreamAppend[]): Ends {
    const ends = new Map<string, number>();
    for (const { stream, firstId, lastId } of appends) {
      const place = `${namespace}\0${stream}`;
      const end = ends.get(place) ?? this.#end(place, namespace, stream);
      assert(end === null || firstId === end + 1, `stream ${stream} of ${namespace} goes on with ${(end ?? 0) + 1}, not with ${firstId}`);
      ends.set(place, lastId);
    }
    return [...ends];
  }

  /** The batch was accepted. */
  accept(ends: Ends): void {
    for (const [place, lastId] of ends) this.#ends.set(place, lastId);
  }

  /** Accepted batches were refused after all: what is durable tells where the streams end. */
  forget(): void {
    this.#ends.clear();
  }

  #end(place: string, namespace: string, stream: string): number | null {
    const known = this.#ends.get(place);
    if (known !== undefined) return known;
    const end = this.#readEnd(namespace, stream);
    this.#ends.set(place, end);
    return end;
  }
}

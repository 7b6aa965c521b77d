/** The messages between the store and its writer worker. Types only. */
import type { ErrorCode } from "../errors.ts";

export type WriterRequest =
  | { kind: "open"; path: string }
  /** one packed group, transferred; groups are answered in order */
  | { kind: "commit"; id: number; group: ArrayBuffer }
  | { kind: "close" };

export interface WriterFailure {
  code: ErrorCode;
  message: string;
  hint?: string;
}

export type WriterAnswer =
  | { kind: "opened" }
  | { kind: "committed"; id: number; walBytes: number }
  /** not durable, nothing of it; the writer goes on */
  | { kind: "rejected"; id: number; failure: WriterFailure }
  /** nothing is made durable from now on; also the answer to all that is under way */
  | { kind: "failed"; failure: WriterFailure }
  | { kind: "closed" };

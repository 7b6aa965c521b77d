/**
 * Frames as lines of the log (`--trace-messages`), without what would let a reader of the log act in
 * another's name. Knows no socket.
 */
import type { Logger } from "../observe/types.ts";
import type { Connection, Frame } from "./types.ts";

/** Called for every frame, before it is handled or after it was queued. */
export type TraceHook = (direction: "in" | "out", frame: Frame, connection: Pick<Connection, "id">) => void;

/** Field names whose value never reaches a log. A fencing `token` is public and stays. */
const SECRET_FIELD = /handle|secret|password|credential|proof|auth|^parents$/i;
const REDACTED = "[redacted]";
const TEXT_SHOWN_MAX = 256;
const ITEMS_SHOWN_MAX = 32;
const DEPTH_SHOWN_MAX = 8;

/** A hook that writes each frame as one line of level `info`. */
export function traceToLogger(logger: Logger): TraceHook {
  return (direction, frame, connection) => {
    logger.info("frame", { direction, connection: connection.id, type: frame.type, id: frame.id, body: JSON.stringify(redact(frame.body)) });
  };
}

/** The value with secrets replaced and long parts cut. Byte strings show only their length. */
export function redact(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return value.length <= TEXT_SHOWN_MAX ? value : `${value.slice(0, TEXT_SHOWN_MAX)}…`;
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Uint8Array) return `[${value.length} bytes]`;
  if (depth >= DEPTH_SHOWN_MAX) return "…";
  if (Array.isArray(value)) {
    const shown = value.slice(0, ITEMS_SHOWN_MAX).map((item: unknown) => redact(item, depth + 1));
    return value.length > ITEMS_SHOWN_MAX ? [...shown, `… ${value.length - ITEMS_SHOWN_MAX} more`] : shown;
  }
  const entries = Object.entries(value).map(([key, item]: [string, unknown]): [string, unknown] => [
    key,
    SECRET_FIELD.test(key) ? REDACTED : redact(item, depth + 1),
  ]);
  return Object.fromEntries(entries);
}

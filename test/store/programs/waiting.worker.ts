/** A writer that answers a group only when the next message of any kind comes: a disk that hangs. */
import type { WriterAnswer, WriterRequest } from "../../../src/store/writer-protocol.ts";

declare const self: Worker;

let held: number | null = null;
self.onmessage = ({ data }: MessageEvent<WriterRequest | { kind: "go" }>) => {
  if (data.kind === "open") answer({ kind: "opened" });
  if (data.kind === "close") answer({ kind: "closed" });
  if (data.kind === "go" && held !== null) answer({ kind: "committed", id: held, walBytes: 4096 });
  if (data.kind === "commit") held = data.id;
};

function answer(message: WriterAnswer): void {
  self.postMessage(message);
}

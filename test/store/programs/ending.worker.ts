/** A writer that opens and then ends at the first commit. */
import type { WriterAnswer, WriterRequest } from "../../../src/store/writer-protocol.ts";

declare const self: Worker;

self.onmessage = ({ data }: MessageEvent<WriterRequest>) => {
  if (data.kind === "open") self.postMessage({ kind: "opened" } satisfies WriterAnswer);
  else process.exit(0);
};

/** A writer that opens and then throws at the first commit, outside of any catch. */
import type { WriterAnswer, WriterRequest } from "../../../src/store/writer-protocol.ts";

declare const self: Worker;

self.onmessage = ({ data }: MessageEvent<WriterRequest>) => {
  if (data.kind === "open") self.postMessage({ kind: "opened" } satisfies WriterAnswer);
  else throw new Error("broken on purpose");
};

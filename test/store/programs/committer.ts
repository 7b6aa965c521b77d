/**
 * Commits without end to the store named by its argument, five batches under way at a time. Batch n sets
 * the records `first`, `second` and one of 500 others to n and appends n to a stream; once n is durable it
 * writes the line n. Ends with the line `failed CODE` when a commit is refused, or `opened CODE` at the start.
 */
import { writeSync } from "node:fs";
import { openStore } from "../../../src/store/store.ts";

const say = (line: string | number): void => void writeSync(1, `${line}\n`);
const codeOf = (error: unknown): string => (error instanceof Error && "code" in error ? String(error.code) : String(error));

const directory = process.argv[2] ?? "";
const store = await openStore({ directory }).catch((error: unknown) => {
  say(`opened ${codeOf(error)}`);
  return process.exit(1);
});
const namespace = store.namespace("lock");
let next = 1;
for (const piece of namespace.stream("events")) next = piece.lastId + 1;
const padding = "x".repeat(200);

async function commitForEver(): Promise<void> {
  for (;;) {
    const n = next++;
    const value = new TextEncoder().encode(`${n} ${padding}`);
    const changes = ["first", `other-${n % 500}`, "second"].map((key) => ({ key, value }));
    await namespace.commit({ changes, appends: [{ stream: "events", firstId: n, lastId: n, data: value }] });
    say(n);
  }
}

await Promise.all([1, 2, 3, 4, 5].map(commitForEver)).catch((error: unknown) => {
  say(`failed ${codeOf(error)}`);
  // What ended the store is told by `failed` as well, except a full disk.
  if (codeOf(error) !== "overflow") void store.failed.then((reason) => say(`store ${codeOf(reason)}`)).then(() => process.exit(2));
});

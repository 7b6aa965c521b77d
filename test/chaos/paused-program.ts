/**
 * A client process for a test that stops it: takes a lock, says so in a file, and then notes every
 * 10 ms that it works, as long as its lock's signal has not aborted. Prints how often it worked after
 * it was stopped for longer than its lease, before it heard of the loss.
 */
import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "../../src/client/client.ts";
import { asLockdError } from "../../src/errors.ts";

const [server = "", folder = ""] = process.argv.slice(2);
const client = await connect({ servers: [server] });
const lock = await client.lock("object", { duration: 1_000, unlockDuration: 500 });
let lastMs = performance.now();
let ticksBeforeLoss = 0;
const work = setInterval(() => {
  const nowMs = performance.now();
  // this turn comes after a pause longer than the lease: to work now would be without the lock
  if (nowMs - lastMs > 1_000 && lock.lost === null) ticksBeforeLoss += 1;
  lastMs = nowMs;
}, 10);
// by rename, so that nobody reads half of it
writeFileSync(join(folder, "holding.new"), JSON.stringify({ token: lock.token }));
renameSync(join(folder, "holding.new"), join(folder, "holding"));
await new Promise((resolve) => lock.signal.addEventListener("abort", resolve));
clearInterval(work);
const codeOf = (error: unknown): string => asLockdError(error).code;
const release = await lock.release().then(() => "released", codeOf);
process.stdout.write(`${JSON.stringify({ ticksBeforeLoss, lost: codeOf(lock.signal.reason), release })}\n`);
await client.close();
process.exit(0);

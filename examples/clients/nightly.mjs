/**
 * A job that must run once at a time, or not at all when somebody else runs it, and that stops when its lock
 * is lost:
 *
 *     node nightly.mjs 127.0.0.1:4050
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect, LockFailedError, LockLostError } from "lockd";

const client = await connect({ servers: [process.argv[2] ?? "127.0.0.1:4050"] });
try {
  await client.withLock("nightly", { wait: 0, duration: 5_000, unlockDuration: 2_000 }, async (signal, lock) => {
    for (let step = 1; step <= 3; step += 1) {
      console.log(`step ${step} under token ${lock.token}`);
      await sleep(50, undefined, { signal });
    }
  });
  console.log("done");
} catch (error) {
  if (error instanceof LockFailedError && error.code === "timedout") {
    const [blocker] = error.details.holders;
    console.log(`not now: ${blocker?.holder.name ?? "somebody"} on ${blocker?.holder.host ?? "another machine"} does it`);
  } else if (error instanceof LockLostError || error.name === "AbortError") {
    console.error(`stopped: ${error.cause?.message ?? error.message}`);
    process.exitCode = 1;
  } else throw error;
} finally {
  await client.close();
}

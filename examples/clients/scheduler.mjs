/**
 * A scheduler of which one runs at a time: the others stand by and take over. Start it on several machines:
 *
 *     node scheduler.mjs 127.0.0.1:4050 "$(hostname)"
 *     lockd leader scheduler --watch
 */
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "lockd";

const [address = "127.0.0.1:4050", name = "unnamed"] = process.argv.slice(2);
const stopped = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => stopped.abort());

const client = await connect({ servers: [address], wait: null, signal: stopped.signal });
while (!stopped.signal.aborted) {
  // without end: whoever stands by has nothing else to do
  const leadership = await client.campaign("scheduler", { value: `${name}: starting`, signal: stopped.signal }).catch(unlessStopped);
  if (leadership === undefined) break;
  try {
    await lead(leadership);
  } catch (error) {
    // lost: stand by again
    if (leadership.lost === null) unlessStopped(error);
  }
  // of a leadership that was lost there is nothing to give back
  await leadership.resign().catch(() => console.log("lost"));
}
await client.close();

function unlessStopped(error) {
  if (!stopped.signal.aborted) throw error;
}

/** Works until the leadership is lost or the program is to stop. */
async function lead(leadership) {
  const signal = AbortSignal.any([leadership.signal, stopped.signal]);
  console.log(`leading, token ${leadership.token}`);
  for (let round = 1; ; round += 1) {
    // hand the token to what the round changes: it refuses a leader that does not know yet that it is none
    await leadership.proclaim(`${name}: round ${round}`);
    await sleep(1000, undefined, { signal });
  }
}

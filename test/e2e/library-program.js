/**
 * A program of the kind that the library is for: works under a lock, or as a leader, until it is told to
 * end or has lost it. Appends `enter`, `beat` and `leave` with its token to a file. Run by the tests of the
 * library, in both runtimes: program.js ADDRESS NAME FILE DURATION_MS UNLOCK_DURATION_MS lock|campaign.
 */
import { openSync, writeSync } from "node:fs";
import { connect } from "lockd";

const [address, name, path, duration, unlockDuration, kind] = process.argv.slice(2);
const client = await connect({ servers: [address], wait: 10_000 });
const options = { wait: null, duration: Number(duration), unlockDuration: Number(unlockDuration) };
const leadership = kind === "campaign" ? await client.campaign(name, options) : null;
const lock = leadership?.lock ?? (await client.lock(name, options));

const file = openSync(path, "a");
const write = (word) => writeSync(file, `${word} ${lock.token}\n`);
const beats = setInterval(() => write("beat"), 5);
write("enter");
console.log(`held ${lock.token}`);
lock.onRenewed(() => console.log("renewed"));
lock.signal.addEventListener("abort", () => {
  clearInterval(beats);
  write("leave");
  console.log(`lost ${lock.signal.reason.code} ${lock.signal.reason.reason}`);
  end();
});
process.stdin.once("data", async () => {
  clearInterval(beats);
  write("leave");
  await (leadership === null ? lock.release() : leadership.resign());
  console.log(`released ${lock.token}`);
  end();
});

async function end() {
  await client.close();
  process.exit(0);
}

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
let working = true;
/** Ends the section; whether it was not ended before. */
const stop = () => {
  if (!working) return false;
  working = false;
  clearInterval(beats);
  write("leave");
  return true;
};
lock.onRenewed(() => console.log("renewed"));
lock.signal.addEventListener("abort", () => {
  if (!stop()) return;
  console.log(`lost ${lock.signal.reason.code} ${lock.signal.reason.reason}`);
  end();
});
process.stdin.once("data", async () => {
  if (!stop()) return;
  try {
    await (leadership === null ? lock.release() : leadership.resign());
    console.log(`released ${lock.token}`);
  } catch (error) {
    // lost in the very moment of the release
    console.log(`lost ${error.code} ${error.reason}`);
  }
  end();
});

async function end() {
  await client.close();
  process.exit(0);
}

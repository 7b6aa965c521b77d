/**
 * `lockd demo`: what lockd does, shown on a server of its own in a temporary directory. Every claim of
 * the narration is checked; the exit code is 1 when one did not come true.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CommandContext } from "../../../src/cli/types.ts";
import { LockdError } from "../../../src/errors.ts";
import { Stage, typedName } from "../demo/stage.ts";

const JOBS = 3;

export async function run(context: CommandContext): Promise<number> {
  let written = Promise.resolve();
  const say = (line: string): void => {
    written = written.then(() => context.out.write(`${line}\n`));
  };
  const stage = new Stage(say);
  const interrupted = Promise.withResolvers<never>();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => interrupted.reject(new LockdError("cancelled", `demo: interrupted by ${name}`)));
  }
  try {
    await Promise.race([perform(stage, say), interrupted.promise]);
  } finally {
    await stage.clear();
  }
  say("");
  const name = typedName(context.environment["PATH"]);
  say(`Everything was in a temporary directory, which is gone now. Next: \`${name} serve\`, then \`${name} exec --help\`.`);
  await written;
  return 0;
}

async function perform(stage: Stage, say: (line: string) => void): Promise<void> {
  say(`A lock server, started for this demonstration in ${stage.directory}:`);
  await stage.startServer();
  say(`  lockd serve listens on ${stage.address}`);
  await exclude(stage, say);
  await outlive(stage, say);
  await evict(stage, say);
}

/** Three jobs at once, one lock: no update of the counter is lost. */
async function exclude(stage: Stage, say: (line: string) => void): Promise<void> {
  say("");
  say(`1. ${JOBS} jobs add one to a file, slowly, all at the same time. A lock makes them take turns.`);
  const counter = join(stage.directory, "counter");
  writeFileSync(counter, "0");
  const script = 'n=$(cat counter); sleep 0.4; echo $((n + 1)) > counter; echo "  job with token $LOCKD_TOKEN read $n"';
  say(`  $ lockd exec counter -- sh -c '${script}' &   (three times)`);
  const jobs = Array.from({ length: JOBS }, () => stage.start(["exec", "counter", "--", "sh", "-c", script]));
  await Bun.sleep(250);
  say("Meanwhile:");
  await stage.show(["list"]);
  const ended = await Promise.all(jobs);
  for (const job of ended) must(job.code === 0, `a job ended with ${job.code}: ${job.stderr}`);
  // each says its token: the order of their turns
  for (const line of ended.map((job) => job.stdout.trimEnd()).sort()) say(line);
  const total = readFileSync(counter, "utf8").trim();
  must(total === String(JOBS), `the counter is ${total}`);
  say(`The counter is ${total}: they took turns. Each grant has a larger token, which the resource itself can check.`);
}

/** A crash of the server neither frees a lock nor lets tokens start again. */
async function outlive(stage: Stage, say: (line: string) => void): Promise<void> {
  say("");
  say("2. A lock is taken, and the server crashes (kill -9). After its restart the lock is still held.");
  const taken = await stage.show(["lock", "invoice", "--duration", "1m", "--value", "run of tonight"]);
  const [handle = "", token = ""] = taken.stdout.trim().split(" ");
  must(taken.code === 0 && token !== "", "the lock was not given");
  await stage.crashServer();
  say("  (the server is killed, and started again)");
  await stage.startServer();
  await stage.show(["list"]);
  const refused = await stage.show(["lock", "invoice", "--wait", "0"]);
  must(refused.code === 75, `a second lock ended with ${refused.code} instead of 75`);
  const unlocked = await stage.run(["unlock", handle]);
  must(unlocked.code === 0, `unlock ended with ${unlocked.code}: ${unlocked.stderr}`);
  const again = await stage.run(["lock", "invoice", "--json"]);
  const next: { token?: unknown } = JSON.parse(again.stdout);
  must(typeof next.token === "number" && next.token > Number(token), "the next token is not larger");
  say(`Unlocked by its handle and locked again: token ${String(next.token)}, larger than ${token}.`);
}

/** A lock is forced out: the command that held it is dead before the next one starts. */
async function evict(stage: Stage, say: (line: string) => void): Promise<void> {
  say("");
  say("3. A command hangs and holds a lock. An administrator looks who it is, and forces it out.");
  const hanging = stage.start(["exec", "deploy", "--unlock-duration", "2s", "--", "sleep", "1000"]);
  let token = "";
  for (let tries = 0; token === "" && tries < 100; tries += 1) {
    await Bun.sleep(50);
    const [line = ""] = (await stage.run(["list", "deploy", "--json"])).stdout.split("\n");
    if (line !== "") token = String(JSON.parse(line).token);
  }
  await stage.show(["why", "deploy"]);
  const next = stage.start(["exec", "deploy", "--", "sh", "-c", 'echo "  the next job runs with token $LOCKD_TOKEN"']);
  const forced = await stage.show(["release", "deploy", "--force", "--token", token, "--reason", "it hangs"]);
  must(forced.code === 0, `release ended with ${forced.code}`);
  const lost = await hanging;
  must(lost.code === 76, `the command that lost its lock ended with ${lost.code} instead of 76`);
  say("  the hanging command was ended; its `lockd exec` says (exit code 76):");
  say(`  ${lost.stderr.trimEnd()}`);
  const ran = await next;
  must(ran.code === 0, `the next job ended with ${ran.code}: ${ran.stderr}`);
  say(ran.stdout.trimEnd());
}

/** A step of the demonstration that did not go as told. */
function must(condition: boolean, otherwise: string): void {
  if (!condition) throw new LockdError("failed", `demo: not as it should be: ${otherwise}`);
}

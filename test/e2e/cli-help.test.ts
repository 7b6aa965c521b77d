import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually, lockd, temporaryDirectory } from "./kit.ts";
import { LockWorld, output, shell } from "./locks-kit.ts";

const files = temporaryDirectory("help");
/** A command that is parsed ends here, before it does anything: the environment is looked at next. */
const PARSED = 78;
const STOP_AFTER_PARSING = { LOCKD_NO_SUCH_VARIABLE: "1" };
/** Commands that a wrong environment does not stop: they run, and `doctor` counts it as a failure. */
const RUNS_ANYHOW: ReadonlyMap<string, number> = new Map([["doctor", 1], ["completion", 0], ["man", 0]]);
const parsedCode = ([command = ""]: readonly string[]): number => RUNS_ANYHOW.get(command) ?? PARSED;

interface Help {
  /** words that name the command */
  path: readonly string[];
  text: string;
  /** words that it needs */
  needed: readonly string[];
  flags: readonly { name: string; valueName: string }[];
}

let root = "";
const helps: Help[] = [];
let world: LockWorld;

beforeAll(async () => {
  root = output(await lockd(["--help"]));
  for (const name of namesIn(root)) {
    const text = output(await lockd([name, "--help"]));
    if (text.includes("\nSubcommands:\n")) {
      for (const sub of namesIn(text)) helps.push(parse([name, sub], output(await lockd([name, sub, "--help"]))));
    } else helps.push(parse([name], text));
  }
  world = await LockWorld.start("help-server");
});
afterAll(async () => {
  await world.clear();
  files.remove();
});

/** First words of the lines of lists. */
const namesIn = (text: string): string[] => Array.from(text.matchAll(/^ {2}([a-z]+) {2,}\S/gm), ([, name = ""]) => name);

function parse(path: readonly string[], text: string): Help {
  const usage = /^Usage: lockd (.*)$/m.exec(text)?.[1] ?? "";
  const words = usage.split(" ").slice(path.length);
  const needed = words.filter((word) => /^[A-Z]+…?$/.test(word) && !usage.includes(`-- ${word}`) && word !== "ARG…").map((word) => (word === "SHELL" ? "bash" : "word"));
  const child = usage.includes(" -- CMD") ? ["--", "true"] : [];
  const flags = Array.from(text.matchAll(/^ {2}(?:-\w, | {4})--([a-z-]+)(?: (\S+))? {2,}/gm), ([, name = "", valueName = ""]) => ({ name, valueName }));
  return { path, text, needed: [...needed, ...child], flags };
}

/** A value that a flag with this placeholder accepts. */
function valueFor(valueName: string): readonly string[] {
  if (valueName === "") return [];
  if (valueName.includes("|") && !valueName.startsWith("ADDR")) return [valueName.split("|")[0] ?? ""];
  if (valueName.startsWith("ADDR")) return ["127.0.0.1:4999"];
  const values: Readonly<Record<string, string>> = { D: "1s", N: "2", CODE: "3", ID: "4", LEVEL: "info", FILE: "file", DIR: "directory", TEXT: "text" };
  return [values[valueName] ?? "text"];
}

describe("help", () => {
  test("lists the commands, and each explains itself on stdout with usage, flags and an example, with exit code 0", async () => {
    expect(namesIn(root)).toEqual(
      expect.arrayContaining(["serve", "exec", "lock", "unlock", "renew", "list", "wait", "why", "release", "status", "events", "sessions", "kick", "demo", "plugins", "config", "store"]),
    );
    expect(helps.length).toBeGreaterThan(20);
    for (const { path, text, flags } of helps) {
      expect(text).toStartWith(`lockd ${path.join(" ")}: `);
      expect(text).toMatch(/^Usage: lockd /m);
      expect(text).toMatch(/^Examples?:$/m);
      expect(flags.map(({ name }) => name)).toContain("help");
      expect(output(await lockd(["help", ...path]))).toBe(text);
    }
    expect(output(await lockd(["--version"]))).toMatch(/^lockd \d+\.\d+\.\d+\S*\n$/);
  });

  test("names only flags that the command accepts", async () => {
    for (const { path, needed, flags } of helps) {
      const at = needed.indexOf("--");
      const [own, child] = at === -1 ? [needed, []] : [needed.slice(0, at), needed.slice(at)];
      for (const { name, valueName } of flags) {
        if (name === "help") continue;
        const argv = [...path, ...own, `--${name}`, ...valueFor(valueName), ...child];
        const { code } = await lockd(argv, { env: STOP_AFTER_PARSING, cwd: files.path });
        expect([argv.join(" "), code]).toEqual([argv.join(" "), parsedCode(path)]);
      }
    }
  });

  test("shows only examples that can be run as they stand", async () => {
    let count = 0;
    for (const { path, text } of [...helps, { path: ["--help"], text: root }]) {
      const lines = (/^Examples?:\n((?:.|\n)*)$/m.exec(text)?.[1] ?? "").split("\n");
      // lines of an explanation are indented further than the command
      const examples = lines.filter((line) => /^ {2}\S/.test(line)).map((line) => line.trim());
      expect([path, examples.length > 0]).toEqual([path, true]);
      for (const example of examples) {
        const codes = join(files.path, `codes-${(count += 1)}`);
        await shell(`cd ${files.path}\nlockd() { env LOCKD_NO_SUCH_VARIABLE=1 "$BIN" "$@" > /dev/null 2>&1; echo $? >> ${codes}; }\nhandle=h\n${example}\n`);
        expect([example, readFileSync(codes, "utf8")]).toEqual([example, `${parsedCode(path)}\n`]);
      }
    }
    expect(count).toBeGreaterThan(20);
  });
});

describe("every flag of the lock commands", () => {
  const used = new Map<string, Set<string>>();

  const note = (argv: readonly string[]): readonly string[] => {
    const [command = ""] = argv;
    const own = argv.includes("--") ? argv.slice(0, argv.indexOf("--")) : argv;
    const flags = used.get(command) ?? new Set();
    for (const word of own) if (word.startsWith("--")) flags.add(word.slice(2));
    used.set(command, flags);
    return argv;
  };
  const done = async (...argv: readonly string[]) => output(await world.run(...note(argv)));

  test("does its work once", async () => {
    const all = ["--wait", "5s", "--unlock-duration", "1s", "--lock-delay", "1s", "--value", "v", "--share-command", "--duration", "1m"];
    const semaphore = ["--permits", "3", "--count", "2"];
    const taken: { handle: string; token: number } = JSON.parse(await done("lock", "f/1", ...all, ...semaphore, "--json"));
    const held = world.start(note(["lock", "f/2", "--shared", "--hold", "--log-level", "debug"]));
    held.closeStdin();
    expect((await held.finished()).code).toBe(0);
    await done("exec", "f/3", ...all, ...semaphore, "--on-lost", "kill", "--error-exit", "3", "--", "true");
    await done("exec", "f/4", "--shared", "--", "true");
    const leading = world.start(note(["elect", "f/9", ...all, "--on-lost", "kill", "--error-exit", "3", "--", "cat"]));
    const watching = world.start(note(["leader", "f/9", "--watch"]));
    await eventually("the value is told", () => watching.lines.includes("v"));
    watching.kill("SIGTERM");
    leading.closeStdin();
    expect((await leading.finished()).code).toBe(0);
    await done("renew", taken.handle, "--duration", "2m", "--value", "w");
    await done("wait", "f/5", "--wait", "1s");
    await done("list", "f/");
    await done("why", "f/1");
    await done("status");
    await done("sessions");
    await done("events", "f/", "--from", "1");
    await done("release", "f/1", "--force", "--token", String(taken.token), "--reason", "test");
    await done("release", "f/8", "--force", "--dead", "--token", String((await world.lock("f/8")).token));
    const holder = await world.holder("f/6");
    await done("kick", "--dead", "--reason", "test", (await world.ticketsOf("f/6"))[0]?.holder.session ?? "");
    await holder.finished();
    await done("unlock", (await world.lock("f/7")).handle);
    const following = [["list", "--watch", "f/"], ["events", "--follow", "f/"]].map((argv) => world.start(note(argv)));
    await following[1]?.line(0);
    for (const running of following) running.kill("SIGTERM");
    // options that every client command has, and that have tests of their own: this one has no others
    const common = helps.find(({ path }) => path.join(" ") === "sessions")?.flags.map(({ name }) => name) ?? [];
    for (const { path, flags } of helps) {
      const [command = ""] = path;
      const tried = used.get(command);
      if (tried === undefined) continue;
      const missing = flags.map(({ name }) => name).filter((name) => !common.includes(name) && !tried.has(name));
      expect([command, missing]).toEqual([command, []]);
    }
    expect(used.size).toBe(14);
  });
});

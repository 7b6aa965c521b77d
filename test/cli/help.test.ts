import { describe, expect, test } from "bun:test";
import type { CommandSpec } from "../../src/cli/types.ts";
import { command, fakePlugin, run } from "./kit.ts";

const exec = command({
  name: "exec",
  group: "Locks",
  summary: "run a command while holding a lock",
  description: "Waits for the lock, runs CMD, releases.",
  positionals: [{ name: "OBJECT", help: "what is locked", arity: "some" }],
  flags: [
    { name: "wait", short: "w", type: "duration", minMs: 0, maxMs: 604_800_000, word: "forever", help: "how long to wait", default: null },
    { name: "on-lost", type: "choice", choices: ["term", "kill"], default: "term", help: "what to do" },
    { name: "renew", type: "boolean", default: true, help: "renew the lock" },
    { name: "secret", type: "string", help: "never shown", noFlag: true },
  ],
  options: ["connect"],
  childCommand: "required",
  examples: [
    ["lockd exec x -- true", "does it"],
    ["lockd exec y -- true", ""],
  ],
});
const hidden: CommandSpec = { ...command({ name: "internal" }), hidden: true };
const plugins = [fakePlugin([exec, hidden])];

describe("help", () => {
  test("of lockd lists visible commands in groups, on stdout, with 0", async () => {
    const ended = await run(["--help"], { plugins });
    expect(ended).toEqual({
      code: 0,
      stderr: "",
      stdout: `lockd 1.2.3: a lock service in one executable

Usage: lockd COMMAND [ARGUMENT…] [--FLAG…]

Locks:
  exec        run a command while holding a lock

Configuration and data:
  config      write, check or show the configuration
  plugins     list plugins: name, version, origin, commands, dependencies
  store       check, back up or restore a data directory
  tls         make certificates of a private CA

Shell and diagnosis:
  doctor      check this machine, the configuration and the servers
  completion  print a script that lets a shell complete lockd's command lines
  man         print the manual page

\`lockd COMMAND --help\` explains a command, \`lockd --version\` prints the version.

Example:
  lockd exec nightly-backup -- ./backup.sh
`,
    });
    for (const words of [["-h"], ["help"]]) expect(await run(words, { plugins })).toEqual(ended);
  });

  test("of lockd goes to stderr with 64 when no command is given", async () => {
    const ended = await run([], { plugins });
    expect([ended.code, ended.stdout]).toEqual([64, ""]);
    expect(ended.stderr).toContain("Usage: lockd COMMAND");
    expect(ended.stderr).toEndWith("lockd: which command?\n");
  });

  test("of a command shows usage, flags with values, ranges, defaults and variables, and an example", async () => {
    const ended = await run(["exec", "--help"], { plugins });
    expect(ended).toEqual({
      code: 0,
      stderr: "",
      stdout: `lockd exec: run a command while holding a lock

Usage: lockd exec OBJECT… [--FLAG…] -- CMD ARG…

Waits for the lock, runs CMD, releases.

Arguments:
  OBJECT…  what is locked

Flags:
  -w, --wait D|forever     how long to wait
                           (0s to 7d, such as 250ms, 10s, 5m, 2h, 1d, or a number of seconds, or forever; default forever)
      --on-lost term|kill  what to do
                           (default term)
      --no-renew           do not: renew the lock
      --connect ADDR,…     servers that a client command talks to, tried in turn
                           (default 127.0.0.1:4050; LOCKD_CONNECT)
      --config FILE        configuration file
                           (default /etc/lockd/lockd.toml if it exists; LOCKD_CONFIG)
      --log-level LEVEL    least important lines that are logged; with debug, unexpected errors show where they came from
                           (trace, debug, info, warn, error, silent; default info; LOCKD_LOG_LEVEL)
      --plugin PATH,…      external plugins, each a file or folder, loaded when they are needed; PATH#sha256=HEX pins the content
                           (default none; LOCKD_PLUGIN)
  -h, --help               show this help

Examples:
  lockd exec x -- true
      does it
  lockd exec y -- true
`,
    });
    expect(await run(["help", "exec"], { plugins })).toEqual(ended);
    expect(await run(["exec", "-h"], { plugins })).toEqual(ended);
  });

  test("is shown whatever else is wrong with the line, and needs no valid configuration", async () => {
    const wrong = await run(["exec", "--nope", "--wait", "--help"], { plugins, environment: { LOCKD_NOPE: "x" } });
    expect([wrong.code, wrong.stderr]).toEqual([0, ""]);
  });

  test("of a command with subcommands lists them, and every subcommand has its own", async () => {
    const group = await run(["config", "--help"]);
    expect(group.stdout).toContain("Usage: lockd config init|check|show …");
    expect(group.stdout).not.toContain("Flags:");
    expect((await run(["help", "config", "show"])).stdout).toStartWith("lockd config show: ");
    expect((await run(["help", "nope"])).code).toBe(64);
  });

  test("promises no flag that the parser refuses", async () => {
    for (const words of [["config", "init"], ["config", "check"], ["config", "show"], ["plugins"]]) {
      const { stdout } = await run([...words, "--help"]);
      const flags = [...stdout.matchAll(/^ +(?:-\w, )?(--[\w-]+)( \S+)?/gm)].map(([, flag = "", value]) => [flag, value !== undefined] as const);
      expect(flags.length).toBeGreaterThan(1);
      for (const [flag, hasValue] of flags) {
        const ended = await run([...words, hasValue ? `${flag}=\u0001` : flag]);
        expect(ended.stderr).not.toContain("unknown flag");
      }
    }
  });
});

/** What somebody who meets lockd for the first time does wrong, or waits for, and what it then says. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { environment, eventually, LOCKD, lockd } from "./kit.ts";
import { errorOf, LockWorld, output, shell } from "./locks-kit.ts";

setDefaultTimeout(60_000);
/** Nobody listens there. */
const NOBODY = { LOCKD_CONNECT: "127.0.0.1:1" };
const NOTE = "lockd: no server at 127.0.0.1:1 (connection refused): waiting\n";
let world: LockWorld;

beforeAll(async () => {
  world = await LockWorld.start("first-use");
});
afterAll(() => world.clear());

/** Runs a command on a terminal of its own. */
class Terminal {
  text = "";
  readonly #process: Bun.Subprocess;

  constructor(command: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const decoder = new TextDecoder();
    this.#process = Bun.spawn([...command], {
      env: environment({ BIN: LOCKD, LOCKD_CONNECT: world.server.address, TERM: "dumb", ...env }),
      terminal: {
        cols: 250,
        rows: 50,
        data: (_, bytes) => {
          this.text += decoder.decode(bytes, { stream: true });
        },
      },
    });
  }

  get exited(): Promise<number> {
    return this.#process.exited;
  }

  get signal(): Bun.Subprocess["signalCode"] {
    return this.#process.signalCode;
  }

  type(keys: string): void {
    this.#process.terminal?.write(keys);
  }

  shows(text: string): Promise<void> {
    return eventually(`the screen shows ${text}`, () => this.text.includes(text));
  }

  async close(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#process.exited;
    this.#process.terminal?.close();
  }
}

describe("a wait without a server", () => {
  test("is told once, after the first round, by exec, lock and elect", async () => {
    for (const argv of [["exec", "x", "--wait", "1s", "--", "true"], ["elect", "x", "--wait", "1s", "--", "true"], ["lock", "x", "--wait", "1s"]]) {
      const ended = await lockd(argv, { env: NOBODY });
      expect(output(ended, 69)).toBe("");
      expect(ended.stderr.startsWith(NOTE)).toBe(true);
      expect(ended.stderr.split("waiting").length - 1).toBe(1);
    }
  });

  test("is not told with --json, nor when one round is all", async () => {
    errorOf(await lockd(["exec", "x", "--wait", "1s", "--json", "--", "true"], { env: NOBODY }), 69);
    expect((await lockd(["exec", "x", "--wait", "0", "--", "true"], { env: NOBODY })).stderr).not.toContain("waiting");
  });
});

describe("a command that cannot be run", () => {
  test("is a failure of lockd's own, which --error-exit tells from the command's", async () => {
    const missing = await world.run("exec", "run", "--", "no-such-command");
    expect(missing).toEqual({ code: 127, stdout: "", stderr: "lockd: run command no-such-command: no such file or directory\n" });
    expect((await world.run("exec", "run", "--error-exit", "99", "--", "no-such-command")).code).toBe(99);
    expect((await world.run("exec", "run", "--error-exit", "99", "--", "/")).code).toBe(99);
    expect(errorOf(await world.run("exec", "run", "--json", "--error-exit", "99", "--", "/"), 99).message).toContain("run command /: ");
    expect((await world.run("exec", "run", "--error-exit", "99", "--", "sh", "-c", "exit 127")).code).toBe(127);
  });

  test("because it is a line for a shell is told how to write that", async () => {
    const ended = await world.run("exec", "run", "--", "cd /tmp && ls");
    expect(ended.code).toBe(127);
    expect(ended.stderr).toContain("sh -c '");
  });
});

test("a wait that is over says the time that was given", async () => {
  await world.lock("busy");
  for (const argv of [["exec", "busy", "--wait", "1s", "--", "true"], ["lock", "busy", "--wait", "1s"]]) {
    expect((await world.run(...argv)).stderr).toStartWith('lockd: not obtained within 1s: "busy" is locked by ');
  }
});

test("a deadlock says how to avoid it", async () => {
  const ended = await world.run("exec", "self", "--", LOCKD, "exec", "self", "--", "true");
  expect(ended.code).toBe(75);
  expect(ended.stderr).toContain("lockd exec A B");
});

describe("unlock inside exec", () => {
  test("does not give the lock of exec away unless its handle is named; renew may", async () => {
    const script = '"$BIN" unlock; echo $?; "$BIN" renew > /dev/null; echo $?; "$BIN" list inner | wc -l; "$BIN" unlock "$LOCKD_HANDLE"; echo $?';
    const ended = await world.server.run(["exec", "inner", "--on-lost", "ignore", "--", "sh", "-c", script], { env: { BIN: LOCKD } });
    expect(ended.stdout).toBe("64\n0\n2\n0\n");
    expect(ended.stderr).toContain('lockd unlock "$LOCKD_HANDLE"');
  });
});

test("list has a column of values when there is one, escaped", async () => {
  await world.lock("plain/1");
  expect(output(await world.run("list", "plain/"))).not.toContain("VALUE");
  await world.lock("plain/2", "--value", "a\nb");
  const lines = output(await world.run("list", "plain/")).trimEnd().split("\n");
  expect(lines.length).toBe(3);
  expect(lines[0]).toEndWith("  VALUE");
  expect(lines[1]).toEndWith("  -");
  expect(lines[2]).toEndWith("  a\\nb");
});

test("a force without a reason leaves no dangling colon in the history", async () => {
  const { token } = await world.lock("forced");
  output(await world.run("release", "forced", "--force", "--token", String(token)));
  const forced = (await world.events("forced")).find(({ event }) => event === "forced");
  expect(forced?.reason).toMatch(/^by .*[^: ]$/);
});

test("a forced detached lock is not said to be free sooner when its holder confirms", async () => {
  const detached = await world.lock("alone");
  const told = output(await world.run("release", "alone", "--force", "--token", String(detached.token)));
  expect(told).toContain("free in ");
  expect(told).not.toContain("confirms");
  const holder = await world.holder("watched");
  expect(output(await world.run("release", "watched", "--force", "--token", String(holder.lock.token)))).toContain("sooner when the holder confirms");
});

describe("results that nobody can get", () => {
  test.each(["", "< /dev/null", "<&-"])("a closed stdout is a failed write, and no lock stays (%s)", async (stdin) => {
    const ended = await shell(`"$BIN" lock closed >&- ${stdin}`, { LOCKD_CONNECT: world.server.address });
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain("write standard output");
    expect(await world.ticketsOf("closed")).toEqual([]);
    for (const command of ["list", "status", "--version", "--help"]) {
      expect([command, (await shell(`"$BIN" ${command} >&-`, { LOCKD_CONNECT: world.server.address })).code]).toEqual([command, 1]);
    }
  });

  test("/dev/null takes them, however it was opened", async () => {
    for (const redirection of ["> /dev/null", "<> /dev/null 1>&0", "1<> /dev/null"]) {
      const ended = await shell(`"$BIN" status ${redirection}`, { LOCKD_CONNECT: world.server.address });
      expect([redirection, ended.code]).toEqual([redirection, 0]);
    }
  });
});

test("what scripts are told to write stops when the lock is not obtained, and unlocks at the end", async () => {
  const script = (flags: string): string =>
    `lockd() { "$BIN" "$@"; }\ntaken=$(lockd lock script ${flags}) || exit\nhandle=\${taken% *} token=\${taken#* }\ntrap 'lockd unlock "$handle"' EXIT\necho "token $token"`;
  const env = { LOCKD_CONNECT: world.server.address };
  const done = await shell(script("--duration 10m"), env);
  expect(done.code).toBe(0);
  expect(done.stdout).toMatch(/^token \d+\n$/);
  expect(await world.ticketsOf("script")).toEqual([]);
  await world.lock("script");
  const refused = await shell(script("--wait 0"), env);
  expect(refused.code).toBe(75);
  expect(refused.stdout).toBe("");
});

describe("on a terminal", () => {
  test("a wait of more than two seconds is told with who holds and the place in the queue", async () => {
    const holder = await world.holder("held");
    const terminal = new Terminal([LOCKD, "exec", "held", "--", "echo", "done"]);
    try {
      await terminal.shows("waiting for held, held by ");
      expect(terminal.text).toContain(`pid ${holder.pid}`);
      expect(terminal.text).toContain("place 1 in the queue");
      holder.closeStdin();
      await terminal.shows("done");
      expect(await terminal.exited).toBe(0);
      expect(terminal.text.split("waiting for").length - 1).toBe(1);
    } finally {
      await terminal.close();
    }
  });

  test("Ctrl-C ends lockd by that signal, while CMD runs and while it waits", async () => {
    const holder = await world.holder("taken");
    for (const [object, sign] of [["interrupted", "on"], ["taken", "waiting for taken"]] as const) {
      const terminal = new Terminal([LOCKD, "exec", object, "--", "sh", "-c", "echo on; exec sleep 60"]);
      try {
        await terminal.shows(sign);
        terminal.type("\x03");
        await terminal.exited;
        expect(terminal.signal).toBe("SIGINT");
      } finally {
        await terminal.close();
      }
    }
    expect(await world.ticketsOf("interrupted")).toEqual([]);
    expect((await world.ticketsOf("taken")).length).toBe(1);
    holder.closeStdin();
  });

  test("a lock held by a job in the background is kept past its duration, and given back by TERM", async () => {
    const terminal = new Terminal(["bash", "--noprofile", "--norc", "-i"], { PS1: "ready> " });
    try {
      await terminal.shows("ready> ");
      terminal.type('"$BIN" lock behind --hold --duration 500ms --unlock-duration 500ms > /dev/null &\n');
      await eventually("it is held", async () => (await world.ticketsOf("behind")).length === 1);
      const [first] = await world.ticketsOf("behind");
      // what is typed makes the terminal readable: a job in the background that reads it is stopped by the kernel
      for (let line = 1; line <= 5; line += 1) {
        terminal.type(`echo typed-$((40+${line}))\n`);
        await terminal.shows(`typed-${40 + line}`);
        await Bun.sleep(300);
      }
      expect((await world.ticketsOf("behind"))[0]).toMatchObject({ state: "locked", token: first?.["token"] });
      terminal.type("kill $!\n");
      await eventually("it is given back", async () => (await world.ticketsOf("behind")).length === 0);
    } finally {
      await terminal.close();
    }
  });

  test("Ctrl-C ends the loop of an interactive shell around it: 130", async () => {
    const terminal = new Terminal(["bash", "--noprofile", "--norc", "-i"], { PS1: "ready> " });
    try {
      await terminal.shows("ready> ");
      terminal.type('for i in 1 2 3; do "$BIN" exec looped -- sh -c "echo on-$((40+i)); exec sleep 60"; done\n');
      await terminal.shows("on-41");
      terminal.type("\x03");
      terminal.type("echo code-$?\n");
      await terminal.shows("code-130");
      expect(terminal.text).not.toContain("on-42");
    } finally {
      await terminal.close();
    }
  });
});

/** On a terminal a command under a lock behaves as the command alone would, in a shell with job control. */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { processStat } from "../../../src/system/process.ts";
import type { FakeLock } from "./fakeExec.ts";
import { ExecWorld, TEST_MS_MAX, childrenOf, execCommand, isAlive, until } from "./kit.ts";

/** An interactive shell, or one program, on a terminal of its own. */
class Screen {
  text = "";
  readonly #process: Bun.Subprocess;

  constructor(command: string[]) {
    const decoder = new TextDecoder();
    this.#process = Bun.spawn(command, {
      env: { ...process.env, PS1: "ready> ", TERM: "dumb", HISTFILE: "/dev/null" },
      terminal: {
        cols: 200,
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

  get pid(): number {
    return this.#process.pid;
  }

  type(keys: string): void {
    this.#process.terminal?.write(keys);
  }

  resize(columns: number): void {
    this.#process.terminal?.resize(columns, 40);
  }

  /** Waits until this has appeared, and forgets all up to its end. */
  async shows(text: string): Promise<void> {
    await until(`the screen shows ${text}: ${this.text}`, () => this.text.includes(text));
    this.text = this.text.slice(this.text.indexOf(text) + text.length);
  }

  async close(): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#process.exited;
    this.#process.terminal?.close();
  }
}

setDefaultTimeout(TEST_MS_MAX);
let world: ExecWorld;
let screen: Screen;

// Commands that loop and are stopped are run by bash, not sh: dash starts its children by vfork, and a
// stop between vfork and exec leaves it waiting for a stopped child, under lockd and without.

/** Puts the test program in a function `x`, so that what is typed stays short. */
function startShell(fake: Omit<FakeLock, "journal"> = {}): Screen {
  const line = execCommand(world.fake(fake), []).map((word) => `'${word}'`).join(" ");
  writeFileSync(world.path("rc"), `x() { ${line} "$@"; }\nPS1='ready> '\nbind 'set enable-bracketed-paste off'\n`);
  return new Screen(["bash", "--noprofile", "--rcfile", world.path("rc"), "-i"]);
}

async function pidOnScreen(): Promise<number> {
  await until("a pid is on the screen", () => /pid-\d+-/.test(screen.text));
  return Number(/pid-(\d+)-/.exec(screen.text)?.[1]);
}

beforeEach(() => {
  world = new ExecWorld();
});
afterEach(async () => {
  await screen.close();
  await world.close();
});

describe("in an interactive shell", () => {
  test("the command reads what is typed, and the shell reads on after it", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    screen.type("x sh -c 'echo ask; read line; echo got-$line'\n");
    await screen.shows("\nask");
    screen.type("words\n");
    await screen.shows("got-words");
    await screen.shows("ready> ");
    screen.type("echo shell-$((40+2))\n");
    await screen.shows("shell-42");
  });

  test("Ctrl-C ends the command once: 130, and nothing is left", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    screen.type("x sh -c 'trap \"echo caught\" INT; echo on; while :; do sleep 0.05; done' ; echo code-$?\n");
    await screen.shows("\non");
    screen.type("\x03");
    await until("it was caught", () => screen.text.includes("caught"));
    screen.type("\x1c");
    await until("it has ended", () => screen.text.includes("code-131"));
    expect(screen.text.split("caught").length - 1).toBe(1);
    await screen.shows("ready> ");
    screen.type("x sleep 60 ; echo code-$?\n");
    await until("it sleeps", () => childrenOf(screen.pid).some((child) => childrenOf(child.pid).some((leaf) => leaf.arguments[0] === "sleep")));
    screen.type("\x03");
    await screen.shows("code-130");
  });

  test("Ctrl-C ends the wait for the lock", async () => {
    screen = startShell({ waitMs: null });
    await screen.shows("ready> ");
    screen.type("x echo never ; echo code-$?\n");
    await until("it waits", () => childrenOf(screen.pid).some((child) => childrenOf(child.pid).length === 2));
    screen.type("\x03");
    await screen.shows("code-130");
  });

  test("Ctrl-Z stops both, fg goes on with both, typing reaches the command again", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    screen.type("x sh -c 'echo on; read a; echo has-$a; read b; echo got-$a-$b'\n");
    await screen.shows("\non");
    screen.type("one\n");
    // a stop throws away what was typed and not read yet
    await screen.shows("has-one");
    screen.type("\x1a");
    await screen.shows("Stopped");
    await screen.shows("ready> ");
    screen.type("fg\n");
    await screen.shows("fakeExec");
    screen.type("two\n");
    await screen.shows("got-one-two");
    await screen.shows("ready> ");
  });

  test("Ctrl-Z and bg: the command goes on in the background", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    screen.type(`x bash -c 'echo on; while ! test -e ${world.path("go")}; do sleep 0.05; done; echo finished'\n`);
    await screen.shows("\non");
    screen.type("\x1a");
    await screen.shows("Stopped");
    screen.type("bg\n");
    await screen.shows("ready> ");
    writeFileSync(world.path("go"), "");
    await screen.shows("finished");
  });

  test("stopped for longer than its lease: the command is killed, fg says that the lock is lost", async () => {
    screen = startShell({ durationMs: 600, unlockDurationMs: 600 });
    await screen.shows("ready> ");
    screen.type("x bash -c 'echo pid-$$-; while :; do sleep 0.05; done'\n");
    const pid = await pidOnScreen();
    screen.type("\x1a");
    await screen.shows("Stopped");
    await until("the command is gone", () => !isAlive(pid));
    await screen.shows("ready> ");
    screen.type("fg ; echo code-$?\n");
    await screen.shows("keep lock");
    await screen.shows("code-76");
  });

  test("a background job that reads is stopped, and reads after fg", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    screen.type("x sh -c 'read line; echo got-$line' &\n");
    await screen.shows("ready> ");
    await until("it is stopped", () => childrenOf(screen.pid).some((child) => processStat(child.pid)?.state === "T"));
    screen.type("fg\n");
    await screen.shows("x sh -c");
    screen.type("later\n");
    await screen.shows("got-later");
  });

  test("as the first of a pipeline it reads the terminal all the same", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    screen.type("x sh -c 'echo ask; read line; echo got-$line' | sed s/got/piped/\n");
    await screen.shows("\nask");
    screen.type("words\n");
    await screen.shows("piped-words");
    await screen.shows("ready> ");
  });

  test("the other end of a pipeline may read the terminal while the command runs", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    screen.type(`x bash -c 'echo data; while ! test -e ${world.path("go")}; do sleep 0.05; done' | sh -c 'read line; echo first-$line; read key </dev/tty; echo key-$key'\n`);
    await screen.shows("first-data");
    screen.type("pressed\n");
    await screen.shows("key-pressed");
    writeFileSync(world.path("go"), "");
    await screen.shows("ready> ");
  });

  test("Ctrl-C at a command in a script also ends the script", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    screen.type("(x sh -c 'echo on; sleep 60'; echo went-$((40+1)))\n");
    await screen.shows("\non");
    screen.type("\x03");
    await until("the shell is back", () => screen.text.includes("ready> "));
    expect(screen.text).not.toContain("went-41");
  });

  test("a script reads the terminal again after the command", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    screen.type("(x sh -c 'echo on; read a'; read b; echo script-$b)\n");
    await screen.shows("\non");
    screen.type("one\n");
    screen.type("two\n");
    await screen.shows("script-two");
  });

  test("Ctrl-Z also stops a command that is part of a pipeline, fg goes on", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    screen.type(`x bash -c 'echo pid-$$-; while ! test -e ${world.path("go")}; do sleep 0.02; done; echo finished' | cat\n`);
    const pid = await pidOnScreen();
    screen.type("\x1a");
    await screen.shows("Stopped");
    expect(processStat(pid)?.state).toBe("T");
    writeFileSync(world.path("go"), "");
    screen.type("fg\n");
    await screen.shows("finished");
  });

  test("after Ctrl-Z and fg the command has the terminal without asking", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    const ask = "import os; print(\"owner\", os.tcgetpgrp(0) == os.getpgrp())";
    screen.type(`x bash -c 'echo pid-$$-; while ! test -e ${world.path("go")}; do sleep 0.02; done; python3 -c "$0"' '${ask}'\n`);
    const pid = await pidOnScreen();
    screen.type("\x1a");
    await screen.shows("Stopped");
    screen.type("fg\n");
    await until("it goes on", () => processStat(pid)?.state !== "T");
    writeFileSync(world.path("go"), "");
    await screen.shows("owner True");
  });

  test("a resized window is told to the command", async () => {
    screen = startShell();
    await screen.shows("ready> ");
    screen.type("x python3 -c 'import signal,os;signal.signal(signal.SIGWINCH,lambda a,b:print(os.get_terminal_size().columns,\"wide\"));print(\"on\",flush=True);signal.pause();'\n");
    await screen.shows("\non");
    screen.resize(123);
    await screen.shows("123 wide");
  });
});

test("without a shell behind it Ctrl-Z is ignored, as for the command alone", async () => {
  screen = new Screen(execCommand(world.fake(), ["sh", "-c", "echo on; read a; echo got-$a"]));
  await screen.shows("on");
  screen.type("\x1a");
  screen.type("words\n");
  await screen.shows("got-words");
  expect(await screen.exited).toBe(0);
});

test("when the terminal goes away the command gets SIGHUP and all ends", async () => {
  screen = new Screen(execCommand(world.fake(), ["sh", "-c", "echo pid-$$-; while :; do sleep 0.05; done"]));
  const pid = await pidOnScreen();
  await screen.close();
  await until("the command is gone", () => !isAlive(pid));
});

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { CompletingShell, SHELLS } from "./completion-kit.ts";
import { eventually, lockd, temporaryDirectory, TestServer } from "./kit.ts";

const directory = temporaryDirectory("completion");
const wild = ["it's \"quoted\"", "new\nline", "$(touch evil)", "`touch evil`", "semi;touch evil", "tick!bang", "umläut ß", "star*[a]?", "back\\slash", "~home", "#hash", "a|b&c<d>e(f){g}"];
const names = ["my job", "db:prod", "db:prod-2", "key=value", ...wild.map((name, index) => `w${index}-${name}`)];
let server: TestServer;

beforeAll(async () => {
  server = await TestServer.start({ directory: join(directory.path, "data") });
  for (const name of names) expect((await server.run(["lock", name, "--duration", "1h"])).code).toBe(0);
});
afterAll(async () => {
  await server.kill();
  directory.remove();
});

for (const name of SHELLS) {
  describe(`${name} completes`, () => {
    let shell: CompletingShell;
    beforeAll(async () => {
      shell = await CompletingShell.start(name, join(directory.path, name), { LOCKD_CONNECT: server.address });
      writeFileSync(join(shell.folder, "settings.toml"), "");
      mkdirSync(join(shell.folder, "storage"));
    });
    afterAll(() => shell.end());

    const cases: readonly (readonly [what: string, keys: string, words: readonly string[]])[] = [
      ["a command", "lockd dem\t", ["lockd", "demo"]],
      ["a subcommand", "lockd store che\t", ["lockd", "store", "check"]],
      ["behind help", "lockd help store bac\t", ["lockd", "help", "store", "backup"]],
      ["a flag", "lockd exec --share-c\t", ["lockd", "exec", "--share-command"]],
      ["a flag of the configuration", "lockd serve --trace-\t", ["lockd", "serve", "--trace-messages"]],
      ["a choice", "lockd exec --on-lost ig\t", ["lockd", "exec", "--on-lost", "ignore"]],
      ["a choice in the flag's own word", "lockd exec --on-lost=ig\t", ["lockd", "exec", "--on-lost=ignore"]],
      ["a word beside an address", "lockd serve --http o\t", ["lockd", "serve", "--http", "off"]],
      ["the name of a shell", "lockd completion z\t", ["lockd", "completion", "zsh"]],
      ["a file", "lockd serve --config sett\t", ["lockd", "serve", "--config", "settings.toml"]],
      ["a file in the flag's own word", "lockd serve --config=sett\t", ["lockd", "serve", "--config=settings.toml"]],
      ["a directory", "lockd serve --data stor\t", ["lockd", "serve", "--data", "storage"]],
      ["a file as an argument", "lockd store restore sett\t", ["lockd", "store", "restore", "settings.toml"]],
      ["what follows --", "lockd exec x -- cat sett\t", ["lockd", "exec", "x", "--", "cat", "settings.toml"]],
      ["an object with a space", "lockd exec my\t", ["lockd", "exec", "my job"]],
      ["an object inside double quotes", 'lockd why "my j\t', ["lockd", "why", "my job"]],
      ["an object inside single quotes", "lockd why 'my j\t", ["lockd", "why", "my job"]],
      ["an object behind a colon", "lockd wait db:prod-\t", ["lockd", "wait", "db:prod-2"]],
      ["the common beginning of objects behind a colon", "lockd wait db\t", ["lockd", "wait", "db:prod"]],
      ["an object with an equals sign", "lockd release key\t", ["lockd", "release", "key=value"]],
      ["a second object", "lockd lock x my\t", ["lockd", "lock", "x", "my job"]],
      ["an object behind a flag and its value", "lockd lock --wait 5s my\t", ["lockd", "lock", "--wait", "5s", "my job"]],
      ["a word after a completed object", "lockd exec my\t --on-lost ki\t", ["lockd", "exec", "my job", "--on-lost", "kill"]],
      ...wild.map((text, index) => [`the object ${JSON.stringify(text)}, and runs nothing of it`, `lockd why w${index}-\t`, ["lockd", "why", `w${index}-${text}`]] as const),
    ];
    for (const [what, keys, words] of cases) {
      test(what, async () => {
        // zsh takes the slash of a directory away when something else is typed behind it
        expect((await patiently(shell, keys, words)).map((word) => word.replace(/\/$/, ""))).toEqual([...words]);
        expect(existsSync(join(shell.folder, "evil"))).toBe(false);
      });
    }

    test("nothing by running what was typed", async () => {
      // ^U drops the line again: only completing it could have run something
      for (const line of ['"$(touch evil) my', '"$(touch evil)" my', "`touch evil` my", "$(touch evil) my", "$(touch evil", "my;touch evil"]) {
        expect(await shell.wordsAfter(`lockd why ${line}\t\x15lockd list`)).toEqual(["lockd", "list"]);
      }
      expect(existsSync(join(shell.folder, "evil"))).toBe(false);
    });

    test("a session", async () => {
      const holder = server.spawn(["lock", `zz-${name}`, "--hold"]);
      try {
        let id = "";
        await eventually("its session is known", async () => {
          const [line = ""] = (await server.run(["sessions", "--json"])).stdout.split("\n");
          if (line !== "") id = String(JSON.parse(line).session);
          return id !== "";
        });
        const words = ["lockd", "kick", id];
        expect(await patiently(shell, `lockd kick ${id.slice(0, 8)}\t`, words)).toEqual(words);
      } finally {
        holder.kill("SIGTERM");
        await holder.exited;
      }
    });

    test("what follows -- by the completion of that command", async () => {
      // bash alone knows no other command's: that is the work of the package bash-completion
      const other = name === "bash" ? await CompletingShell.start(name, join(directory.path, "bash-package"), { LOCKD_CONNECT: server.address }, "source /usr/share/bash-completion/bash_completion") : shell;
      const words = ["lockd", "exec", "a:b", "--", "lockd", "exec", "y", "--", "lockd", "status"];
      expect(await patiently(other, "lockd exec a:b -- lockd exec y -- lockd stat\t", words)).toEqual(words);
      if (other !== shell) await other.end();
    });

    test("the servers of --connect in the line itself", async () => {
      const line = `lockd why --connect ${server.address} my\t`;
      const other = await CompletingShell.start(name, join(directory.path, `${name}-other`), { LOCKD_CONNECT: "127.0.0.1:1" });
      const words = ["lockd", "why", "--connect", server.address, "my job"];
      expect(await patiently(other, line, words)).toEqual(words);
      await other.end();
    });
  });
}

/** Presses Tab again as a person does: on a busy machine a server may not answer within its 300 ms. */
async function patiently(shell: CompletingShell, keys: string, wanted: readonly string[]): Promise<readonly string[]> {
  let words = await shell.wordsAfter(keys);
  for (let tries = 1; tries < 5 && words.join("\0") !== wanted.join("\0"); tries += 1) words = await shell.wordsAfter(keys);
  return words;
}

describe("the names of objects are left out", () => {
  const ask = async (address: string) => (await lockd(["__complete", "zsh", "--", "why", "my"], { env: { LOCKD_CONNECT: address } })).stdout;

  test("when no server is there, when one does not answer, and come when one does", async () => {
    expect(await ask("127.0.0.1:1")).toBe("words\0");
    const { silent, address } = await silentServer();
    const startMs = performance.now();
    expect(await ask(address)).toBe("words\0");
    // the library alone would wait for two seconds
    expect(performance.now() - startMs).toBeLessThan(1800);
    silent.close();
    await eventually("the names come", async () => (await ask(server.address)).startsWith("words\0my job\0my job  -- locked, "));
  });

  test("but commands and flags come also with a configuration that is wrong", async () => {
    const { code, stdout } = await lockd(["__complete", "fish", "--", "dem"], { env: { LOCKD_NO_SUCH: "1" } });
    expect([code, stdout]).toEqual([0, "words\0demo\tshow what lockd does, on a server of its own in a temporary …\0"]);
    const named = { LOCKD_NO_SUCH: "1", LOCKD_CONNECT: server.address };
    await eventually("the names come", async () => (await lockd(["__complete", "fish", "--", "why", "my"], { env: named })).stdout.startsWith("words\0my job\t"));
  });
});

/** Takes connections and says nothing. */
async function silentServer(): Promise<{ silent: Server; address: string }> {
  const silent = createServer(() => undefined);
  await new Promise<void>((done) => silent.listen(0, "127.0.0.1", done));
  const bound = silent.address();
  return { silent, address: typeof bound === "object" && bound !== null ? `127.0.0.1:${bound.port}` : "" };
}

import { describe, expect, test } from "bun:test";
import type { CommandSpec } from "../../src/cli/types.ts";
import { command, fakePlugin, run } from "./kit.ts";
import { bundledPlugins } from "../../bin/registry.ts";

const SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "COMMON FLAGS", "EXIT STATUS", "ENVIRONMENT", "FILES", "SIGNALS", "EXAMPLES", "SEE ALSO"];
const page = async (plugins = bundledPlugins) => (await run(["man"], { plugins, environment: { SOURCE_DATE_EPOCH: "1700000000" } })).stdout;

/** Runs a formatter over a page; what it printed, and what it complained of. */
async function format(argv: readonly string[], source: string): Promise<{ text: string; complaints: string }> {
  const child = Bun.spawn([...argv], { stdin: new TextEncoder().encode(source), stdout: "pipe", stderr: "pipe", env: { PATH: process.env["PATH"] ?? "", LANG: "C.UTF-8" } });
  const [text, complaints] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { text, complaints };
}
/** As people read it: without overstrikes, on lines that are not broken. */
const rendered = async (source: string) => (await format(["mandoc", "-T", "utf8", "-O", "width=900"], source)).text.replace(/.\x08/gu, "");

describe("the manual page", () => {
  test("is one that mandoc and groff find no fault with", async () => {
    const source = await page();
    // on faults of the page itself mandoc speaks on standard output
    const { text, complaints } = await format(["mandoc", "-T", "lint", "-W", "all"], source);
    expect(text + complaints).toBe("");
    expect((await format(["groff", "-man", "-ww", "-T", "utf8"], source)).complaints).toBe("");
  });

  test("has the sections of a manual page in their order, the version and the date", async () => {
    const source = await page();
    expect(Array.from(source.matchAll(/^\.SH "(.*)"$/gm), ([, title]) => title)).toEqual(SECTIONS);
    expect(source).toMatch(/^\.TH LOCKD 1 2023\\?-11\\?-14 "lockd \d+\.\d+\.\d+/);
  });

  test("explains every command with all of its flags, as their help does", async () => {
    const text = await rendered(await page());
    const commands = ["serve", "exec", "lock", "list", "kick", "elect", "config show", "store check", "tls issue", "doctor", "completion", "man"];
    for (const path of commands) {
      const help = (await run(["help", ...path.split(" ")], { plugins: bundledPlugins })).stdout;
      const flags = Array.from(help.matchAll(/^ {2}(?:-\w, | {4})(--[a-z-]+)/gm), ([, flag = ""]) => flag).filter((flag) => flag !== "--help");
      const usage = /^Usage: (.*)$/m.exec(help)?.[1]?.replaceAll("…", "...") ?? "none";
      expect(text).toContain(`\n   ${usage}\n`);
      const part = text.slice(text.indexOf(`\n   ${usage}\n`)).split(/\n {3}(?=lockd )|\n(?=[A-Z])/)[1] ?? "";
      expect([path, flags.filter((flag) => !part.includes(flag))]).toEqual([path, []]);
    }
    expect(text).not.toContain("__complete");
  });

  test("names every variable that an option of a command has", async () => {
    const text = await rendered(await page());
    for (const name of ["LOCKD_CONNECT", "LOCKD_DATA", "LOCKD_TLS_CA", "LOCKD_SECRET_FILE", "LOCKD_HANDLE"]) expect(text).toContain(name);
  });

  test("shows texts as they were written, whatever is in them", async () => {
    const wild = ".so /etc/passwd \\n(.z 'quoted' \"double\" ^hat ~tilde `tick` -dash--dash… é – end";
    const spec: CommandSpec = { ...command({ name: "go" }), summary: wild, description: `'br\n${wild}`, flags: [{ name: "flag", type: "string", help: wild, valueName: '.X"Y\\' }], examples: [[`.ab ${wild}`, ""], ["lockd go", wild]] };
    const source = await page([fakePlugin([spec])]);
    const text = await rendered(source);
    const shown = wild.replace("…", "...");
    expect(text.split(shown).length - 1).toBe(5);
    expect(text).toContain(`'br ${shown}`);
    expect(text).toContain(`.ab ${shown}`);
    expect(text).toContain('--flag .X"Y\\');
  });

  test("lacks plugins that cannot be loaded, and says so", async () => {
    const ended = await run(["man"], { environment: { LOCKD_PLUGIN: "/no/such/plugin" } });
    expect([ended.code, ended.stdout.startsWith(".TH LOCKD 1 ")]).toEqual([0, true]);
    expect(ended.stderr).toStartWith("lockd: warning: the page lacks external plugins: load plugin /no/such/plugin: ");
  });

  test("is printed although the configuration is wrong", async () => {
    const ended = await run(["man"], { environment: { LOCKD_NOPE: "1" } });
    expect([ended.code, ended.stderr]).toEqual([0, ""]);
  });
});

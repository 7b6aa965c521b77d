import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connectTo } from "./locks-client.ts";
import { errorOf, LockWorld, output, shell } from "./locks-kit.ts";

let world: LockWorld;

beforeAll(async () => {
  world = await LockWorld.start("names");
});
afterAll(() => world.clear());

/** Names that some escaping, cleaning or parsing would confuse with another of them. */
const NAMES = [
  "1", "a", "a/", "a//b", "a/b", "/a", "/a/b", "a/bc", "A", "a b", " a", "a ", "a_b", "a\\b", "a%2Fb", "%2F", "/", "//", ".", "..", "./a", "../a",
  "a|b", "a,b", "a\nb", "a\\nb", "a\tb", "a\rb", "-", "--", "--json", "-h", "--help", "a?b", "a#b", "a=b", "*", "a*", "[a]", "'a'", '"a"', "$HOME", "`a`",
  "🔒", "👩‍🚀", "é", "e\u0301", "ﬁ", "fi", "ß", "SS", "İ", "i", "\u202eabc", "\u200ba", "\ufeffa", "\u0001", "\u007f", "\u001b[31mred", "null", "true", "undefined",
  "__proto__", "constructor", "toString", "c:\\a\\b\\c", "c:\\a_b\\c", "LOCKD_OBJECT", "x".repeat(1023), "x".repeat(1024), "é".repeat(512), "🔒".repeat(256),
  `${"x".repeat(64)}a`, `${"x".repeat(64)}b`, `${"x".repeat(255)}a`, `${"x".repeat(255)}b`,
];

describe("object names", () => {
  test("of every kind are different locks, and come back exactly in every listing", async () => {
    const handles = new Map<string, string>();
    for (const name of NAMES) {
      const taken: { objects: string[]; handle: string } = JSON.parse(output(await world.run("lock", "--json", "--wait", "0", "--duration", "1h", "--", name)));
      expect(taken.objects).toEqual([name]);
      handles.set(name, taken.handle);
    }
    expect((await world.tickets()).map(({ object }) => object).sort()).toEqual([...NAMES].sort());
    expect((await world.events()).map(({ object }) => object)).toEqual(NAMES);
    for (const name of NAMES.filter((_name, index) => index % 8 === 0)) {
      const why = await world.why(name);
      expect([why.object, ...why.holders.map(({ object }) => object)]).toEqual([name, name]);
      expect((await world.tickets(name)).map(({ object }) => object).sort()).toEqual(NAMES.filter((other) => other.startsWith(name)).sort());
    }
    const gone = ["a/b", "é", "a\nb", "x".repeat(1023), "--json"];
    for (const name of gone) output(await world.run("unlock", handles.get(name) ?? ""));
    expect((await world.tickets()).map(({ object }) => object).sort()).toEqual(NAMES.filter((name) => !gone.includes(name)).sort());
  });

  test("cannot forge a line of text: every ticket and every event has one line, without control characters", async () => {
    const forged = "z\n2  2030-01-01T00:00:00.000Z  granted  z  root\r\u001b[2J\u202e\u2028";
    await world.run("lock", "--value", forged, "--", forged);
    const tickets = await world.tickets();
    const events = await world.events();
    const list = output(await world.run("list"));
    expect(list.trimEnd().split("\n").length).toBe(tickets.length + 1);
    const history = output(await world.run("events"));
    expect(history.trimEnd().split("\n").length).toBe(events.length);
    const why = output(await world.run("why", "--", forged));
    expect(why.trimEnd().split("\n").length).toBe(3);
    const refused = await world.run("lock", "--wait", "0", "--", forged);
    expect(refused.code).toBe(75);
    for (const text of [list, history, why, refused.stderr]) expect(text).not.toMatch(/[^\P{Cc}\n]|[\u202e\u2028]/u);
    for (const line of list.trimEnd().split("\n")) expect(line).toMatch(/^(OBJECT|\S| )/);
  });

  test("of 0 and of more than 1,024 bytes are refused by every command that takes one: 64", async () => {
    const long = ["x".repeat(1025), `${"é".repeat(512)}a`, "x".repeat(100_000)];
    for (const name of ["", ...long]) {
      for (const argv of [["lock", name], ["exec", name, "--", "true"], ["why", name], ["wait", name], ["release", name, "--force", "--token", "1"], ["lock", "fine", name]]) {
        const finished = await world.run(...argv);
        expect(output(finished, 64)).toBe("");
        expect(finished.stderr).toContain(name === "" ? "must not be empty" : "1024 bytes");
        expect(finished.stderr.length).toBeLessThan(500);
      }
    }
    expect(errorOf(await world.run("lock", "", "--json"), 64).code).toBe("invalid");
    expect(await world.tickets("fine")).toEqual([]);
  });

  test("that are not UTF-8 are refused, never altered: 64", async () => {
    for (const bytes of ["a\\377", "\\300\\200", "\\355\\240\\200", "ok\\200"]) {
      const { code, stderr } = await shell(`"$BIN" lock "$(printf 'x${bytes}')"`, { LOCKD_CONNECT: world.server.address });
      expect(code).toBe(64);
      expect(stderr).toContain("not UTF-8");
    }
    expect(await world.tickets("x\ufffd")).toEqual([]);
    output(await world.run("lock", "--", "x\ufffd"));
  });

  test("reach a command in LOCKD_OBJECT exactly, several one a line", async () => {
    for (const name of ["a'b\"c $d", "🔒,é", "%2F%2f"]) {
      expect(output(await world.run("exec", name, "--", "sh", "-c", 'printf %s "$LOCKD_OBJECT"'))).toBe(name);
    }
    expect(output(await world.run("exec", "n/2", "n/1", "--", "sh", "-c", 'printf %s "$LOCKD_OBJECT"'))).toBe("n/2\nn/1");
  });

  test("at random never disturb the server, which gives each back as it was or refuses it", async () => {
    const client = await connectTo(world.server.address);
    let seed = 7;
    const random = (below: number): number => {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      return Math.floor((seed / 2 ** 32) * below);
    };
    const names = new Set(
      Array.from({ length: 2000 }, () => Array.from({ length: 1 + random(12) }, () => String.fromCharCode(random(random(2) === 0 ? 128 : 65_536))).join("")),
    );
    const outcomes = await Promise.all(
      [...names].map(async (name) => {
        try {
          const lock = await client.lock(`r${name}`, { wait: 0 });
          expect(lock.objects).toEqual([`r${name}`]);
          return `r${name}`;
        } catch (error) {
          // a lone surrogate has no UTF-8
          expect(name.isWellFormed()).toBe(false);
          expect(error).toMatchObject({ code: "invalid" });
          return null;
        }
      }),
    );
    const held = outcomes.filter((name): name is string => name !== null);
    expect(held.length).toBeGreaterThan(1000);
    const listed: string[] = [];
    for await (const ticket of client.list("r")) listed.push(ticket.object);
    expect(listed.sort()).toEqual(held.sort());
    await client.close();
    expect(output(await world.run("status", "--json"))).toContain('"ready":true');
  });
});

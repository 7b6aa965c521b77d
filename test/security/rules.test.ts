import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parse } from "smol-toml";
import { checkClientTable, clientEntries, clientEntry } from "../../src/security/clients.ts";
import { AccessRules, type Action, ACTIONS, type Principal, type Rule } from "../../src/security/rules.ts";

const by = (how: Principal["by"], name = "ci"): Principal => ({ name, by: how });
const rules = (clients: Record<string, readonly Rule[]>, asks = true): AccessRules =>
  new AccessRules({ asks, clients: Object.entries(clients).map(([name, allow]) => ({ name, allow })) });
const CI: readonly Rule[] = [{ prefix: "ci/", actions: ["lock", "list"] }, { prefix: "shared", actions: ["list"] }];

describe("rules", () => {
  test("allow their actions on objects that start with their prefix, byte for byte, and nothing else", () => {
    const access = rules({ ci: CI });
    const allowed = (action: Action, object: string): boolean => access.allows(by("token"), action, object);
    expect(["ci/", "ci/a", "ci/a/b", "ci//"].every((object) => allowed("lock", object))).toBe(true);
    expect(["ci", "Ci/a", "/ci/a", "a/ci/", "", "shared/x"].some((object) => allowed("lock", object))).toBe(false);
    expect(allowed("list", "shared/x")).toBe(true);
    expect(ACTIONS.filter((action) => allowed(action, "ci/a"))).toEqual(["lock", "list"]);
    expect(ACTIONS.some((action) => access.allowsAll(by("token"), action))).toBe(false);
    expect(rules({ ci: [{ prefix: "", actions: ["release"] }] }).allowsAll(by("token"), "release")).toBe(true);
  });

  test.each<[string, boolean, Record<string, readonly Rule[]>, Principal, boolean]>([
    ["nobody is asked: everything", false, {}, by("nothing"), true],
    ["who came in before anybody was asked: nothing", true, {}, by("nothing"), false],
    ["a certificate without any rules: everything", true, {}, by("certificate"), true],
    ["a certificate that the rules do not name: nothing", true, { other: CI }, by("certificate"), false],
    ["a token whose client was removed: nothing", true, {}, by("token"), false],
    ["the secret: everything", true, { other: CI }, by("secret"), true],
    ["the secret, where a rule names the client: no more than that", true, { ci: [] }, by("secret"), false],
  ])("%s", (_name, asks, clients, principal, everything) => {
    for (const action of ACTIONS) {
      expect(rules(clients, asks).allows(principal, action, "x")).toBe(everything);
      expect(rules(clients, asks).allowsAll(principal, action)).toBe(everything);
    }
  });

  test("give disjoint prefixes in order, which hold exactly what is allowed", () => {
    const word = fc.string({ unit: fc.constantFrom("a", "b", "/"), maxLength: 4 });
    const actions = fc.subarray([...ACTIONS], { minLength: 1 });
    fc.assert(
      fc.property(fc.array(fc.record({ prefix: word, actions }), { maxLength: 5 }), word, fc.array(word, { maxLength: 20 }), (allow, within, objects) => {
        const access = rules({ ci: allow });
        const prefixes = access.prefixes(by("token"), "list", within);
        expect([...prefixes].sort()).toEqual([...prefixes]);
        for (const object of objects) {
          const homes = prefixes.filter((prefix) => object.startsWith(prefix)).length;
          expect(homes).toBe(object.startsWith(within) && access.allows(by("token"), "list", object) ? 1 : 0);
        }
      }),
    );
  });
});

describe("[[auth.client]]", () => {
  const SHA = "ab".repeat(32);
  const table = (toml: string): unknown => parse(toml);
  const problem = (toml: string): string => {
    const checked = checkClientTable(table(toml), "/etc/lockd");
    return "problem" in checked ? checked.problem : "";
  };

  test("is read as it is written, with the token's file found beside the configuration", () => {
    const checked = checkClientTable(table('name = "ci"\ntoken-file = "ci.token"\nallow = [{ prefix = "ci/", actions = ["lock", "list", "release"] }]'), "/etc/lockd");
    expect("text" in checked && clientEntry(checked.text)).toEqual({
      name: "ci", tokenSha256: null, tokenFile: "/etc/lockd/ci.token", allow: [{ prefix: "ci/", actions: ["lock", "list", "release"] }],
    });
    const other = checkClientTable(table(`name = "n"\ntoken-sha256 = "${SHA.toUpperCase()}"\nallow = []`), "/");
    expect("text" in other && clientEntry(other.text)).toEqual({ name: "n", tokenSha256: SHA, tokenFile: null, allow: [] });
  });

  test.each([
    ["allow = []", "name is missing"],
    ['name = ""\nallow = []', "name is not accepted"],
    ['name = "a b"\nallow = []', "name is not accepted"],
    ['name = "ci"', "allow is missing"],
    ['name = "ci"\nallow = "all"', "allow is not accepted"],
    ['name = "ci"\nallow = [{ prefix = "a" }]', "allow.0.actions is missing"],
    ['name = "ci"\nallow = [{ prefix = "a", actions = [] }]', "allow.0.actions is not accepted"],
    ['name = "ci"\nallow = [{ prefix = "a", actions = ["steal"] }]', "allow.0.actions.0 is not accepted"],
    ['name = "ci"\nallow = [{ actions = ["lock"] }]', "allow.0.prefix is missing"],
    ['name = "ci"\nallow = [{ prefix = "a", actions = ["lock"], except = "b" }]', "allow.0.except is not accepted"],
    ['name = "ci"\ntoken = "hunter2"\nallow = []', 'unknown key "token"'],
    ['name = "ci"\ntoken-sha256 = "hunter2"\nallow = []', "token-sha256 is not accepted"],
    [`name = "ci"\ntoken-sha256 = "${SHA}"\ntoken-file = "x"\nallow = []`, "exclude each other"],
  ])("with %j says what is wrong, without repeating a value", (toml, expected) => {
    expect(problem(toml)).toContain(expected);
    expect(problem(toml)).not.toContain("hunter2");
  });

  test("twice with one name is refused", () => {
    const text = JSON.stringify({ name: "ci", allow: [] });
    expect(() => clientEntries([text, text])).toThrow("ci is named twice");
  });
});

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { LockdError } from "../../src/errors.ts";
import { orderPlugins } from "../../src/plugin/graph.ts";
import type { Plugin } from "../../src/plugin/types.ts";

const plugin = (name: string, plugins: readonly string[] = [], more: Partial<Plugin> = {}): Plugin => ({
  name,
  version: "1.0.0",
  requires: { lockd: "^1", plugins },
  ...more,
});
const order = (...plugins: Plugin[]): string[] => orderPlugins(plugins, "1.2.0").map(({ name }) => name);

function refusal(...plugins: Plugin[]): LockdError {
  try {
    order(...plugins);
  } catch (error) {
    if (error instanceof LockdError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

describe("the order", () => {
  test("is the given one, except that what is required comes first", () => {
    expect(order(plugin("sync", ["lock"]), plugin("dashboard"), plugin("lock", ["raft"]), plugin("raft"))).toEqual([
      "raft",
      "lock",
      "sync",
      "dashboard",
    ]);
    expect(order(plugin("b"), plugin("a"))).toEqual(["b", "a"]);
    expect(order()).toEqual([]);
  });

  test("holds every plugin once and after all that it requires, for any graph without cycles", () => {
    const graph = fc.integer({ min: 0, max: 12 }).chain((count) =>
      fc.tuple(
        fc.array(fc.array(fc.nat({ max: 11 }), { maxLength: 4 }), { minLength: count, maxLength: count }),
        fc.shuffledSubarray(Array.from({ length: count }, (_, index) => index), { minLength: count, maxLength: count }),
      ),
    );
    fc.assert(
      fc.property(graph, ([edges, shuffled]) => {
        // an edge to a smaller number only: no cycle
        const plugins = edges.map((targets, index) => plugin(`p${index}`, targets.filter((target) => target < index).map((target) => `p${target}`)));
        const ordered = order(...shuffled.flatMap((index) => plugins[index] ?? []));
        expect(ordered.toSorted()).toEqual(plugins.map(({ name }) => name).toSorted());
        for (const one of plugins) {
          for (const required of one.requires.plugins ?? []) expect(ordered.indexOf(required)).toBeLessThan(ordered.indexOf(one.name));
        }
      }),
    );
  });
});

describe("a configuration error that names the plugin", () => {
  test("for a duplicate name", () => {
    expect(refusal(plugin("lock"), plugin("lock"))).toMatchObject({ code: "config", message: expect.stringContaining("plugin lock: another plugin of this name") });
  });

  test("for a missing dependency, with what is loaded", () => {
    expect(refusal(plugin("sync", ["lock"]), plugin("raft"))).toMatchObject({
      code: "config",
      message: 'load plugin sync: it requires plugin "lock", which is not loaded',
      hint: "loaded are: sync, raft",
    });
  });

  test("for a cycle, spelled out without what only leads to it", () => {
    const error = refusal(plugin("z", ["a"]), plugin("a", ["b"]), plugin("b", ["c"]), plugin("c", ["a"]));
    expect(error).toMatchObject({ code: "config", message: "load plugin a: the plugins require each other: a → b → c → a" });
    expect(refusal(plugin("a", ["a"])).message).toContain("a → a");
  });

  test("for another version of the interface", () => {
    const error = refusal(plugin("old", [], { requires: { lockd: "^2" } }));
    expect(error).toMatchObject({ code: "config", message: "load plugin old: it works with plugin interface ^2, and this lockd has 1.2.0" });
    expect(order(plugin("fits", [], { requires: { lockd: ">=1 <2" } }))).toEqual(["fits"]);
  });

  test("for a range that is none", () => {
    expect(refusal(plugin("bad", [], { requires: { lockd: "latest" } })).message).toContain('bad: requires.lockd "latest" is not a range');
  });

  test.each(["", "Lock", "1st", "a_b", "a--b", "-a", "a-", "a b", "é", "__proto__", "x".repeat(41), "a\nb"])("for the invalid name %p", (name) => {
    const error = refusal(plugin(name));
    expect(error.code).toBe("config");
    expect(error.message).toContain("a name is lower-case letters");
    expect(error.message).not.toContain("\n");
  });

  test.each(["lockd", "core"])("for the reserved name %s", (name) => {
    expect(refusal(plugin(name)).message).toContain("reserved");
  });

  test.each(["1", "", "1.x.0", "latest"])("for the version %p of its own", (version) => {
    expect(refusal(plugin("lock", [], { version })).message).toContain("is not of the form 1.2.3");
  });
});

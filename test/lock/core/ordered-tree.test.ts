import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { OrderedNode, OrderedTree } from "../../../plugins/lock/core/ordered-tree.ts";

type Node = OrderedNode<number, string>;

function depth(node: Node | null): number {
  return node === null ? 0 : 1 + Math.max(depth(node.left), depth(node.right));
}

function rootOf(tree: OrderedTree<number, string>): Node | null {
  let node = tree.first();
  while (node !== null && node.parent !== null) node = node.parent;
  return node;
}

/** Links, sizes, weights and balance, by looking at every node. */
function checkShape(node: Node | null, parent: Node | null): { size: number; weight: number } {
  if (node === null) return { size: 0, weight: 0 };
  expect(node.parent).toBe(parent);
  const left = checkShape(node.left, node);
  const right = checkShape(node.right, node);
  expect(node.size).toBe(left.size + right.size + 1);
  expect(node.weightSum).toBe(left.weight + right.weight + node.weight);
  expect(left.size + 1).toBeLessThanOrEqual(3 * (right.size + 1));
  expect(right.size + 1).toBeLessThanOrEqual(3 * (left.size + 1));
  return { size: node.size, weight: node.weightSum };
}

const commands = fc.array(
  fc.record({ act: fc.constantFrom("insert", "insert", "remove", "weigh"), key: fc.nat(60), weight: fc.constantFrom<0 | 1>(0, 1) }),
  { maxLength: 200, size: "max" },
);

describe("the ordered tree", () => {
  test("answers like a sorted array, whatever is inserted, removed and weighed", () => {
    fc.assert(
      fc.property(commands, (steps) => {
        const tree = new OrderedTree<number, string>();
        const nodes = new Map<number, Node>();
        for (const { act, key, weight } of steps) {
          const node = nodes.get(key);
          if (act === "insert" && node === undefined) {
            const fresh = new OrderedNode(key, `value ${key}`, weight);
            nodes.set(key, fresh);
            tree.insert(fresh);
          } else if (act === "remove" && node !== undefined) {
            nodes.delete(key);
            tree.remove(node);
          } else if (act === "weigh" && node !== undefined) {
            tree.setWeight(node, weight);
          }
          checkShape(rootOf(tree), null);
        }
        const sorted = [...nodes.values()].sort((a, b) => a.key - b.key);
        const weighted = sorted.filter((node) => node.weight === 1);
        expect(tree.size).toBe(sorted.length);
        expect(tree.first()).toBe(sorted[0] ?? null);
        expect(tree.last()).toBe(sorted.at(-1) ?? null);
        for (let key = -1; key <= 61; key++) {
          expect(tree.atLeast(key)).toBe(sorted.find((node) => node.key >= key) ?? null);
          expect(tree.above(key)).toBe(sorted.find((node) => node.key > key) ?? null);
          expect(tree.weightedAbove(key)).toBe(weighted.find((node) => node.key > key) ?? null);
        }
        sorted.forEach((node, index) => {
          const before = weighted.filter((each) => each.key < node.key);
          expect(tree.next(node)).toBe(sorted[index + 1] ?? null);
          expect(tree.weightBefore(node)).toBe(before.length);
          expect(tree.weightedPrevious(node)).toBe(before.at(-1) ?? null);
        });
        weighted.forEach((node, rank) => expect(tree.weightedAt(rank)).toBe(node));
        expect(tree.weightedAt(weighted.length)).toBeNull();
      }),
      { seed: 1, numRuns: 200 },
    );
  });

  test("stays shallow when keys come in order, as ticket numbers do", () => {
    const tree = new OrderedTree<number, string>();
    for (let key = 0; key < 20_000; key++) tree.insert(new OrderedNode(key, "", 1));
    // log(n) to the base 4/3 bounds a tree with these weights
    expect(depth(rootOf(tree))).toBeLessThan(35);
    for (let key = 0; key < 19_990; key++) {
      const first = tree.first();
      if (first !== null) tree.remove(first);
    }
    expect(depth(rootOf(tree))).toBeLessThan(9);
  });

  test("orders texts by UTF-16 code units", () => {
    const tree = new OrderedTree<string, null>();
    for (const key of ["b", "a/", "a", "ä", "Z", "\u{1f512}", "\uffff"]) tree.insert(new OrderedNode(key, null, 0));
    const keys: string[] = [];
    for (let node = tree.first(); node !== null; node = tree.next(node)) keys.push(node.key);
    expect(keys).toEqual(["Z", "a", "a/", "b", "ä", "\u{1f512}", "\uffff"]);
  });

  test("refuses a key twice, a node twice, and what is not linked", () => {
    const tree = new OrderedTree<number, null>();
    const node = new OrderedNode(1, null, 0);
    tree.insert(node);
    expect(() => tree.insert(node)).toThrow("linked once");
    expect(() => tree.insert(new OrderedNode(1, null, 0))).toThrow("distinct");
    tree.remove(node);
    expect(() => tree.remove(node)).toThrow("linked");
  });

  test("takes a removed node again", () => {
    const tree = new OrderedTree<number, null>();
    const nodes = [3, 1, 2].map((key) => new OrderedNode(key, null, 1));
    for (const node of nodes) tree.insert(node);
    for (const node of nodes) tree.remove(node);
    expect(tree.size).toBe(0);
    for (const node of nodes) tree.insert(node);
    expect(tree.first()?.key).toBe(1);
    expect(tree.weightedAt(2)?.key).toBe(3);
  });
});

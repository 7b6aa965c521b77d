/**
 * A sorted map with order statistics: insert, remove, find, neighbours and the weight before a node,
 * each O(log n) in the worst case. The caller owns the nodes, so removing needs no search. Knows
 * nothing of locks.
 *
 * A weight-balanced tree with the parameters <3,2> that Hirai and Yamamoto proved right ("Balancing
 * weight-balanced trees", 2011). Chosen because the sizes it balances by are needed for ranks anyway,
 * and because no choice of keys by a client can make it deep.
 */
import { assert } from "../../../src/errors.ts";

const DELTA = 3;
const GAMMA = 2;

export class OrderedNode<K extends number | string, V> {
  left: OrderedNode<K, V> | null = null;
  right: OrderedNode<K, V> | null = null;
  parent: OrderedNode<K, V> | null = null;
  size = 1;
  /** sum of the weights in this subtree */
  weightSum: number;
  linked = false;

  /** `weight`: 0 hides the node from the weighted queries, 1 counts it. */
  constructor(
    readonly key: K,
    readonly value: V,
    public weight: 0 | 1,
  ) {
    this.weightSum = weight;
  }
}

const sizeOf = <K extends number | string, V>(node: OrderedNode<K, V> | null): number => (node === null ? 0 : node.size);
const weightOf = <K extends number | string, V>(node: OrderedNode<K, V> | null): number =>
  node === null ? 0 : node.weightSum;

export class OrderedTree<K extends number | string, V> {
  #root: OrderedNode<K, V> | null = null;

  get size(): number {
    return sizeOf(this.#root);
  }

  /** Links a node whose key is not in the tree yet. */
  insert(node: OrderedNode<K, V>): void {
    assert(!node.linked, "a node is linked once");
    node.left = node.right = node.parent = null;
    node.size = 1;
    node.weightSum = node.weight;
    node.linked = true;
    let at = this.#root;
    if (at === null) {
      this.#root = node;
      return;
    }
    for (;;) {
      assert(at.key !== node.key, "keys are distinct");
      if (node.key < at.key) {
        if (at.left === null) {
          at.left = node;
          break;
        }
        at = at.left;
      } else {
        if (at.right === null) {
          at.right = node;
          break;
        }
        at = at.right;
      }
    }
    node.parent = at;
    this.#mend(at);
  }

  /** Unlinks a node of this tree. */
  remove(node: OrderedNode<K, V>): void {
    assert(node.linked, "only a linked node can be removed");
    node.linked = false;
    let mendFrom = node.parent;
    if (node.left === null || node.right === null) {
      this.#replace(node, node.left ?? node.right);
    } else {
      let successor = node.right;
      while (successor.left !== null) successor = successor.left;
      if (successor.parent === node) {
        mendFrom = successor;
      } else {
        mendFrom = successor.parent;
        this.#replace(successor, successor.right);
        successor.right = node.right;
        successor.right.parent = successor;
      }
      this.#replace(node, successor);
      successor.left = node.left;
      successor.left.parent = successor;
    }
    node.left = node.right = node.parent = null;
    if (mendFrom !== null) this.#mend(mendFrom);
  }

  setWeight(node: OrderedNode<K, V>, weight: 0 | 1): void {
    if (node.weight === weight) return;
    const difference = weight - node.weight;
    node.weight = weight;
    for (let at: OrderedNode<K, V> | null = node; at !== null; at = at.parent) at.weightSum += difference;
  }

  first(): OrderedNode<K, V> | null {
    let at = this.#root;
    while (at !== null && at.left !== null) at = at.left;
    return at;
  }

  last(): OrderedNode<K, V> | null {
    let at = this.#root;
    while (at !== null && at.right !== null) at = at.right;
    return at;
  }

  /** The first node whose key is not below `key`. */
  atLeast(key: K): OrderedNode<K, V> | null {
    let found: OrderedNode<K, V> | null = null;
    let at = this.#root;
    while (at !== null) {
      if (at.key < key) {
        at = at.right;
      } else {
        found = at;
        at = at.left;
      }
    }
    return found;
  }

  /** The first node whose key is above `key`. */
  above(key: K): OrderedNode<K, V> | null {
    const found = this.atLeast(key);
    return found !== null && found.key === key ? this.next(found) : found;
  }

  next(node: OrderedNode<K, V>): OrderedNode<K, V> | null {
    if (node.right !== null) {
      let at = node.right;
      while (at.left !== null) at = at.left;
      return at;
    }
    let child = node;
    let at = node.parent;
    while (at !== null && at.right === child) {
      child = at;
      at = at.parent;
    }
    return at;
  }

  /** Sum of the weights of all nodes before this one: its zero-based place among those that count. */
  weightBefore(node: OrderedNode<K, V>): number {
    let sum = weightOf(node.left);
    for (let child = node, at = node.parent; at !== null; child = at, at = at.parent) {
      if (at.right === child) sum += weightOf(at.left) + at.weight;
    }
    return sum;
  }

  /** The node of weight 1 with `rank` such nodes before it. */
  weightedAt(rank: number): OrderedNode<K, V> | null {
    let at = this.#root;
    let left = rank;
    while (at !== null) {
      const before = weightOf(at.left);
      if (left < before) {
        at = at.left;
      } else if (left === before && at.weight === 1) {
        return at;
      } else {
        left -= before + at.weight;
        at = at.right;
      }
    }
    return null;
  }

  /** The first node of weight 1 whose key is above `key`. */
  weightedAbove(key: K): OrderedNode<K, V> | null {
    let rank = 0;
    let at = this.#root;
    while (at !== null) {
      if (at.key <= key) {
        rank += weightOf(at.left) + at.weight;
        at = at.right;
      } else {
        at = at.left;
      }
    }
    return this.weightedAt(rank);
  }

  /** The nearest node of weight 1 before this one. */
  weightedPrevious(node: OrderedNode<K, V>): OrderedNode<K, V> | null {
    const rank = this.weightBefore(node);
    return rank === 0 ? null : this.weightedAt(rank - 1);
  }

  /** Puts `by` where `node` is linked below its parent. */
  #replace(node: OrderedNode<K, V>, by: OrderedNode<K, V> | null): void {
    const parent = node.parent;
    if (parent === null) this.#root = by;
    else if (parent.left === node) parent.left = by;
    else parent.right = by;
    if (by !== null) by.parent = parent;
  }

  /** Recounts and rebalances from a node up to the root. */
  #mend(from: OrderedNode<K, V>): void {
    let at: OrderedNode<K, V> | null = from;
    while (at !== null) {
      count(at);
      const left = sizeOf(at.left) + 1;
      const right = sizeOf(at.right) + 1;
      if (right > DELTA * left && at.right !== null) {
        if (sizeOf(at.right.left) + 1 >= GAMMA * (sizeOf(at.right.right) + 1)) this.#rotateRight(at.right);
        at = this.#rotateLeft(at);
      } else if (left > DELTA * right && at.left !== null) {
        if (sizeOf(at.left.right) + 1 >= GAMMA * (sizeOf(at.left.left) + 1)) this.#rotateLeft(at.left);
        at = this.#rotateRight(at);
      }
      at = at.parent;
    }
  }

  #rotateLeft(node: OrderedNode<K, V>): OrderedNode<K, V> {
    const up = node.right;
    assert(up !== null, "a left rotation lifts the right child");
    this.#replace(node, up);
    node.right = up.left;
    if (node.right !== null) node.right.parent = node;
    up.left = node;
    node.parent = up;
    count(node);
    count(up);
    return up;
  }

  #rotateRight(node: OrderedNode<K, V>): OrderedNode<K, V> {
    const up = node.left;
    assert(up !== null, "a right rotation lifts the left child");
    this.#replace(node, up);
    node.left = up.right;
    if (node.left !== null) node.left.parent = node;
    up.right = node;
    node.parent = up;
    count(node);
    count(up);
    return up;
  }
}

function count<K extends number | string, V>(node: OrderedNode<K, V>): void {
  node.size = sizeOf(node.left) + 1 + sizeOf(node.right);
  node.weightSum = weightOf(node.left) + node.weight + weightOf(node.right);
}

/** The contract of Namespace and Store, as any implementation has to keep it. */
import { afterEach, describe, expect, test } from "bun:test";
import { append, bytes, cleanUp, errorOf, openedStore, recordsOf, set, streamOf, temporaryDirectory, unset } from "./kit.ts";

afterEach(cleanUp);

describe("records", () => {
  test("an empty namespace has none", async () => {
    const store = await openedStore(temporaryDirectory());
    expect(recordsOf(store.namespace("lock"))).toEqual({});
  });

  test("what was committed is read back, also by the next opener", async () => {
    const directory = temporaryDirectory();
    const first = await openedStore(directory);
    const namespace = first.namespace("lock");
    await namespace.commit({ changes: [set("a", "1"), set("b", "2"), set("ключ/|\n,🔒", "3"), { key: "", value: new Uint8Array() }] });
    await namespace.commit({ changes: [unset("a"), set("b", "4")] });
    const expected = { "": "", b: "4", "ключ/|\n,🔒": "3" };
    expect(recordsOf(namespace)).toEqual(expected);
    await first.close();
    const second = await openedStore(directory);
    expect(recordsOf(second.namespace("lock"))).toEqual(expected);
    expect(second.directoryId).toBe(first.directoryId);
    expect(second.directoryId).toMatch(/^[0-9a-f]{32}$/);
  });

  test("later changes of one key win, within a batch and between batches", async () => {
    const store = await openedStore(temporaryDirectory());
    const namespace = store.namespace("lock");
    await Promise.all([
      namespace.commit({ changes: [set("a", "1"), unset("a"), set("a", "2"), set("b", "1"), unset("b")] }),
      namespace.commit({ changes: [set("a", "3")] }),
      namespace.commit({ changes: [set("b", "4"), unset("a")] }),
    ]);
    expect(recordsOf(namespace)).toEqual({ b: "4" });
  });

  test("namespaces do not see each other", async () => {
    const store = await openedStore(temporaryDirectory());
    await Promise.all([
      store.namespace("one").commit({ changes: [set("a", "1")] }),
      store.namespace("two").commit({ changes: [set("a", "2")] }),
      store.namespace("one").commit({ changes: [set("b", "3")] }),
    ]);
    expect(recordsOf(store.namespace("one"))).toEqual({ a: "1", b: "3" });
    expect(recordsOf(store.namespace("two"))).toEqual({ a: "2" });
  });

  test("reading shows one moment, whatever is committed meanwhile", async () => {
    const store = await openedStore(temporaryDirectory());
    const namespace = store.namespace("lock");
    await namespace.commit({ changes: [set("a", "1"), set("b", "1")] });
    const seen: string[] = [];
    for (const [key, value] of namespace.records()) {
      await namespace.commit({ changes: [set("b", "2"), set("a", "2"), set("c", "2")] });
      seen.push(`${key}=${new TextDecoder().decode(value)}`);
    }
    expect(seen.sort()).toEqual(["a=1", "b=1"]);
    expect(recordsOf(namespace)).toEqual({ a: "2", b: "2", c: "2" });
  });

  test("a value of several megabytes comes back whole", async () => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    const large = new Uint8Array(9_000_000).map((_, index) => index % 251);
    await store.namespace("lock").commit({ changes: [{ key: "large", value: large }] });
    await store.close();
    const [[key, value] = ["", bytes("")]] = [...(await openedStore(directory)).namespace("lock").records()];
    expect(key).toBe("large");
    expect(Buffer.compare(value, large)).toBe(0);
  });
});

describe("streams", () => {
  test("pieces come back in order and as they were handed in", async () => {
    const directory = temporaryDirectory();
    const store = await openedStore(directory);
    const namespace = store.namespace("lock");
    await namespace.commit({ changes: [], appends: [append("events", 1, 3, "abc"), append("other", 7, 7, "x")] });
    await namespace.commit({ changes: [set("a", "1")], appends: [append("events", 4, 4, "d")] });
    expect(streamOf(namespace, "events")).toEqual(["1-3:abc", "4-4:d"]);
    expect(streamOf(namespace, "events", 3)).toEqual(["1-3:abc", "4-4:d"]);
    expect(streamOf(namespace, "events", 4)).toEqual(["4-4:d"]);
    expect(streamOf(namespace, "events", 5)).toEqual([]);
    expect(streamOf(namespace, "none")).toEqual([]);
    await store.close();
    const again = (await openedStore(directory)).namespace("lock");
    expect(streamOf(again, "events")).toEqual(["1-3:abc", "4-4:d"]);
    expect(streamOf(again, "other")).toEqual(["7-7:x"]);
  });

  test("trimming drops whole pieces up to the id and nothing behind it", async () => {
    const store = await openedStore(temporaryDirectory());
    const namespace = store.namespace("lock");
    await namespace.commit({ changes: [], appends: [append("events", 0, 1, "ab"), append("events", 2, 3, "cd"), append("events", 4, 5, "ef")] });
    await namespace.commit({ changes: [], trims: [{ stream: "events", throughId: 2 }] });
    expect(streamOf(namespace, "events")).toEqual(["2-3:cd", "4-5:ef"]);
    await namespace.commit({ changes: [], appends: [append("events", 6, 6, "g")], trims: [{ stream: "events", throughId: 5 }] });
    expect(streamOf(namespace, "events")).toEqual(["6-6:g"]);
  });
});

describe("commits", () => {
  test("become durable in the order of the calls, and many share a sync", async () => {
    const store = await openedStore(temporaryDirectory());
    const namespace = store.namespace("lock");
    const order: number[] = [];
    await Promise.all(
      Array.from({ length: 500 }, async (_, index) => {
        await namespace.commit({ changes: [set(`k${index}`, String(index))] });
        order.push(index);
      }),
    );
    expect(order).toEqual(Array.from({ length: 500 }, (_, index) => index));
    const stats = store.stats();
    expect(stats.batches).toBe(500);
    expect(stats.commits).toBeLessThan(10);
    expect(Object.keys(recordsOf(namespace))).toHaveLength(500);
  });

  test("a malformed batch is refused alone: what shares its group stands", async () => {
    const store = await openedStore(temporaryDirectory());
    const namespace = store.namespace("lock");
    const before = namespace.commit({ changes: [set("a", "1")] });
    const malformed = namespace.commit({ changes: [set("b", "1"), set("\ud800", "1")] });
    const after = namespace.commit({ changes: [set("c", "1")] });
    expect(String(await errorOf(() => malformed))).toContain("well-formed");
    await Promise.all([before, after]);
    expect(recordsOf(namespace)).toEqual({ a: "1", c: "1" });
  });

  test("after close they reject, and close can be called twice", async () => {
    const store = await openedStore(temporaryDirectory());
    const namespace = store.namespace("lock");
    const last = namespace.commit({ changes: [set("a", "1")] });
    await Promise.all([store.close(), store.close()]);
    await last;
    expect(await errorOf(() => namespace.commit({ changes: [set("a", "2")] }))).toMatchObject({ code: "failed" });
  });
});

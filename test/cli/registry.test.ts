import { expect, test } from "bun:test";
import { fileURLToPath } from "node:url";
import { workers } from "../../bin/registry.ts";

test("the registry names every worker of the tree, so that the smoke run starts it", () => {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const files = [...new Bun.Glob("{src,plugins}/**/*.worker.ts").scanSync(root)].sort();
  expect([...workers].sort()).toEqual(files);
});

/** Plugins as files: what the tests of external plugins write to disk, and how they look at what lockd says. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Finished, lockd } from "./kit.ts";

/** Writes a file below `directory`, with its folders, and returns its path. */
export function write(directory: string, name: string, text: string): string {
  const path = join(directory, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text, { mode: 0o644 });
  return path;
}

/** The text of a plugin: `body` are fields besides name, version and requires, which it may also replace. */
export const pluginText = (name: string, body = "", imports = ""): string =>
  `import { definePlugin, LockdError } from "lockd:api";\n${imports}\nexport default definePlugin({ name: ${JSON.stringify(name)}, version: "1.0.0", requires: { lockd: "^1" }, ${body} });\n`;

/** A command that prints and ends with 0. */
export const commandText = (name: string, more = ""): string =>
  `{ name: ${JSON.stringify(name)}, summary: "does it", load: async () => ({ run: async ({ out }) => { await out.write("done\\n"); return 0; } }), ${more} }`;

/** `lockd plugins` with these, which loads them all. */
export const plugins = (...paths: string[]): Promise<Finished> => lockd(["plugins", ...paths.map((path) => `--plugin=${path}`)]);

/** A server with these plugins that must not start: runs until it has given up. */
export const serve = (directory: string, ...paths: string[]): Promise<Finished> =>
  lockd(["serve", "--listen=127.0.0.1:0", "--http=127.0.0.1:0", `--data=${join(directory, "data")}`, "--log-level=silent", ...paths.map((path) => `--plugin=${path}`)]);

/** The error's sentence; throws when there is more than the sentence and its hint. */
export function sentence({ stderr }: Finished): string {
  const [first = "", hint, ...more] = stderr.trimEnd().split("\n");
  if (!first.startsWith("lockd: ") || more.length > 0 || (hint !== undefined && !hint.startsWith("  "))) throw new Error(`not one sentence and a hint:\n${stderr}`);
  return first.slice("lockd: ".length);
}

/** What the tests of the store share: directories that vanish, stores that are closed, short spellings. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openStore, type OpenedStore, type StoreOptions } from "../../src/store/store.ts";
import type { Namespace } from "../../src/store/types.ts";

const undo: (() => void | Promise<void>)[] = [];

/** For `afterEach` of every file that uses this one: a hook set here would serve the first of them only. */
export async function cleanUp(): Promise<void> {
  for (const step of undo.splice(0).reverse()) await step();
}

/** Runs `step` after the test, in reverse order. */
export function later(step: () => void | Promise<void>): void {
  undo.push(step);
}

export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "lockd-store-"));
  later(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A store that is closed after the test, if the test did not. */
export async function openedStore(directory: string, options: Partial<StoreOptions> = {}): Promise<OpenedStore> {
  const store = await openStore({ directory, ...options });
  later(() => store.close());
  return store;
}

export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
export const text = (value: Uint8Array): string => new TextDecoder().decode(value);

export const set = (key: string, value: string) => ({ key, value: bytes(value) });
export const unset = (key: string) => ({ key, value: null });
export const append = (stream: string, firstId: number, lastId: number, data: string) => ({ stream, firstId, lastId, data: bytes(data) });

/** All records as an object with sorted keys. */
export function recordsOf(namespace: Namespace): Record<string, string> {
  const entries = [...namespace.records()].map(([key, value]) => [key, text(value)] as const);
  return Object.fromEntries(entries.sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** A stream as `first-last:data` texts. */
export function streamOf(namespace: Namespace, name: string, fromId?: number): string[] {
  return [...namespace.stream(name, fromId)].map((piece) => `${piece.firstId}-${piece.lastId}:${text(piece.data)}`);
}

/** The error that `action` ends in; fails when it ends in none. */
export async function errorOf(action: () => unknown): Promise<unknown> {
  try {
    await action();
  } catch (error) {
    return error;
  }
  throw new Error("no error came");
}

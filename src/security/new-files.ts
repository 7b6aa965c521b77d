/** Writes files that must not be there yet, durably, in a folder that is made when it is missing. */
import { closeSync, fsyncSync, mkdirSync, openSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LockdError } from "../errors.ts";
import { quoted } from "../text.ts";

export interface NewFile {
  name: string;
  text: string;
  /** a key: readable by its owner only */
  secret: boolean;
}

/**
 * All of them or none: when one exists or cannot be written, those before it are taken back. Throws
 * LockdError `config` for one that exists, `failed` for everything else.
 */
export function writeNewFiles(directory: string, files: readonly NewFile[]): void {
  const written: string[] = [];
  try {
    mkdirSync(directory, { recursive: true, mode: 0o755 });
    for (const file of files) {
      const path = join(directory, file.name);
      create(path, file);
      written.push(path);
    }
  } catch (error) {
    for (const path of written) unlinkSync(path);
    throw error instanceof LockdError ? error : new LockdError("failed", `write ${quoted(directory)}: ${codeOf(error)}`, { cause: error });
  }
}

function create(path: string, { text, secret }: NewFile): void {
  let descriptor: number;
  try {
    descriptor = openSync(path, "wx", secret ? 0o600 : 0o644);
  } catch (error) {
    if (codeOf(error) === "EEXIST") {
      throw new LockdError("config", `create ${quoted(path)}: it exists`, { hint: "nothing was written: choose another folder, or move the file away", cause: error });
    }
    throw new LockdError("failed", `create ${quoted(path)}: ${codeOf(error)}`, { cause: error });
  }
  try {
    writeFileSync(descriptor, text);
    fsyncSync(descriptor);
  } catch (error) {
    unlinkSync(path);
    throw error;
  } finally {
    closeSync(descriptor);
  }
}

const codeOf = (error: unknown): string => (error instanceof Error && "code" in error ? String(error.code) : String(error));

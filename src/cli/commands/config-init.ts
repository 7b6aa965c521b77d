/** `lockd config init`: prints a commented configuration file, or creates one. */
import { closeSync, fsyncSync, openSync, writeFileSync } from "node:fs";
import { coreSections } from "../../config/core-options.ts";
import { configTemplate } from "../../config/template.ts";
import { LockdError } from "../../errors.ts";
import { fileErrorCode, fileProblem } from "../../file-errors.ts";
import { quoted } from "../../text.ts";
import type { ProgramParts } from "../program-parts.ts";
import type { CommandModule } from "../types.ts";

/** It will hold names of secret files, and secrets later. */
const FILE_MODE = 0o600;

export function configInit({ catalog, coreOptions }: ProgramParts): CommandModule {
  return {
    async run({ positionals: [path], out }) {
      const plugins = await catalog.all();
      const text = configTemplate(coreOptions, [
        ...coreSections,
        ...plugins.map(({ plugin }) => ({ name: plugin.name, options: plugin.config ?? [] })),
      ]);
      if (path === undefined || path === "-") {
        await out.write(text);
      } else {
        create(path, text);
        out.note(`created ${path}`);
      }
      return 0;
    },
  };
}

/** Creates the file or throws LockdError `config`; never touches one that exists. */
function create(path: string, text: string): void {
  let descriptor: number;
  try {
    descriptor = openSync(path, "wx", FILE_MODE);
  } catch (error) {
    const code = fileErrorCode(error);
    if (code === "EEXIST") {
      throw new LockdError("config", `create ${quoted(path)}: it exists`, {
        hint: "`lockd config init` without a file prints to standard output",
        cause: error,
      });
    }
    throw new LockdError("config", `create ${quoted(path)}: ${fileProblem(error)}${code === null ? "" : ` (${code})`}`, { cause: error });
  }
  try {
    writeFileSync(descriptor, text);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Whether the configuration can be read as a server would, and what in it is dubious. */
import { statSync } from "node:fs";
import { ConfigReader } from "../../config/reader.ts";
import type { Config } from "../../config/types.ts";
import { LockdError } from "../../errors.ts";
import { originText } from "../origin-text.ts";
import { type Check, systemCode } from "./check.ts";

const OTHERS_MAY_WRITE = 0o022;
const OTHERS_MAY_USE = 0o077;
/** Options that name files which nobody else may read. */
const SECRET_FILES = ["tls-key", "secret-file", "token-file"];

/** `load` reads everything: file, environment and flags, with the sections of all plugins. */
export async function checkConfiguration(load: () => Promise<Config>): Promise<readonly Check[]> {
  let config: Config;
  try {
    config = await load();
  } catch (error) {
    if (!(error instanceof LockdError)) throw error;
    return [unreadable(error)];
  }
  const values = [config.core, ...config.sections.values()].flatMap((section) => [...section.values()]);
  const given = values.filter(({ origin }) => origin.kind !== "default").length;
  const source = config.file === null ? "no file" : config.file;
  const whole: Check = { check: "configuration", state: "ok", summary: `${source}, ${given} of ${values.length} options given`, details: { file: config.file, given } };
  return [whole, ...(config.file === null ? [] : fileChecks(config.file)), ...dubious(new ConfigReader(config.core))];
}

function unreadable(error: LockdError): Check {
  // a server's file is often for its user alone, and client commands pass it over
  const denied = systemCode(error.cause) === "EACCES";
  return {
    check: "configuration",
    state: denied ? "warning" : "failed",
    summary: error.message,
    hint: error.hint ?? (denied ? "client commands go on without it; run doctor as the user of the server to have it checked" : "`lockd config check` looks at the configuration alone"),
  };
}

function fileChecks(path: string): readonly Check[] {
  const { mode } = statSync(path);
  if ((mode & OTHERS_MAY_WRITE) === 0) return [];
  return [
    {
      check: "configuration-file",
      state: "warning",
      summary: `${path} can be written by others (mode ${octal(mode)}): whoever can, decides what lockd loads and runs`,
      hint: `chmod go-w ${path}`,
      details: { path, mode: octal(mode) },
    },
  ];
}

function dubious(values: ConfigReader): readonly Check[] {
  const checks: Check[] = SECRET_FILES.flatMap((option) => secretFileChecks(values, option));
  if (values.boolean("insecure")) {
    checks.push({
      check: "insecure",
      state: "warning",
      summary: `insecure is on (${originText(values.origin("insecure"))}): other machines may reach the server without saying who they are`,
      hint: "set secret-file, or tls-cert, tls-key and tls-ca, and drop insecure",
    });
  }
  if (values.boolean("trace-messages") || values.string("log-level") === "trace") {
    const option = values.boolean("trace-messages") ? "trace-messages" : "log-level";
    checks.push({
      check: "tracing",
      state: "warning",
      summary: `${option} traces every message (${originText(values.origin(option))}): logs grow fast`,
      hint: "for the time of a search only",
    });
  }
  return checks;
}

function secretFileChecks(values: ConfigReader, option: string): readonly Check[] {
  const path = values.stringOrNull(option);
  if (path === null) return [];
  const origin = originText(values.origin(option));
  try {
    const { mode } = statSync(path);
    if ((mode & OTHERS_MAY_USE) === 0) return [];
    return [
      {
        check: option,
        state: "warning",
        summary: `${path} (${origin}) can be used by others (mode ${octal(mode)})`,
        hint: `chmod go= ${path}`,
        details: { path, mode: octal(mode) },
      },
    ];
  } catch (error) {
    return [{ check: option, state: "failed", summary: `${path} (${origin}): ${systemCode(error) ?? String(error)}`, hint: `correct ${option}, or make the file readable for this user` }];
  }
}

const octal = (mode: number): string => (mode & 0o7777).toString(8).padStart(4, "0");

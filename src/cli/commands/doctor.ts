/** `lockd doctor`: what would keep lockd from working here, each with what to do about it. Changes nothing. */
import { realClock } from "../../clock/real.ts";
import { dataDirectory } from "../../config/data-directory.ts";
import { LockdError } from "../../errors.ts";
import { softwareVersion } from "../../version.ts";
import { printable } from "../../text.ts";
import { type Check, type CheckState, errorText } from "../doctor/check.ts";
import { checkClocks } from "../doctor/clocks.ts";
import { checkConfiguration } from "../doctor/configuration.ts";
import { checkDirectory, checkSync } from "../doctor/data-directory.ts";
import { checkEnvironment, checkLimits, checkSystem, checkVersion } from "../doctor/machine.ts";
import { checkServers } from "../doctor/servers.ts";
import type { CommandModule } from "../types.ts";

const COLOURS: Readonly<Record<CheckState, string>> = { ok: "\x1b[32m", warning: "\x1b[33m", failed: "\x1b[31m" };
const NO_COLOUR = "\x1b[0m";
const STATE_COLUMNS = 9;

export const doctor: CommandModule = {
  async run({ out, values, environment, loadConfig, connect }) {
    const software = await softwareVersion();
    const directory = () => ({ path: dataDirectory(values), given: values.given("data") });
    // all at the same time: each is bounded by itself, and so the whole is
    const groups = await Promise.all([
      attempt("version", () => checkVersion(software)),
      attempt("configuration", () => checkConfiguration(loadConfig)),
      attempt("environment", () => checkEnvironment(environment)),
      attempt("limits", () => checkLimits()),
      attempt("exec", checkSystem),
      attempt("data-directory", () => checkDirectory(directory())),
      attempt("sync", () => checkSync(directory())),
      attempt("clock", () => checkClocks(realClock())),
      attempt("server", () => checkServers({ values, connect }, software)),
    ]);
    const checks = groups.flat();
    const counts = { ok: 0, warning: 0, failed: 0 };
    for (const one of checks) {
      counts[one.state] += 1;
      const { check, state, summary, hint, details } = one;
      const word = state.padEnd(STATE_COLUMNS);
      const shown = out.colour ? `${COLOURS[state]}${word}${NO_COLOUR}` : word;
      const lines = [`${shown}${printable(check)}: ${printable(summary)}`, ...(hint === undefined ? [] : [`${" ".repeat(STATE_COLUMNS)}${printable(hint)}`])];
      await out.result({ check, state, summary, ...(hint === undefined ? {} : { hint }), ...details }, lines.join("\n"));
    }
    if (!out.json) await out.write(`${checks.length} checks: ${counts.ok} ok, ${counts.warning} warnings, ${counts.failed} failed\n`);
    return counts.failed === 0 ? 0 : 1;
  },
};

/** A check that breaks is one that failed: the others are told all the same. */
async function attempt(name: string, run: () => Check | readonly Check[] | Promise<Check | readonly Check[]>): Promise<readonly Check[]> {
  try {
    const checks = await run();
    return "check" in checks ? [checks] : checks;
  } catch (error) {
    if (error instanceof LockdError && error.code === "config") {
      return [{ check: name, state: "failed", summary: error.message, ...(error.hint === undefined ? {} : { hint: error.hint }) }];
    }
    return [{ check: name, state: "failed", summary: `could not be checked: ${errorText(error)}`, hint: "please report it, with this line" }];
  }
}

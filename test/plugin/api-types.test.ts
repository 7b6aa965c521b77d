import { expect, test } from "bun:test";
import type * as published from "lockd:api";
import type * as lock from "lockd:lock";
import type { LocksService } from "../../plugins/lock/server/locks-service.ts";
import type { CommandContext, CommandModule, CommandSpec, FlagSpec, PositionalSpec } from "../../src/cli/types.ts";
import type { LockdClient } from "../../src/client/client.ts";
import type { OptionSpec, OptionType } from "../../src/config/types.ts";
import type { ErrorCode } from "../../src/errors.ts";
import * as api from "../../src/plugin/api.ts";
import type { Host, Plugin, PluginInstance } from "../../src/plugin/types.ts";
import type { Connection, PeerIdentity } from "../../src/wire/types.ts";

/** Compiles only when both types are each other's; for the names of fields and for unions of words. */
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;
const same = <A, B>(equal: Same<A, B>): boolean => equal;

test("what authors give fits the code, and what the code gives fits what authors are told", () => {
  const given: readonly unknown[] = [
    (one: published.Plugin): Plugin => one,
    (one: Plugin): published.Plugin => one,
    (one: published.PluginInstance): PluginInstance => one,
    (one: published.CommandSpec): CommandSpec => one,
    (one: published.CommandModule): CommandModule => one,
    (one: published.OptionSpec): OptionSpec => one,
    (one: OptionSpec): published.OptionSpec => one,
    (one: FlagSpec): published.FlagSpec => one,
    (one: Host): published.Host => one,
    (one: CommandContext): published.CommandContext => one,
    (one: LockdClient): published.LockdClient => one,
    (one: Connection): published.Connection => one,
    (one: LocksService): lock.LocksService => one,
    (one: lock.LocksService): LocksService => one,
  ];
  expect(given).not.toBeEmpty();
});

test("no field is forgotten", () => {
  expect([
    same<keyof published.Plugin, keyof Plugin>(true),
    same<keyof published.PluginInstance, keyof PluginInstance>(true),
    same<keyof published.Host, keyof Host>(true),
    same<keyof published.CommandSpec, keyof CommandSpec>(true),
    same<keyof published.PositionalSpec, keyof PositionalSpec>(true),
    same<keyof published.CommandContext, keyof CommandContext>(true),
    same<keyof published.Connection, keyof Connection>(true),
    same<keyof published.Identity, keyof PeerIdentity>(true),
    same<keyof published.OptionSpec, keyof OptionSpec>(true),
    same<published.OptionType["type"], OptionType["type"]>(true),
    same<published.ErrorCode, ErrorCode>(true),
    same<keyof lock.LocksService, keyof LocksService>(true),
    same<keyof typeof published, keyof typeof api>(true),
  ]).not.toContain(false);
});

test("the module has what the types say, and its version is theirs", async () => {
  const module: typeof published = api;
  expect(Object.keys(module).sort()).toEqual(["API_VERSION", "LockdError", "clientOptions", "definePlugin", "readBoolean", "readBytes", "readInteger", "readText"]);
  for (const path of ["../../examples/plugins/lockd-api.d.ts", "../../docs/plugins.md"]) {
    expect(await Bun.file(new URL(path, import.meta.url)).text()).toMatch(new RegExp(`[Vv]ersion \\**${api.API_VERSION.replaceAll(".", "\\.")}\\b`));
  }
});

/** Where `unlock` and `renew` take their handle from: argument, stdin with `-`, or LOCKD_HANDLE. */
import type { CommandContext } from "../../../src/cli/types.ts";
import { LockdError } from "../../../src/errors.ts";

const HANDLE = /^[A-Za-z0-9_-]{16,64}$/;

/** The handle. Rejects with `usage` when there is none, or when what was given cannot be one. */
export async function readHandle(context: CommandContext, command: string): Promise<string> {
  const given = context.positionals[0] ?? context.environment["LOCKD_HANDLE"];
  if (given === undefined || given === "") {
    throw new LockdError("usage", `${command}: HANDLE is missing`, {
      hint: "give it as argument, with - on stdin, or in LOCKD_HANDLE; `lockd lock` printed it",
    });
  }
  // `lockd lock` prints HANDLE TOKEN: taking its whole line from stdin is convenient and harmless
  const handle = given === "-" ? (await Bun.stdin.text()).trim().split(/\s/)[0] ?? "" : given;
  if (!HANDLE.test(handle)) throw new LockdError("usage", `${command}: this is not a handle`, { hint: "`lockd lock` prints HANDLE TOKEN" });
  return handle;
}

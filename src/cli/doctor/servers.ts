/** Whether each server answers, as which version, whether it is ready, and how long a request takes. */
import type { LockdClient } from "../../client/client.ts";
import type { StatusBody } from "../../client/protocol.ts";
import { asLockdError, LockdError } from "../../errors.ts";
import type { CommandContext } from "../types.ts";
import { type Check, median, milliseconds, within } from "./check.ts";

/** For connection and HELLO; the library itself gives up after two seconds. */
const CONNECT_MS_MAX = 2500;
/** For all the requests behind it. */
const ASK_MS_MAX = 1200;
const CLOSE_MS_MAX = 300;
const ROUND_TRIPS = 9;

/** All addresses at the same time. */
export async function checkServers({ values, connect }: Pick<CommandContext, "values" | "connect">, software: string): Promise<readonly Check[]> {
  const addresses = [...new Set(values.list("connect"))];
  const given = values.given("connect");
  return Promise.all(addresses.map((address) => checkServer(address, { given, software, connect })));
}

interface Expected {
  given: boolean;
  software: string;
  connect: CommandContext["connect"];
}

async function checkServer(address: string, { given, software, connect }: Expected): Promise<Check> {
  const check = `server ${address}`;
  const opening = connect({ servers: [address], program: "lockd doctor", signal: AbortSignal.timeout(CONNECT_MS_MAX) });
  let client: LockdClient | null;
  try {
    client = await within(CONNECT_MS_MAX + 100, opening, null);
    if (client === null) throw new LockdError("unavailable", `connect to ${address}: no answer within ${CONNECT_MS_MAX} ms`);
  } catch (thrown) {
    const error = asLockdError(thrown);
    // nobody said that a server has to be at the default address
    const missing = error.code === "unavailable" && !given;
    return {
      check,
      state: missing ? "warning" : "failed",
      summary: error.message,
      hint: error.hint ?? (missing ? "name your servers with --connect or LOCKD_CONNECT" : "see docs/operations.md"),
      details: { address, error: error.code },
    };
  }
  try {
    return await within(ASK_MS_MAX, askServer(client, { check, address, software }), late({ check, address }));
  } catch (thrown) {
    const error = asLockdError(thrown);
    return { check, state: error.code === "denied" ? "warning" : "failed", summary: error.message, hint: error.hint ?? "the server's log may say more", details: { address, error: error.code } };
  } finally {
    await within(CLOSE_MS_MAX, client.close(), null);
  }
}

const late = ({ check, address }: { check: string; address: string }): Check => ({
  check,
  state: "failed",
  summary: `${address} took the connection, but has not answered within ${ASK_MS_MAX} ms`,
  hint: "the server is stopped, overloaded or cut off: look at its log and its processor",
  details: { address, error: "unavailable" },
});

async function askServer(client: LockdClient, { check, address, software }: { check: string; address: string; software: string }): Promise<Check> {
  const times: number[] = [];
  let status = await client.status();
  for (let turn = 0; turn < ROUND_TRIPS; turn += 1) {
    const startMs = performance.now();
    status = await client.status();
    times.push(performance.now() - startMs);
  }
  return judgeServer({ check, address, software, status, roundTripMs: median(times) });
}

export interface ServerFacts {
  check: string;
  address: string;
  /** version of this program */
  software: string;
  status: Pick<StatusBody, "name" | "mode" | "version" | "ready" | "reason">;
  roundTripMs: number;
}

/** What to say of a server that answers. */
export function judgeServer({ check, address, software, status, roundTripMs }: ServerFacts): Check {
  const { name, mode, version, ready, reason } = status;
  const details = { address, name, mode, version, ready, roundTripMs };
  const facts = `node ${name}, lockd ${version}, mode ${mode}, round trip ${milliseconds(roundTripMs)}`;
  if (!ready) return { check, state: "failed", summary: `${facts}: not ready${reason === null ? "" : `, ${reason}`}`, hint: "it may be starting: ask again, and look at its log", details };
  if (version !== software) return { check, state: "warning", summary: `${facts}: this is lockd ${software}`, hint: "run the same version on servers and clients", details };
  return { check, state: "ok", summary: `${facts}, ready`, details };
}

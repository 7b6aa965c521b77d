/** `lockd status`: the server's own account of itself; exit code 69 when it is not ready. */
import { formatDuration, printable } from "../../../src/cli/format.ts";
import type { CommandContext } from "../../../src/cli/types.ts";
import type { StatusBody } from "../../../src/client/protocol.ts";
import { withClient } from "./with-client.ts";

/** The exit code of `unavailable`; the answer itself is a result, not an error. */
const NOT_READY = 69;

export function run(context: CommandContext): Promise<number> {
  return withClient(context, { program: "lockd status" }, async (client) => {
    const status = await client.status();
    await context.out.result({ ...status }, statusText(status));
    return status.ready ? 0 : NOT_READY;
  });
}

function statusText(status: StatusBody): string {
  const { cluster } = status;
  const ready = status.ready ? "ready" : `not ready: ${status.reason ?? "for an unknown reason"}`;
  const lines = [
    `${printable(status.name)}: ${status.mode}, lockd ${status.version}, ${ready}`,
    // one node says nothing of a cluster that its own line does not say
    ...(cluster.size === 1 ? [] : clusterLines(status)),
    `${status.tickets} ticket${status.tickets === 1 ? "" : "s"}, ${status.waiting} waiting; up ${formatDuration(status.uptime)}`,
  ];
  return `${lines.join("\n")}\n`;
}

function clusterLines({ cluster, leaders }: StatusBody): string[] {
  return [
    `cluster ${cluster.id}: ${cluster.size} members, quorum ${cluster.quorum}, leaders ${leaders.map(printable).join(", ")}`,
    ...cluster.members.map((member) => `  ${printable(member.name)}  ${member.address}  ${member.role}  ${member.connected ? "connected" : "not connected"}`),
  ];
}

/** Lines for the log on SIGUSR1 (summary) and SIGUSR2 (every ticket, without handles). Pure. */
import type { LockTable } from "../core/table.ts";

/** Tickets written by SIGUSR2 at most: the log must not become the load. */
const TICKETS_MAX = 10_000;

export function describeTable(table: LockTable, nowMs: number, detail: "summary" | "full"): string[] {
  const { objects, held, waiting, sessions, lastToken, lastNumber } = table.statistics();
  const lines = [`objects=${objects} held=${held} waiting=${waiting} sessions=${sessions} lastToken=${lastToken} lastNumber=${lastNumber}`];
  if (detail === "summary") return lines;
  const { tickets, next } = table.list({ prefix: "", after: null, limit: TICKETS_MAX });
  for (const ticket of tickets) {
    const { name, host, pid } = ticket.holder;
    const end = ticket.expiresMs === undefined ? "" : ` endsInMs=${ticket.expiresMs - nowMs}`;
    const token = ticket.token === undefined ? "" : ` token=${ticket.token}`;
    const place = ticket.position === undefined ? "" : ` position=${ticket.position}`;
    const holder = JSON.stringify(`${name}@${host}:${pid}`);
    lines.push(`object=${JSON.stringify(ticket.object)} ticket=${ticket.ticket} state=${ticket.state} mode=${ticket.mode} holder=${holder}${token}${place}${end}`);
  }
  if (next !== null) lines.push(`and more: only the first ${TICKETS_MAX} tickets are shown`);
  return lines;
}

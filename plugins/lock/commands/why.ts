/** `lockd why OBJECT`: holder, queue, deadlock and the last events of one object, in sentences. */
import { formatDuration, formatIso, printable } from "../../../src/cli/format.ts";
import type { CommandContext } from "../../../src/cli/types.ts";
import type { TicketBody, WhyBody } from "../../../src/client/protocol.ts";
import { eventJson, eventText, holderText, ticketJson } from "./format.ts";
import { withClient } from "./with-client.ts";

const WAITERS_SHOWN_MAX = 20;

export function run(context: CommandContext): Promise<number> {
  const [object = ""] = context.positionals;
  return withClient(context, { program: "lockd why" }, async (client) => {
    const why = await client.why(object);
    await context.out.result(whyJson(why, Date.now()), whyText(why));
    return 0;
  });
}

function whyJson(why: WhyBody, receivedMs: number): Record<string, unknown> {
  return {
    object: why.object,
    holders: why.holders.map((ticket) => ticketJson(ticket, receivedMs)),
    waiters: why.waiters.map((ticket) => ticketJson(ticket, receivedMs)),
    waitersTotal: why.waitersTotal,
    ...(why.delayLeft === undefined ? {} : { freeAt: formatIso(receivedMs + why.delayLeft) }),
    cycle: why.cycle,
    events: why.events.map(eventJson),
  };
}

function whyText(why: WhyBody): string {
  const lines = [...why.holders.map(holdsText), ...delayText(why)];
  if (lines.length === 0) lines.push(`${printable(why.object)} is free`);
  for (const ticket of why.waiters.slice(0, WAITERS_SHOWN_MAX)) lines.push(waitsText(ticket));
  const more = why.waitersTotal - Math.min(why.waiters.length, WAITERS_SHOWN_MAX);
  if (more > 0) lines.push(`and ${more} more wait`);
  if (why.cycle.length > 0) {
    lines.push("deadlock:");
    for (const edge of why.cycle) lines.push(`  ${holderText(edge.waiter)} waits for ${printable(edge.object)}, held by ${holderText(edge.holder)}`);
  }
  if (why.events.length > 0) lines.push("last events:", ...why.events.map((event) => `  ${eventText(event)}`));
  return `${lines.join("\n")}\n`;
}

function delayText(why: WhyBody): string[] {
  if (why.delayLeft === undefined || why.delayLeft <= 0) return [];
  return [`${printable(why.object)} is kept free for another ${formatDuration(why.delayLeft)} (lock-delay after a loss)`];
}

function holdsText(ticket: TicketBody): string {
  const leaving = ticket.state === "unlocking";
  const left = leaving
    ? `was told to leave, out in ${formatDuration(Math.max(0, ticket.freeIn ?? 0))}`
    : `${formatDuration(Math.max(0, ticket.expiresIn ?? 0))} left unless renewed`;
  const value = ticket.value === undefined ? "" : `, value ${printable(ticket.value)}`;
  const mode = ticket.mode === "exclusive" ? "" : `, ${ticket.mode}`;
  const since = `for ${formatDuration(Math.max(0, ticket.sinceAgo))}`;
  return `${printable(ticket.object)} is held by ${holderText(ticket.holder)}, ${since}, token ${ticket.token ?? "none"}${mode}, ${left}${value}`;
}

function waitsText(ticket: TicketBody): string {
  const place = ticket.position === undefined ? "-" : String(ticket.position);
  const until = ticket.waitLeft === undefined ? "" : `, gives up in ${formatDuration(Math.max(0, ticket.waitLeft))}`;
  return `${place}. ${holderText(ticket.holder)} waits for ${formatDuration(Math.max(0, ticket.sinceAgo))}, ${ticket.mode}${until}`;
}

/**
 * Tickets, holders and events as the command line shows them: JSON objects of the command-line
 * contract and lines for people. Relative times of the wire become ISO times by the local clock,
 * for reading only. Pure functions.
 */
import type { EventBody, HolderBody, TicketBody } from "../../../src/client/protocol.ts";
import { formatDuration, printable } from "../../../src/cli/format.ts";

export type Json = Record<string, unknown>;

const iso = (wallMs: number): string => new Date(wallMs).toISOString();

/** The `list --json` object. `receivedMs` is the wall clock at the answer. */
export function ticketJson(ticket: TicketBody, receivedMs: number): Json {
  const json: Json = {
    object: ticket.object,
    ticket: ticket.ticket,
    state: ticket.state,
    mode: ticket.mode,
    holder: ticket.holder,
    detached: ticket.detached,
    since: iso(receivedMs - ticket.sinceAgo),
  };
  if (ticket.token !== undefined) json["token"] = ticket.token;
  if (ticket.permits !== undefined) json["permits"] = ticket.permits;
  if (ticket.count !== undefined) json["count"] = ticket.count;
  if (ticket.expiresIn !== undefined) json["expires"] = iso(receivedMs + ticket.expiresIn);
  if (ticket.freeIn !== undefined) json["freeAt"] = iso(receivedMs + ticket.freeIn);
  if (ticket.waitLeft !== undefined) json["waitDeadline"] = iso(receivedMs + ticket.waitLeft);
  if (ticket.position !== undefined) json["position"] = ticket.position;
  if (ticket.value !== undefined) json["value"] = ticket.value;
  return json;
}

/** The `events --json` and `list --watch --json` object. */
export function eventJson(event: EventBody): Json {
  const json: Json = {
    id: event.id,
    time: iso(event.time),
    event: event.event,
    object: event.object,
    ticket: event.ticket,
    mode: event.mode,
    holder: event.holder,
  };
  if (event.token !== undefined) json["token"] = event.token;
  if (event.waited !== undefined) json["waitedMs"] = event.waited;
  if (event.held !== undefined) json["heldMs"] = event.held;
  if (event.reason !== undefined) json["reason"] = event.reason;
  if (event.value !== undefined) json["value"] = event.value;
  return json;
}

/** `name on host, pid 7, program` for a sentence. */
export function holderText(holder: HolderBody): string {
  const program = holder.commandLine ?? holder.program;
  return printable(`${holder.name} on ${holder.host}, pid ${holder.pid}${program === "" ? "" : `, ${program}`}`);
}

/** One line of `lockd events`. */
export function eventText(event: EventBody): string {
  const details = [
    event.token === undefined ? "" : `token ${event.token}`,
    event.waited === undefined ? "" : `waited ${formatDuration(event.waited)}`,
    event.held === undefined ? "" : `held ${formatDuration(event.held)}`,
    event.reason === undefined ? "" : printable(event.reason),
    event.value === undefined ? "" : `now ${printable(event.value)}`,
  ].filter((detail) => detail !== "");
  const tail = details.length === 0 ? "" : `  (${details.join(", ")})`;
  return `${event.id}  ${iso(event.time)}  ${event.event.padEnd(9)}  ${printable(event.object)}  ${holderText(event.holder)}${tail}`;
}

/** The table of `lockd list`, header first; a column of values only when one is shown. */
export function listRows(tickets: readonly TicketBody[]): readonly (readonly string[])[] {
  if (tickets.every(({ value }) => value === undefined)) return [LIST_COLUMNS, ...tickets.map(listRow)];
  return [[...LIST_COLUMNS, "VALUE"], ...tickets.map((ticket) => [...listRow(ticket), ticket.value ?? "-"])];
}

const LIST_COLUMNS: readonly string[] = ["OBJECT", "STATE", "MODE", "HOLDER", "PID", "PROGRAM", "TOKEN", "FOR", "LEFT", "POS"];

function listRow(ticket: TicketBody): readonly string[] {
  const left = ticket.state === "waiting" ? ticket.waitLeft : ticket.state === "unlocking" ? ticket.freeIn : ticket.expiresIn;
  return [
    ticket.object,
    ticket.state,
    ticket.mode === "semaphore" ? `${ticket.mode} ${ticket.count ?? 1}/${ticket.permits ?? 1}` : ticket.mode,
    `${ticket.holder.name}@${ticket.holder.host}`,
    String(ticket.holder.pid),
    ticket.holder.commandLine ?? ticket.holder.program,
    ticket.token === undefined ? "-" : String(ticket.token),
    formatDuration(Math.max(0, ticket.sinceAgo)),
    left === undefined ? "-" : formatDuration(Math.max(0, left)),
    ticket.position === undefined ? "-" : String(ticket.position),
  ];
}

/**
 * Schemas of the answers that people ask for: listings, history, status. Unknown fields are dropped.
 * The answers of the hot path are checked in answers.ts.
 */
import * as v from "valibot";
import { LockdError } from "../errors.ts";
import type { Body } from "../wire/types.ts";
import type {
  EventBody,
  EventsBody,
  KickedBody,
  ReleasingBody,
  SessionListBody,
  StatusBody,
  TicketListBody,
  WhyBody,
} from "./protocol.ts";

const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const milliseconds = v.pipe(v.number(), v.finite());
const mode = v.picklist(["exclusive", "shared", "semaphore"]);

const holder = v.object({
  name: v.string(),
  host: v.string(),
  pid: count,
  program: v.string(),
  address: v.string(),
  session: v.string(),
  commandLine: v.exactOptional(v.string()),
});

const ticket = v.object({
  object: v.string(),
  ticket: v.string(),
  state: v.string(),
  mode,
  permits: v.exactOptional(count),
  count: v.exactOptional(count),
  holder,
  detached: v.boolean(),
  token: v.exactOptional(count),
  sinceAgo: milliseconds,
  expiresIn: v.exactOptional(milliseconds),
  freeIn: v.exactOptional(milliseconds),
  waitLeft: v.exactOptional(milliseconds),
  position: v.exactOptional(count),
  value: v.exactOptional(v.string()),
});

const event = v.object({
  id: count,
  time: milliseconds,
  event: v.string(),
  object: v.string(),
  ticket: v.string(),
  mode,
  holder,
  token: v.exactOptional(count),
  waited: v.exactOptional(milliseconds),
  held: v.exactOptional(milliseconds),
  reason: v.exactOptional(v.string()),
  value: v.exactOptional(v.string()),
});

const ticketList = v.object({ tickets: v.array(ticket), next: v.nullable(v.tuple([v.string(), count])) });

const events = v.object({ events: v.array(event), oldest: count, next: count });

const why = v.object({
  object: v.string(),
  holders: v.array(ticket),
  waiters: v.array(ticket),
  waitersTotal: count,
  delayLeft: v.exactOptional(milliseconds),
  cycle: v.array(v.object({ waiter: holder, object: v.string(), holder })),
  events: v.array(event),
});

const sessionList = v.object({
  sessions: v.array(
    v.object({
      session: v.string(),
      holder,
      generation: count,
      connected: v.boolean(),
      heardAgo: milliseconds,
      grace: milliseconds,
      held: count,
      waiting: count,
    }),
  ),
  next: v.nullable(v.string()),
});

const status = v.object({
  name: v.string(),
  mode: v.string(),
  version: v.string(),
  ready: v.boolean(),
  reason: v.nullable(v.string()),
  readyIn: v.nullable(milliseconds),
  cluster: v.object({
    id: v.string(),
    size: count,
    quorum: count,
    members: v.array(
      v.object({
        name: v.string(),
        address: v.string(),
        role: v.string(),
        connected: v.boolean(),
        version: v.string(),
        lag: milliseconds,
      }),
    ),
  }),
  leaders: v.array(v.string()),
  epoch: count,
  term: count,
  commit: count,
  applied: count,
  tickets: count,
  waiting: count,
  uptime: milliseconds,
});

const kicked = v.object({ tickets: count });

const releasing = v.object({ holder, freeIn: milliseconds });

function parserOf<T>(type: string, schema: v.GenericSchema<unknown, T>): (body: Body) => T {
  return (body) => {
    const result = v.safeParse(schema, body, { abortEarly: true });
    if (result.success) return result.output;
    const [issue] = result.issues;
    const path = v.getDotPath(issue);
    throw new LockdError("protocol", `read ${type}: ${path === null ? "" : `${path}: `}${issue.message}`);
  };
}

/** Each checks a body and gives it its type; throws LockdError `protocol` with the path of the bad field. */
export const parseTicketList: (body: Body) => TicketListBody = parserOf("TICKETLIST", ticketList);
export const parseEvents: (body: Body) => EventsBody = parserOf("EVENTS", events);
export const parseEvent: (body: Body) => EventBody = parserOf("EVENT", event);
export const parseWhy: (body: Body) => WhyBody = parserOf("WHY", why);
export const parseSessionList: (body: Body) => SessionListBody = parserOf("SESSIONS", sessionList);
export const parseStatus: (body: Body) => StatusBody = parserOf("STATUS", status);
export const parseKicked: (body: Body) => KickedBody = parserOf("KICKED", kicked);
export const parseReleasing: (body: Body) => ReleasingBody = parserOf("RELEASING", releasing);

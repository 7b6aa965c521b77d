/** Limits whose numbers follow from something else. */
import { expect, test } from "bun:test";
import { lockOptions, TICKETS_PER_SESSION_MAX } from "../../../plugins/lock/options.ts";
import type { OwnTicket } from "../../../plugins/lock/core/types.ts";
import { sessionTicket } from "../../../plugins/lock/server/bodies.ts";
import { FrameEncoder } from "../../../src/wire/frame.ts";

test("a session with as many tickets as it may have can be taken over: what it hears fits one frame", () => {
  const most = Number.MAX_SAFE_INTEGER;
  const week = 7 * 86_400_000;
  const ticket = (nameBytes: number): OwnTicket => {
    const [request, objects] = ["9".repeat(10), ["n".repeat(nameBytes)]];
    const grant = { request, objects, handle: "h".repeat(25), token: most, leftMs: week, durationMs: week, unlockDurationMs: 3_600_000, message: most, grantNumber: most };
    return { request, objects, state: "unlocking", grant: { session: "s".repeat(22), ...grant } };
  };
  const answer = (count: number, nameBytes: number) => {
    const body = { session: "s".repeat(22), generation: most, grace: week, resumed: true, tickets: Array(count).fill(sessionTicket(ticket(nameBytes))) };
    new FrameEncoder().append("SESSION", 1, body);
  };
  for (const nameBytes of [64, 100]) expect(() => answer(TICKETS_PER_SESSION_MAX, nameBytes)).not.toThrow();
  // the frame is what limits it: a fourth more would not fit
  expect(() => answer(TICKETS_PER_SESSION_MAX * 1.25, 64)).toThrow("fit a frame");
  expect(lockOptions.find(({ name }) => name === "tickets-per-session-max")).toMatchObject({ default: TICKETS_PER_SESSION_MAX, max: TICKETS_PER_SESSION_MAX });
});

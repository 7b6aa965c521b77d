/** A lock granted after a wait, whose lease counts from a keep-alive long before the grant. */
import { describe, expect, test } from "bun:test";
import { kinds, SessionBench } from "./session-bench.ts";

/** The bench's client sends a keep-alive every 2 s while it only waits: a lease that is shorter is nearly over. */
const SHORT = { duration: 1_500, left: 1_500 };

describe("a grant whose deadline is near", () => {
  test("is renewed at once, and not lost before the next keep-alive", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock(null, { duration: SHORT.duration });
    bench.answerSession();
    bench.advance(2_000);
    bench.answerRenew();
    const keepAlive = bench.last("RENEW");
    bench.advance(1_000);
    bench.receive("LOCKED", 0, { ...bench.grant(asked, { ...SHORT, processed: keepAlive.id }) });
    expect(kinds(asked)).toEqual(["granted"]);
    bench.advance(1);
    expect(bench.last("RENEW").id).toBeGreaterThan(keepAlive.id);
    bench.answerRenew();
    bench.advance(450);
    expect(kinds(asked)).toEqual(["granted", "renewed"]);
  });

  test("at most a third past is renewed with the others of its session", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock(null, { duration: SHORT.duration });
    bench.answerSession();
    bench.receive("LOCKED", 0, { ...bench.grant(asked, { ...SHORT, processed: asked.ticket.lockId }) });
    bench.advance(400);
    expect(bench.news()).not.toContain("RENEW");
    bench.advance(200);
    expect(bench.news()).toContain("RENEW");
  });
});

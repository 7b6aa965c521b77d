import { describe, expect, test } from "bun:test";
import type { LockedBody } from "../../src/client/protocol.ts";
import { LockdError } from "../../src/errors.ts";
import type { Body } from "../../src/wire/types.ts";
import { error, kinds, lastTold, SessionBench } from "./session-bench.ts";

const locked = (grant: LockedBody): Body => ({ request: grant.request, objects: grant.objects, state: "locked", grant: { ...grant } });

describe("going on over a new connection", () => {
  test("shows the same secret with a higher generation, and sends nothing else before the answer", () => {
    const bench = new SessionBench().connect();
    bench.held();
    bench.lock(null, { objects: ["y"] });
    bench.disconnect();
    bench.news();
    bench.connect();
    expect(bench.news()).toEqual(["SESSION"]);
    const [first, second] = bench.of("SESSION");
    expect(second?.body).toEqual({ ...first?.body, generation: 2 });
  });

  test("keeps what is held and renews it at once", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.disconnect();
    bench.advance(3000);
    bench.connect();
    bench.answerSession([locked(lock.grant)]);
    expect(bench.news().slice(-1)).toEqual(["RENEW"]);
    const renewedMs = bench.nowMs;
    bench.answerRenew();
    expect(lastTold(lock, "renewed").deadlineMs).toBe(renewedMs + 9750);
  });

  test("delivers a grant whose LOCKED was lost", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    const grant = bench.grant(asked, { processed: asked.ticket.lockId });
    const sentMs = bench.nowMs;
    bench.disconnect();
    bench.advance(1000);
    bench.connect();
    bench.answerSession([locked({ ...grant, left: 9000 })]);
    // pessimistic twice: what is left now, counted from the old message
    expect(lastTold(asked, "granted").deadlineMs).toBe(sentMs + 9000 * 0.98 - 50);
    expect(bench.of("LOCK")).toHaveLength(1);
  });

  test("confirms by a renewal a lost grant of which nobody can say how long it still runs", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    const grant = bench.grant(asked, { processed: asked.ticket.lockId });
    bench.disconnect();
    bench.advance(6000);
    bench.connect();
    bench.answerSession([locked({ ...grant, left: 4000 })]);
    expect(kinds(asked)).toEqual([]);
    const renewedMs = bench.nowMs;
    bench.answerRenew();
    expect(lastTold(asked, "granted").deadlineMs).toBe(renewedMs + 9750);
  });

  test("loses what the server does not list any more", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.disconnect();
    bench.connect();
    bench.answerSession([]);
    expect(lastTold(lock, "lost").error.reason).toBe("revoked");
  });

  test("loses what the server is about to pass on", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.disconnect();
    bench.connect();
    bench.answerSession([{ ...locked(lock.grant), state: "unlocking" }]);
    expect(lastTold(lock, "lost").error.reason).toBe("expired");
  });

  test("ends the claim to what was lost meanwhile and is not listed as held", () => {
    const bench = new SessionBench().connect();
    const lost = bench.held(1000, { unlockDuration: 60_000 });
    const kept = bench.held(30_000, { objects: ["y"] });
    bench.disconnect();
    bench.advance(3000);
    expect(kinds(lost)).toEqual(["granted", "lost"]);
    bench.connect();
    bench.answerSession([{ ...locked(lost.grant), state: "unlocking" }, locked(kept.grant)]);
    expect(bench.last("RENEW").body["count"]).toBe(1);
  });

  test("goes on claiming what was lost meanwhile and is still listed as held, so that its holder has time to stop", () => {
    const bench = new SessionBench().connect();
    const lost = bench.held(1000, { unlockDuration: 60_000 });
    bench.disconnect();
    bench.advance(3000);
    bench.connect();
    bench.answerSession([locked(lost.grant)]);
    expect(bench.last("RENEW").body["count"]).toBe(1);
    bench.answerRenew();
    expect(kinds(lost)).toEqual(["granted", "lost"]);
  });

  test("keeps a detached lock that is not listed: it belongs to its handle", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held(30_000, { detached: true });
    bench.disconnect();
    bench.connect();
    bench.answerSession([]);
    expect(kinds(lock)).toEqual(["granted"]);
  });

  test("asks again for what is not listed, with the same request id and the wait that is left", () => {
    const bench = new SessionBench().connect();
    const limited = bench.lock(10_000, { objects: ["a"] });
    const endless = bench.lock(null, { objects: ["b"] });
    bench.answerSession();
    bench.disconnect();
    bench.advance(4000);
    bench.connect();
    bench.answerSession([], false);
    const [firstA, firstB, againA, againB] = bench.of("LOCK");
    expect(againA?.body).toEqual({ ...firstA?.body, wait: 6000 });
    expect(againB?.body).toEqual({ ...firstB?.body, wait: null });
    bench.receive("LOCKED", limited.ticket.lockId, { ...bench.grant(limited) });
    bench.receive("LOCKED", endless.ticket.lockId, { ...bench.grant(endless) });
    expect([...kinds(limited), ...kinds(endless)]).toEqual(["granted", "granted"]);
  });

  test("does not ask again for what waits in the queue, which would be a second ticket at another server", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    bench.disconnect();
    bench.connect();
    bench.answerSession([{ request: asked.ticket.body.request, objects: ["x"], state: "waiting" }]);
    expect(bench.of("LOCK")).toHaveLength(1);
    bench.receive("LOCKED", 0, { ...bench.grant(asked) });
    expect(kinds(asked)).toEqual(["granted"]);
  });

  test("asks anew for a grant that was lost and has run out meanwhile", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    const grant = bench.grant(asked);
    bench.disconnect();
    bench.connect();
    bench.answerSession([{ ...locked(grant), state: "unlocking" }]);
    expect(bench.last("UNLOCK").body).toEqual({ request: grant.request });
    expect(bench.last("LOCK").body["request"]).not.toBe(grant.request);
  });

  test("gives back what nobody here knows", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.disconnect();
    bench.connect();
    const stranger = { ...lock.grant, request: "ghost", handle: "ghost-handle", token: 999, grant: 50 };
    bench.answerSession([locked(lock.grant), locked(stranger), { request: "old", objects: ["o"], state: "waiting" }]);
    expect(bench.of("UNLOCK").map((frame) => frame.body)).toEqual([{ handle: "ghost-handle" }, { request: "old" }]);
    expect(kinds(lock)).toEqual(["granted"]);
  });

  test("repeats the release that was under way, listed or not", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.session.release(lock.ticket, bench.nowMs);
    bench.disconnect();
    bench.connect();
    bench.answerSession([locked(lock.grant)]);
    expect(bench.last("UNLOCK").body).toEqual({ handle: lock.grant.handle });
    // the renewal behind it does not claim it
    expect(bench.last("RENEW").body["count"]).toBe(0);
    bench.receive("UNLOCKED", lock.ticket.unlockId, { token: lock.grant.token, held: true });
    expect(lastTold(lock, "released").error).toBeNull();
  });

  test("is done with a cancelled request that the server does not list", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    const reason = new LockdError("cancelled", "enough");
    bench.disconnect();
    bench.session.cancel(asked.ticket, reason, bench.nowMs);
    bench.connect();
    bench.answerSession([]);
    expect(lastTold(asked, "failed").error).toBe(reason);
    expect(bench.session.active).toBe(false);
  });

  test("accepts requests of the program while it is under way", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.disconnect();
    bench.connect();
    const meanwhile = bench.lock(null, { objects: ["new"] });
    expect(bench.news().slice(-2)).toEqual(["SESSION", "LOCK"]);
    bench.answerSession([locked(lock.grant)]);
    expect(bench.of("LOCK")).toHaveLength(2);
    bench.receive("LOCKED", meanwhile.ticket.lockId, { ...bench.grant(meanwhile) });
    expect([...kinds(lock), ...kinds(meanwhile)]).toEqual(["granted", "granted"]);
  });

  test("never accepts a grant that was disowned before", () => {
    const bench = new SessionBench().connect();
    const waiting = bench.lock(null, { objects: ["lost"] });
    bench.answerSession();
    const grant = bench.grant(waiting);
    const other = bench.held(10_000, { objects: ["other"] });
    bench.advance(2000);
    bench.answerRenew({ mismatch: true });
    bench.disconnect();
    bench.connect();
    bench.answerSession([locked(other.grant), locked(grant)]);
    expect(kinds(waiting)).toEqual([]);
    expect(bench.last("UNLOCK").body).toEqual({ handle: grant.handle });
  });

  test("does not blame the network any more for what the server refuses", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.advance(2000);
    bench.disconnect();
    bench.connect();
    bench.answerSession([locked(lock.grant)]);
    while (!kinds(lock).includes("lost")) {
      for (const renew of bench.of("RENEW").slice(1)) bench.receive("ERROR", renew.id, error("failed"));
      bench.advance(50);
    }
    expect(lastTold(lock, "lost").error.reason).toBe("expired");
  });

  test("that fails again and again ends in the loss of the lock in time", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    const grantedMs = bench.nowMs;
    while (bench.nowMs < grantedMs + 9750) {
      bench.disconnect();
      bench.advance(50);
      bench.connect();
    }
    expect(kinds(lock)).toEqual(["granted", "lost"]);
  });
});

describe("a session that the server does not let go on", () => {
  test("is replaced by a new one: held locks are lost, waiting requests wait on", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    const waiting = bench.lock(null, { objects: ["y"] });
    bench.disconnect();
    bench.connect();
    bench.receive("ERROR", bench.last("SESSION").id, error("denied"));
    expect(lastTold(lock, "lost").error.reason).toBe("revoked");
    expect(bench.last("SESSION").body).toMatchObject({ session: "session-2", generation: 1 });
    bench.answerSession();
    bench.receive("LOCKED", waiting.ticket.lockId, { ...bench.grant(waiting, { grant: 1 }) });
    expect(kinds(waiting)).toEqual(["granted"]);
  });

  test("leaves its grant numbers behind: those of the new one start again and are accepted", () => {
    const bench = new SessionBench().connect();
    bench.held();
    bench.held(10_000, { objects: ["y"] });
    bench.advance(2000);
    bench.answerRenew({ mismatch: true });
    const waiting = bench.lock(null, { objects: ["z"] });
    bench.disconnect();
    bench.connect();
    bench.receive("ERROR", bench.last("SESSION").id, error("denied"));
    bench.answerSession();
    bench.receive("LOCKED", waiting.ticket.lockId, { ...bench.grant(waiting, { grant: 1 }) });
    expect(kinds(waiting)).toEqual(["granted"]);
    bench.advance(2000);
    expect(bench.last("RENEW").body["seen"]).toBe(1);
  });

  test("and whose successor is refused, too, fails what waits instead of trying for ever", () => {
    const bench = new SessionBench().connect();
    bench.held();
    const waiting = bench.lock(null, { objects: ["y"] });
    bench.disconnect();
    bench.connect();
    bench.receive("ERROR", bench.last("SESSION").id, error("denied"));
    bench.receive("ERROR", bench.last("SESSION").id, error("denied"));
    expect(lastTold(waiting, "failed").error.code).toBe("denied");
  });
});

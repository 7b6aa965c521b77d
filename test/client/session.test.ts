import { describe, expect, test } from "bun:test";
import { LockFailedError, LockLostError } from "../../src/client/errors.ts";
import { tokenDigest } from "../../src/client/protocol.ts";
import { LockdError } from "../../src/errors.ts";
import { error, kinds, lastTold, lockdError, SessionBench } from "./session-bench.ts";

/** What a lease of 10 s is worth, margin taken off. */
const TEN_SECONDS_USABLE = 9_750;

describe("opening", () => {
  test("no session is opened before a lock is wanted", () => {
    const bench = new SessionBench().connect();
    bench.advance(60_000);
    expect(bench.sent).toEqual([]);
  });

  test("the first LOCK follows SESSION without waiting for its answer", () => {
    const bench = new SessionBench().connect();
    bench.lock();
    expect(bench.news()).toEqual(["SESSION", "LOCK"]);
    expect(bench.last("SESSION").body).toMatchObject({ session: "session-1", generation: 1, grace: 6000 });
  });

  test("what is asked while there is no connection is sent when there is one", () => {
    const bench = new SessionBench();
    const asked = bench.lock(5000);
    bench.advance(2000);
    bench.connect();
    expect(bench.news()).toEqual(["SESSION", "LOCK"]);
    expect(bench.last("LOCK").body["wait"]).toBe(3000);
    expect(asked.told).toEqual([]);
  });

  test("a SESSION that is not answered leads to another connection", () => {
    const bench = new SessionBench().connect();
    bench.lock();
    bench.advance(2999);
    expect(bench.reconnects).toEqual([]);
    bench.advance(1);
    expect(bench.reconnects.map((reason) => reason.code)).toEqual(["unavailable"]);
  });

  test("a refusal of the first session fails what waits, with the server's reason", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.receive("ERROR", bench.last("SESSION").id, error("denied"));
    expect(lastTold(asked, "failed").error.code).toBe("denied");
    expect(bench.session.active).toBe(false);
  });

  test("a server that is not ready yet is asked again over another connection, and the request waits on", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.receive("ERROR", bench.last("SESSION").id, error("unavailable"));
    expect(bench.reconnects).toHaveLength(1);
    bench.connect();
    bench.answerSession();
    bench.receive("LOCKED", 0, { ...bench.grant(asked) });
    expect(kinds(asked)).toEqual(["granted"]);
  });
});

describe("the deadline of a lock", () => {
  test("counts from the send of the message that the server had processed, not from the answer", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    const sentMs = bench.nowMs;
    bench.answerSession();
    bench.advance(1500);
    bench.receive("LOCKED", 0, { ...bench.grant(asked, { processed: asked.ticket.lockId }) });
    expect(lastTold(asked, "granted").deadlineMs).toBe(sentMs + TEN_SECONDS_USABLE);
  });

  test("after a long wait counts from the newest keep-alive, not from the LOCK", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    for (let turn = 0; turn < 30; turn += 1) {
      bench.advance(2000);
      bench.answerRenew();
    }
    const renewedMs = bench.nowMs;
    bench.receive("LOCKED", 0, { ...bench.grant(asked, { processed: bench.last("RENEW").id }) });
    expect(lastTold(asked, "granted").deadlineMs).toBe(renewedMs + TEN_SECONDS_USABLE);
  });

  test("passes without any call: the holder is told, with the reason", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.disconnect();
    bench.advance(TEN_SECONDS_USABLE - 1);
    expect(kinds(lock)).toEqual(["granted"]);
    bench.advance(1);
    const { error: lost } = lastTold(lock, "lost");
    expect(lost).toBeInstanceOf(LockLostError);
    expect(lost.code).toBe("lost");
    expect(lost.exitCode).toBe(76);
    expect(lost.reason).toBe("unreachable");
    expect(lost.token).toBe(lock.grant.token);
  });

  test("that passed while the process stood still is told before anything else, and no answer revives the lock", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.advance(2000);
    const renew = bench.last("RENEW");
    bench.pause(20_000);
    expect(kinds(lock)).toEqual(["granted", "lost"]);
    bench.receive("RENEWED", renew.id, { processed: renew.id, lost: [], mismatch: false });
    bench.answerRenew();
    bench.advance(500);
    expect(kinds(lock)).toEqual(["granted", "lost"]);
  });

  test("does not move back when a late answer brings an earlier one", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.advance(2000);
    bench.answerRenew();
    const { deadlineMs } = lastTold(lock, "renewed");
    bench.advance(2000);
    bench.answerRenew({ processed: lock.ticket.knownAtId });
    expect(lock.ticket.deadlineMs).toBe(deadlineMs);
    expect(kinds(lock)).toEqual(["granted", "renewed"]);
  });

  test("is not believed when nobody knows any more when the processed message was sent", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    bench.receive("LOCKED", 0, { ...bench.grant(asked, { processed: 0 }) });
    expect(kinds(asked)).toEqual([]);
  });
});

describe("renewal", () => {
  test("is sent at a third of the grace while waiting, and at a third of the shortest lease while holding", () => {
    const bench = new SessionBench(6000).connect();
    bench.lock();
    bench.answerSession();
    bench.news();
    bench.advance(1999);
    expect(bench.news()).toEqual([]);
    bench.advance(1);
    expect(bench.news()).toEqual(["RENEW"]);
    bench.held(900);
    bench.news();
    bench.advance(299);
    expect(bench.news()).toEqual([]);
    bench.advance(1);
    expect(bench.news()).toEqual(["RENEW"]);
  });

  test("slows down again when the short lock is gone", () => {
    const bench = new SessionBench(6000).connect();
    const short = bench.held(900);
    bench.held(60_000);
    bench.advance(300);
    bench.session.release(short.ticket, bench.nowMs);
    bench.answerRenew();
    bench.receive("UNLOCKED", short.ticket.unlockId, { token: short.grant.token, held: true });
    bench.advance(300);
    bench.answerRenew();
    bench.news();
    bench.advance(1999);
    expect(bench.news()).toEqual([]);
  });

  test("carries the newest grant and the digest of what is held", () => {
    const bench = new SessionBench().connect();
    const first = bench.held();
    const second = bench.held(10_000, { objects: ["y"] });
    bench.advance(2000);
    expect(bench.last("RENEW").body).toEqual({
      seen: second.grant.grant,
      count: 2,
      digest: [...tokenDigest([first.grant.token, second.grant.token])],
    });
  });

  test("moves the deadline of everything held to its own send time plus the duration", () => {
    const bench = new SessionBench().connect();
    const short = bench.held(10_000);
    const long = bench.held(60_000, { objects: ["y"] });
    bench.advance(2000);
    const sentMs = bench.nowMs;
    bench.advance(700);
    bench.answerRenew();
    expect(lastTold(short, "renewed").deadlineMs).toBe(sentMs + TEN_SECONDS_USABLE);
    expect(lastTold(long, "renewed").deadlineMs).toBe(sentMs + 60_000 * 0.98 - 50);
  });

  test("that is not answered is followed by another, which keeps the lock", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.advance(2000);
    bench.advance(2000);
    expect(bench.of("RENEW")).toHaveLength(2);
    bench.answerRenew();
    bench.advance(8000);
    expect(kinds(lock)).toEqual(["granted", "renewed"]);
    expect(bench.session.active).toBe(true);
  });

  test("keeps a lock for ever while it is answered", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    for (let turn = 0; turn < 100; turn += 1) {
      bench.advance(2000);
      bench.answerRenew();
    }
    expect(kinds(lock).includes("lost")).toBe(false);
  });

  test("does not stretch a lock that was granted after it was sent", () => {
    const bench = new SessionBench().connect();
    bench.held();
    bench.advance(2000);
    const renew = bench.last("RENEW");
    const later = bench.lock(null, { objects: ["later"] });
    bench.receive("LOCKED", later.ticket.lockId, { ...bench.grant(later, { left: 3000 }) });
    const { deadlineMs } = lastTold(later, "granted");
    bench.receive("RENEWED", renew.id, { processed: renew.id, lost: [], mismatch: false });
    expect(later.ticket.deadlineMs).toBe(deadlineMs);
    expect(kinds(later)).toEqual(["granted"]);
  });

  test("whose answer was lost does not make the end of a lease look like a cut network", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.advance(2000);
    bench.advance(2000);
    bench.answerRenew();
    const answered = bench.last("RENEW").id;
    while (!kinds(lock).includes("lost")) {
      bench.advance(50);
      for (const renew of bench.of("RENEW")) if (renew.id > answered) bench.receive("ERROR", renew.id, error("failed"));
    }
    expect(lastTold(lock, "lost").error.reason).toBe("expired");
  });

  test("refused every time lets the lock end as expired, not later than its lease", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    const grantedMs = bench.nowMs;
    while (!kinds(lock).includes("lost") && bench.nowMs < grantedMs + 20_000) {
      bench.advance(100);
      for (const renew of bench.of("RENEW")) bench.receive("ERROR", renew.id, error("failed"));
    }
    expect(lastTold(lock, "lost").error.reason).toBe("expired");
    expect(bench.nowMs - grantedMs).toBeLessThanOrEqual(TEN_SECONDS_USABLE + 100);
  });

  test("stops when nothing is held and nothing waits", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.session.release(lock.ticket, bench.nowMs);
    bench.receive("UNLOCKED", lock.ticket.unlockId, { token: lock.grant.token, held: true });
    bench.news();
    bench.advance(60_000);
    expect(bench.news()).toEqual([]);
    expect(bench.idleCount).toBe(1);
  });

  test("never claims a lock whose release has begun", () => {
    const bench = new SessionBench().connect();
    const kept = bench.held();
    const given = bench.held(10_000, { objects: ["y"] });
    bench.session.release(given.ticket, bench.nowMs);
    bench.advance(4000);
    for (const renew of bench.of("RENEW").filter((frame) => frame.id > given.ticket.unlockId)) {
      expect(renew.body["digest"]).toEqual([...tokenDigest([kept.grant.token])]);
    }
  });

  test("of a released lock does not revive it", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.advance(2000);
    bench.session.release(lock.ticket, bench.nowMs);
    bench.answerRenew();
    bench.receive("UNLOCKED", lock.ticket.unlockId, { token: lock.grant.token, held: true });
    expect(kinds(lock)).toEqual(["granted", "released"]);
  });

  test("with a wrong digest is repeated with the tokens themselves", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.advance(2000);
    bench.answerRenew({ mismatch: true });
    expect(bench.last("RENEW").body).toEqual({ seen: lock.grant.grant, tokens: [lock.grant.token] });
    expect(kinds(lock)).toEqual(["granted"]);
    bench.answerRenew();
    expect(kinds(lock)).toEqual(["granted", "renewed"]);
  });

  test("that names a lock as lost ends it at once and renews the others", () => {
    const bench = new SessionBench().connect();
    const gone = bench.held();
    const kept = bench.held(10_000, { objects: ["y"] });
    bench.advance(2000);
    bench.answerRenew({ lost: [{ token: gone.grant.token, reason: "forced" }] });
    expect(lastTold(gone, "lost").error.reason).toBe("forced");
    expect(kinds(kept)).toEqual(["granted", "renewed"]);
  });

  test("is sent for a session that the server has forgotten over a new connection", () => {
    const bench = new SessionBench().connect();
    bench.held();
    bench.advance(2000);
    bench.receive("ERROR", bench.last("RENEW").id, error("notfound"));
    expect(bench.reconnects).toHaveLength(1);
  });
});

describe("a grant whose LOCKED was lost", () => {
  test("is disowned by a list of tokens, then never accepted, and the lock is asked for anew", () => {
    const bench = new SessionBench().connect();
    const waiting = bench.lock(null, { objects: ["lost"] });
    bench.answerSession();
    const lostGrant = bench.grant(waiting);
    const other = bench.held(10_000, { objects: ["other"] });
    bench.advance(2000);
    bench.answerRenew({ mismatch: true });
    expect(bench.last("RENEW").body["tokens"]).toEqual([other.grant.token]);
    expect(bench.last("LOCK").body).toMatchObject({ request: lostGrant.request, objects: ["lost"] });
    expect(bench.last("LOCK").id).toBeGreaterThan(bench.last("RENEW").id);
    // the LOCKED arrives after all, or the LOCK sent again brought it: the server has taken it back meanwhile
    bench.receive("LOCKED", 0, { ...lostGrant });
    expect(kinds(waiting)).toEqual([]);
    expect(bench.last("UNLOCK").body).toEqual({ handle: lostGrant.handle });
    const again = bench.last("LOCK");
    expect(again.body["request"]).not.toBe(lostGrant.request);
    bench.receive("LOCKED", again.id, { ...bench.grant(waiting) });
    expect(kinds(waiting)).toEqual(["granted"]);
  });

  test("that the server reports as run out is asked for anew", () => {
    const bench = new SessionBench().connect();
    const waiting = bench.lock(null);
    bench.answerSession();
    const first = waiting.ticket.body.request;
    bench.receive("UNLOCKING", 0, { request: first, token: 77, left: 5000, reason: "timedout" });
    expect(bench.last("UNLOCK").body).toEqual({ request: first });
    expect(bench.last("LOCK").body["request"]).not.toBe(first);
    expect(kinds(waiting)).toEqual([]);
  });

  test("that the server remembers as lost is withdrawn, so that nobody waits for its end, and asked for anew", () => {
    const bench = new SessionBench().connect();
    const waiting = bench.lock(null);
    bench.answerSession();
    const { lockId } = waiting.ticket;
    const first = waiting.ticket.body.request;
    bench.receive("LOCKFAILED", lockId, { request: first, code: "lost", message: "it was lost" });
    expect(bench.last("UNLOCK").body).toEqual({ request: first });
    expect(bench.of("LOCK")).toHaveLength(2);
    expect(kinds(waiting)).toEqual([]);
  });
});

describe("a grant that comes too late to be believed", () => {
  test("is confirmed by a renewal first, and counts from that", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    const { lockId } = asked.ticket;
    bench.advance(9_800);
    bench.news();
    bench.receive("LOCKED", lockId, { ...bench.grant(asked, { processed: lockId }) });
    expect(kinds(asked)).toEqual([]);
    const askedMs = bench.nowMs;
    bench.advance(0);
    expect(bench.news()).toEqual(["RENEW"]);
    bench.answerRenew();
    expect(lastTold(asked, "granted").deadlineMs).toBe(askedMs + TEN_SECONDS_USABLE);
  });

  test("and that the server has taken back is asked for anew", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    const { lockId } = asked.ticket;
    bench.pause(30_000);
    const grant = bench.grant(asked, { processed: lockId });
    bench.receive("LOCKED", lockId, { ...grant });
    bench.advance(0);
    bench.answerRenew({ lost: [{ token: grant.token, reason: "timedout" }] });
    expect(kinds(asked)).toEqual([]);
    expect(bench.last("LOCK").body["request"]).not.toBe(grant.request);
  });

  test("when detached is given back, since no renewal of the session covers it", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock(null, { detached: true });
    bench.answerSession();
    const { lockId } = asked.ticket;
    bench.advance(9_800);
    const grant = bench.grant(asked, { processed: lockId });
    bench.receive("LOCKED", lockId, { ...grant });
    expect(bench.last("UNLOCK").body).toEqual({ handle: grant.handle });
    expect(bench.last("LOCK").body["request"]).not.toBe(grant.request);
  });
});

describe("the end of a wait", () => {
  test("is the server's to tell, with who is in the way", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock(1000);
    bench.answerSession();
    bench.advance(1000);
    const holder = { name: "n", host: "h", pid: 1, program: "p", address: "a", session: "s" };
    bench.receive("LOCKFAILED", asked.ticket.lockId, {
      request: asked.ticket.body.request,
      code: "timedout",
      message: "held by p",
      holders: [{ object: "x", holder, token: 5, sinceAgo: 10, state: "locked" }],
      position: 3,
    });
    const failed = lastTold(asked, "failed").error;
    expect(failed).toBeInstanceOf(LockFailedError);
    expect(failed.exitCode).toBe(75);
    expect(failed instanceof LockFailedError && failed.details).toEqual({
      holders: [{ object: "x", holder, token: 5, sinceAgo: 10, state: "locked" }],
      position: 3,
    });
  });

  test("comes one second after its time even if the server says nothing, and the ticket is withdrawn", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock(1000);
    bench.answerSession();
    bench.advance(1999);
    expect(kinds(asked)).toEqual([]);
    bench.advance(1);
    expect(lastTold(asked, "failed").error.code).toBe("timedout");
    expect(bench.last("UNLOCK").body).toEqual({ request: asked.ticket.body.request });
  });

  test("says that no server could be reached when none could", () => {
    const bench = new SessionBench();
    bench.unreachable = lockdError("reach a server: 10.0.0.1:4050: connection refused");
    const asked = bench.lock(0);
    bench.advance(1000);
    const failed = lastTold(asked, "failed").error;
    expect(failed.code).toBe("unavailable");
    expect(failed.exitCode).toBe(69);
    expect(failed.message).toContain("10.0.0.1:4050: connection refused");
    expect(bench.session.active).toBe(false);
  });

  test("takes back a LOCKED that comes after it", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock(1000);
    bench.answerSession();
    bench.advance(2000);
    const { unlockId } = asked.ticket;
    bench.receive("ERROR", unlockId, error("notheld"));
    expect(bench.session.active).toBe(false);
    const late = bench.grant(asked);
    bench.receive("LOCKED", 0, { ...late });
    expect(bench.last("UNLOCK").body).toEqual({ handle: late.handle });
    expect(kinds(asked)).toEqual(["failed"]);
  });

  test("leaves nothing for ever behind when no server ever answers", () => {
    const bench = new SessionBench().connect();
    bench.lock(1000);
    bench.answerSession();
    bench.disconnect();
    bench.advance(60_000);
    expect(bench.session.active).toBe(false);
    expect(bench.session.dueMs).toBe(Number.POSITIVE_INFINITY);
  });

  test("is not reached by a request that is refused for now: it is sent again", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock(30_000);
    bench.answerSession();
    bench.receive("ERROR", asked.ticket.lockId, error("unavailable"));
    bench.advance(2000);
    expect(bench.of("LOCK")).toHaveLength(2);
    expect(bench.last("LOCK").body["request"]).toBe(asked.ticket.body.request);
    expect(bench.last("LOCK").body["wait"]).toBe(28_000);
    bench.receive("LOCKED", asked.ticket.lockId, { ...bench.grant(asked) });
    expect(kinds(asked)).toEqual(["granted"]);
  });

  test("of a session that was kicked is not the end: the lock is asked for in a new connection", () => {
    const bench = new SessionBench().connect();
    const first = bench.held();
    bench.session.release(first.ticket, bench.nowMs);
    bench.receive("UNLOCKED", first.ticket.unlockId, { token: first.grant.token, held: true });
    const asked = bench.lock();
    bench.receive("LOCKFAILED", asked.ticket.lockId, {
      request: asked.ticket.body.request, code: "notfound", message: "session is not known",
    });
    expect(bench.reconnects).toHaveLength(1);
    bench.connect();
    expect(bench.last("SESSION").body["generation"]).toBe(2);
    bench.answerSession();
    bench.receive("LOCKED", asked.ticket.lockId, { ...bench.grant(asked) });
    expect(kinds(asked)).toEqual(["granted"]);
  });

  test("by a refusal reaches only the one that was refused", () => {
    const bench = new SessionBench().connect();
    const refused = bench.lock(null, { objects: ["a"] });
    const other = bench.lock(null, { objects: ["b"] });
    bench.answerSession();
    bench.receive("ERROR", refused.ticket.lockId, error("duplicate"));
    expect(lastTold(refused, "failed").error.exitCode).toBe(73);
    expect(kinds(other)).toEqual([]);
  });
});

describe("cancelling", () => {
  const reason = new LockdError("cancelled", "enough");

  test("of what was never sent is done at once", () => {
    const bench = new SessionBench();
    const asked = bench.lock();
    bench.session.cancel(asked.ticket, reason, bench.nowMs);
    expect(lastTold(asked, "failed").error).toBe(reason);
    bench.connect();
    expect(bench.sent).toEqual([]);
  });

  test("is told when the ticket is gone at the server, not before", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    bench.session.cancel(asked.ticket, reason, bench.nowMs);
    expect(kinds(asked)).toEqual([]);
    bench.receive("UNLOCKED", bench.last("UNLOCK").id, { token: null, held: false });
    expect(lastTold(asked, "failed").error).toBe(reason);
  });

  test("by LOCKFAILED of the request itself is as good an answer, and told once", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    const { lockId } = asked.ticket;
    bench.session.cancel(asked.ticket, reason, bench.nowMs);
    bench.receive("LOCKFAILED", lockId, { request: "1", code: "cancelled", message: "cancelled" });
    bench.receive("UNLOCKED", bench.last("UNLOCK").id, { token: null, held: false });
    expect(asked.told).toEqual([{ kind: "failed", error: reason }]);
  });

  test("is told after a second when the server does not answer, and goes on behind it", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    bench.session.cancel(asked.ticket, reason, bench.nowMs);
    bench.advance(999);
    expect(kinds(asked)).toEqual([]);
    bench.advance(1);
    expect(kinds(asked)).toEqual(["failed"]);
    bench.disconnect();
    bench.connect();
    const { request } = asked.ticket.body;
    bench.answerSession([{ request, objects: ["x"], state: "waiting" }]);
    expect(bench.last("UNLOCK").body).toEqual({ request });
    bench.receive("UNLOCKED", bench.last("UNLOCK").id, { token: null, held: false });
    expect(bench.session.active).toBe(false);
    expect(kinds(asked)).toEqual(["failed"]);
  });

  test("at the moment of the grant gives the grant back: the waiter is told cancelled, nobody holds", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock();
    bench.answerSession();
    bench.session.cancel(asked.ticket, reason, bench.nowMs);
    const grant = bench.grant(asked);
    bench.receive("LOCKED", asked.ticket.lockId, { ...grant });
    bench.receive("UNLOCKED", bench.last("UNLOCK").id, { token: grant.token, held: true });
    expect(asked.told).toEqual([{ kind: "failed", error: reason }]);
    expect(bench.session.holding).toBe(false);
  });

  test("after the grant is too late and changes nothing", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.news();
    bench.session.cancel(lock.ticket, reason, bench.nowMs);
    expect(bench.news()).toEqual([]);
    expect(kinds(lock)).toEqual(["granted"]);
  });
});

describe("release", () => {
  test("is done when the server has confirmed it", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.session.release(lock.ticket, bench.nowMs);
    expect(bench.last("UNLOCK").body).toEqual({ handle: lock.grant.handle });
    expect(kinds(lock)).toEqual(["granted"]);
    bench.receive("UNLOCKED", bench.last("UNLOCK").id, { token: lock.grant.token, held: true });
    expect(lastTold(lock, "released").error).toBeNull();
    expect(bench.session.active).toBe(false);
  });

  test("whose answer was lost with the connection is repeated, and notheld then means done", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.session.release(lock.ticket, bench.nowMs);
    bench.disconnect();
    bench.connect();
    bench.answerSession([], true);
    expect(bench.of("UNLOCK")).toHaveLength(2);
    bench.receive("ERROR", bench.last("UNLOCK").id, error("notheld"));
    expect(lastTold(lock, "released").error).toBeNull();
  });

  test("that finds nothing at the first try says that the lock had been lost", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.session.release(lock.ticket, bench.nowMs);
    bench.receive("ERROR", bench.last("UNLOCK").id, error("notheld"));
    expect(lastTold(lock, "released").error?.code).toBe("lost");
  });

  test("in the grace says that the lock had been lost", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.session.release(lock.ticket, bench.nowMs);
    bench.receive("LOCKFAILED", bench.last("UNLOCK").id, { code: "lost", message: "it was lost" });
    const { error: lost } = lastTold(lock, "released");
    expect(lost).toBeInstanceOf(LockLostError);
  });

  test("that nobody confirms ends as unavailable when the lock is surely over", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    const { deadlineMs } = lock.ticket;
    bench.disconnect();
    bench.session.release(lock.ticket, bench.nowMs);
    bench.advance(deadlineMs + 5000 - bench.nowMs - 1);
    expect(kinds(lock)).toEqual(["granted"]);
    bench.advance(1);
    expect(lastTold(lock, "released").error?.code).toBe("unavailable");
    expect(bench.session.active).toBe(false);
  });

  test("refused for now is repeated", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.session.release(lock.ticket, bench.nowMs);
    bench.receive("ERROR", bench.last("UNLOCK").id, error("unavailable"));
    bench.advance(2000);
    expect(bench.of("UNLOCK")).toHaveLength(2);
    bench.receive("UNLOCKED", bench.last("UNLOCK").id, { token: lock.grant.token, held: true });
    expect(lastTold(lock, "released").error).toBeNull();
  });

  test("of everything frees what is held, withdraws what waits and leaves what is detached", () => {
    const bench = new SessionBench().connect();
    const held = bench.held();
    const detached = bench.held(30_000, { objects: ["d"], detached: true });
    const waiting = bench.lock(null, { objects: ["w"] });
    bench.session.releaseAll(bench.nowMs);
    expect(bench.of("UNLOCK").map((frame) => frame.body)).toEqual([
      { handle: held.grant.handle },
      { request: waiting.ticket.body.request },
    ]);
    for (const unlock of bench.of("UNLOCK")) bench.receive("UNLOCKED", unlock.id, { token: null, held: false });
    expect(bench.session.active).toBe(false);
    expect(kinds(detached)).toEqual(["granted"]);
    expect(kinds(waiting)).toEqual(["failed"]);
  });
});

describe("loss", () => {
  test.each([
    ["UNLOCKING", "timedout", "expired"],
    ["UNLOCKING", "forced", "forced"],
    ["UNLOCKED", "kicked", "forced"],
    ["UNLOCKED", "lost", "revoked"],
  ])("by %s %s is told at once as %s, once", (type, reason, told) => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    const push = { request: lock.grant.request, token: lock.grant.token, reason, left: 5000 };
    bench.receive(type, 0, push);
    bench.receive("UNLOCKED", 0, push);
    expect(kinds(lock)).toEqual(["granted", "lost"]);
    expect(String(lastTold(lock, "lost").error.reason)).toBe(told);
  });

  test("by force is confirmed at once by a renewal that does not claim it, one for all that were told together", () => {
    const bench = new SessionBench().connect();
    const [a, b, kept] = [bench.held(), bench.held(10_000, { objects: ["y"] }), bench.held(10_000, { objects: ["z"] })];
    bench.news();
    for (const { grant } of [a, b]) {
      bench.session.frame({ type: "UNLOCKING", id: 0, body: { request: grant.request, token: grant.token, reason: "forced", left: 5000 } }, bench.nowMs);
    }
    expect(bench.session.dueMs).toBeLessThanOrEqual(bench.nowMs);
    bench.advance(0);
    expect(bench.news()).toEqual(["RENEW"]);
    expect(bench.last("RENEW").body).toEqual({ seen: kept.grant.grant, count: 1, digest: tokenDigest([kept.grant.token]) });
  });

  test("by force that a renewal is told of is confirmed by the next, at once", () => {
    const bench = new SessionBench().connect();
    const { grant } = bench.held();
    bench.advance(2000);
    bench.answerRenew({ lost: [{ token: grant.token, reason: "kicked" }] });
    bench.news();
    bench.advance(0);
    expect(bench.news()).toEqual(["RENEW"]);
    expect(bench.last("RENEW").body).toEqual({ seen: grant.grant, count: 0, digest: [0, 0] });
  });

  test("at the end of the duration, or of the last request, needs no confirmation", () => {
    const bench = new SessionBench().connect();
    const { grant } = bench.held();
    bench.news();
    bench.receive("UNLOCKING", 0, { request: grant.request, token: grant.token, reason: "timedout", left: 5000 });
    bench.advance(0);
    expect(bench.news()).toEqual([]);
    const last = new SessionBench().connect();
    const held = last.held();
    last.session.release(held.ticket, last.nowMs);
    last.receive("UNLOCKED", last.last("UNLOCK").id, { token: held.grant.token, held: true });
    last.news();
    last.receive("UNLOCKING", 0, { request: held.grant.request, token: held.grant.token, reason: "forced", left: 5000 });
    expect(last.session.dueMs).toBe(Number.POSITIVE_INFINITY);
    expect(last.news()).toEqual([]);
  });

  test("of an older token of the same request is ignored", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.receive("UNLOCKED", 0, { request: lock.grant.request, token: lock.grant.token - 1, reason: "forced" });
    expect(kinds(lock)).toEqual(["granted"]);
  });

  test("that only this side knows stays claimed for the unlock duration, so that nobody gets the lock while the holder stops", () => {
    const bench = new SessionBench().connect();
    const lost = bench.held(1000, { unlockDuration: 5000 });
    const kept = bench.held(60_000, { objects: ["y"] });
    // renewals stay unanswered past the lease of one second
    bench.advance(940);
    expect(kinds(lost)).toEqual(["granted", "lost"]);
    bench.advance(4900);
    expect(bench.last("RENEW").body["count"]).toBe(2);
    bench.news();
    bench.advance(100);
    expect(bench.sent.at(-1)?.type).toBe("UNLOCK");
    expect(bench.last("UNLOCK").body).toEqual({ handle: lost.grant.handle });
    bench.advance(2000);
    expect(bench.last("RENEW").body).toMatchObject({ count: 1, digest: [...tokenDigest([kept.grant.token])] });
  });

  test("that the server knows is not claimed any more", () => {
    const bench = new SessionBench().connect();
    const lost = bench.held();
    bench.held(10_000, { objects: ["y"] });
    bench.receive("UNLOCKING", 0, { request: lost.grant.request, token: lost.grant.token, left: 5000, reason: "timedout" });
    bench.advance(2000);
    expect(bench.last("RENEW").body["count"]).toBe(1);
  });

  test("and then release: the grace is given back and the holder hears that it was lost", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    bench.receive("UNLOCKING", 0, { request: lock.grant.request, token: lock.grant.token, left: 5000, reason: "timedout" });
    bench.session.release(lock.ticket, bench.nowMs);
    expect(bench.last("UNLOCK").body).toEqual({ handle: lock.grant.handle });
    bench.receive("LOCKFAILED", bench.last("UNLOCK").id, { code: "lost", message: "lost" });
    expect(lastTold(lock, "released").error?.code).toBe("lost");
    expect(bench.session.active).toBe(false);
  });

  test("of a detached lock comes with its own end, since the session does not renew it", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held(30_000, { detached: true });
    bench.advance(2000);
    expect(bench.last("RENEW").body["count"]).toBe(0);
    for (let ms = 0; ms < 28_000; ms += 2000) {
      bench.answerRenew();
      bench.advance(2000);
    }
    expect(kinds(lock)).toEqual(["granted", "lost"]);
    expect(lastTold(lock, "lost").error.reason).toBe("expired");
  });
});

describe("queue", () => {
  test("positions reach the one who waits, others are ignored", () => {
    const bench = new SessionBench().connect();
    const asked = bench.lock(null, { queue: true });
    bench.answerSession();
    bench.receive("QUEUE", 0, { request: asked.ticket.body.request, position: 4 });
    bench.receive("QUEUE", 0, { request: "unknown", position: 1 });
    expect(asked.told).toEqual([{ kind: "queued", position: 4 }]);
    expect(bench.last("LOCK").body["queue"]).toBe(true);
  });
});

describe("malformed answers", () => {
  test.each([
    ["LOCKED", { request: "1" }],
    ["UNLOCKING", { request: "1", token: 0, left: 1, reason: "x" }],
    ["QUEUE", { request: 7, position: 1 }],
    ["LOCKFAILED", { code: 5 }],
  ])("%s is a breach of the protocol, not a crash", (type, body) => {
    const bench = new SessionBench().connect();
    bench.lock();
    bench.answerSession();
    expect(() => bench.receive(type, 0, body)).toThrow(LockdError);
  });

  test("a token granted twice is one, too", () => {
    const bench = new SessionBench().connect();
    const lock = bench.held();
    const second = bench.lock(null, { objects: ["y"] });
    expect(() => bench.receive("LOCKED", 0, { ...bench.grant(second, { token: lock.grant.token }) })).toThrow("granted twice");
  });

  test("what a newer server pushes is ignored", () => {
    const bench = new SessionBench().connect();
    bench.receive("SOMETHINGNEW", 0, {});
    expect(bench.sent).toEqual([]);
  });
});

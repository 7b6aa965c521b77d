import { expect, test } from "bun:test";
import fc from "fast-check";
import type { LockCommand, LockMode, LockSpec, TicketView } from "../../../plugins/lock/core/types.ts";
import { tokenDigest } from "../../../src/client/protocol.ts";
import { Comparison } from "./compare.ts";
import { LIMITS, holderOf, specOf } from "./kit.ts";

const SESSIONS = ["s0", "s1", "s2", "s3", "s4"];
const OBJECTS = ["a", "b", "c"];

/** A command as drawn, before it is tied to the handles and tokens that exist when it is its turn. */
interface Draft {
  kind: LockCommand["kind"] | "recover";
  session: string;
  pick: number;
  other: number;
  flag: boolean;
  laterMs: number;
  spec: LockSpec;
}

const modeArbitrary = fc.constantFrom<LockMode>("exclusive", "exclusive", "shared", "semaphore");

const specArbitrary = (detectDeadlock: boolean): fc.Arbitrary<LockSpec> =>
  fc
    .record({
      objects: fc.subarray(OBJECTS, { minLength: 1, maxLength: 2 }),
      mode: modeArbitrary,
      permits: fc.constantFrom(1, 3, 3, 3),
      count: fc.integer({ min: 1, max: 3 }),
      waitMs: fc.constantFrom(null, null, 0, 300, 2_000),
      durationMs: fc.constantFrom(500, 1_000, 5_000),
      unlockDurationMs: fc.constantFrom(500, 1_000),
      lockDelayMs: fc.constantFrom(0, 0, 0, 700),
      detached: fc.constantFrom(false, false, false, true),
    })
    .map((drawn) =>
      specOf({
        ...drawn,
        ...(drawn.mode === "semaphore" ? {} : { permits: 1, count: 1 }),
        objects: [...drawn.objects].sort(),
        detectDeadlock,
      }),
    );

const draftArbitrary = (kinds: readonly Draft["kind"][], detectDeadlock: boolean): fc.Arbitrary<Draft> =>
  fc.record({
    kind: fc.constantFrom(...kinds),
    session: fc.constantFrom(...SESSIONS),
    pick: fc.nat(1000),
    other: fc.nat(5),
    flag: fc.boolean(),
    laterMs: fc.constantFrom(0, 0, 0, 10, 100, 499, 500, 1_500),
    spec: specArbitrary(detectDeadlock),
  });

class Run {
  readonly comparison: Comparison;
  readonly log: string[] = [];
  readonly #generations = new Map<string, number>();
  readonly #handles: string[] = [];
  #requests = 0;
  #messages = 0;

  constructor(workPerStepMax: number) {
    this.comparison = new Comparison({ ...LIMITS, workPerStepMax, lostMax: 4, waitersPerObjectMax: 3, ticketsPerSessionMax: 6, sessionsMax: 5 });
    for (const session of SESSIONS) this.#do(this.#open(session), 0);
  }

  apply(draft: Draft): void {
    if (draft.kind === "recover") this.comparison.world.recover();
    else this.#do(this.#command({ ...draft, kind: draft.kind }), draft.laterMs);
  }

  #do(command: LockCommand, laterMs: number): void {
    this.log.push(`+${laterMs} ${JSON.stringify(command)}`);
    this.comparison.run(command, laterMs);
  }

  #open(session: string, secretHash = "right", stale = false): LockCommand {
    const generation = (this.#generations.get(session) ?? 0) + (stale ? 0 : 1);
    if (secretHash === "right") this.#generations.set(session, generation);
    return { kind: "open", session, secretHash, generation, graceMs: 3_000, holder: holderOf(session) };
  }

  #command(draft: Draft & { kind: LockCommand["kind"] }): LockCommand {
    const { session, pick, other, flag, spec } = draft;
    const message = ++this.#messages;
    const handle = this.#handles[pick % Math.max(1, this.#handles.length)] ?? "none";
    const grants = this.comparison.grants;
    const recent = other < 4 ? grants.slice(-4) : grants;
    const token = recent[pick % Math.max(1, recent.length)]?.token ?? 1;
    switch (draft.kind) {
      case "open":
        return this.#open(session, other === 0 ? "wrong" : "right", other === 1);
      case "disconnect":
        return { kind: "disconnect", session, generation: (this.#generations.get(session) ?? 0) - (other === 0 ? 1 : 0) };
      case "close":
        return { kind: "close", session };
      case "lock": {
        // most clients come back before they go on
        const known = this.comparison.model.sessions.find((each) => each.id === session);
        if (known?.connected !== true && pick % 8 > 0) return this.#open(session);
        // now and then a repetition of an earlier request
        const request = `r${other === 0 ? pick % (this.#requests + 1) : ++this.#requests}`;
        const fresh = `h${this.#handles.length}`;
        this.#handles.push(fresh);
        const parents = flag ? [handle] : [];
        return { kind: "lock", session, request, spec: { ...spec, parents }, handle: fresh, message };
      }
      case "cancel":
        return { kind: "cancel", session, request: `r${pick % (this.#requests + 1)}`, message };
      case "unlock":
        return { kind: "unlock", handle: this.#recentHandle(pick, other), ...(flag ? { by: session } : {}) };
      case "renew":
        return this.#renew(draft, message);
      case "renewHandle":
        return { kind: "renewHandle", handle: this.#recentHandle(pick, other), durationMs: flag ? null : 500 + 6 * pick, ...(other < 3 ? { value: `value ${pick % 3}` } : {}) };
      case "release":
        return { kind: "release", object: other === 5 ? "a" : (grants.find((grant) => grant.token === token)?.objects[0] ?? "a"), token, reason: "test", by: "admin", dead: flag && other < 3 };
      case "kick":
        return { kind: "kick", session: other < 3 ? this.#forced() ?? session : session, reason: "test", by: "admin", dead: flag };
      case "restart":
        return { kind: "restart", rebooted: flag };
      case "tick":
        return { kind: "tick" };
    }
  }

  /** A session that was told to leave. */
  #forced(): string | undefined {
    return this.comparison.world.tickets().find((ticket) => ticket.state === "unlocking")?.session;
  }

  #recentHandle(pick: number, other: number): string {
    const count = this.#handles.length;
    return this.#handles[other < 4 ? Math.max(0, count - 1 - (pick % 8)) : pick % Math.max(1, count)] ?? "none";
  }

  #renew({ session, pick, other, flag }: Draft, message: number): LockCommand {
    const mine = this.comparison.grants.filter((grant) => grant.session === session);
    const newest = mine.at(-1)?.grantNumber ?? 0;
    const seen = Math.max(0, newest - (other === 0 ? pick % 3 : 0));
    const held = this.comparison.world
      .tickets()
      .filter((ticket) => ticket.session === session && ticket.state === "locked" && !ticket.detached)
      .map((ticket) => ticket.token ?? 0);
    const known = [...new Set(held)].filter((token) => mine.some((grant) => grant.token === token && grant.grantNumber <= seen));
    if (other === 1) known.splice(0, 1);
    if (other === 2) known.push(mine[pick % Math.max(1, mine.length)]?.token ?? 77);
    if (flag) return { kind: "renew", session, seen, held: { tokens: known }, message };
    return { kind: "renew", session, seen, held: { count: known.length, digest: tokenDigest(known) }, message };
  }
}

const EVERYTHING: readonly Draft["kind"][] = [
  ...Array.from({ length: 16 }, () => "lock" as const),
  "cancel",
  "unlock",
  "unlock",
  "unlock",
  "renew",
  "renew",
  "renew",
  "renewHandle",
  "release",
  "release",
  "kick",
  "open",
  "open",
  "open",
  "disconnect",
  "close",
  "tick",
  "restart",
  "recover",
];

/** Nobody comes back to a place in front of others, so the one who closes a cycle is its youngest. */
const WITHOUT_RECONNECT = EVERYTHING.filter((kind) => !["disconnect", "restart", "close", "kick"].includes(kind));

/** Fails with the shortest list of commands on which table and model differ. */
function compare(options: { kinds: readonly Draft["kind"][]; detectDeadlock: boolean; seed: number; work: number }): void {
  const drafts = fc.array(draftArbitrary(options.kinds, options.detectDeadlock), { minLength: 1, maxLength: 120, size: "max" });
  const property = fc.property(drafts, (commands) => {
    const run = new Run(options.work);
    for (const draft of commands) run.apply(draft);
  });
  const result = fc.check(property, { seed: options.seed, numRuns: 150 });
  if (!result.failed) return;
  const [commands = []] = result.counterexample ?? [];
  const run = new Run(options.work);
  try {
    for (const draft of commands) run.apply(draft);
  } catch (difference) {
    const detail = difference instanceof Error ? difference.message : String(difference);
    throw new Error(`${run.log.join("\n")}\n${detail}`, { cause: difference });
  }
}

for (const seed of [1, 2, 3]) {
  test(`the table does what the model does, whatever is asked (seed ${seed})`, () => {
    compare({ kinds: EVERYTHING, detectDeadlock: false, seed, work: 1000 });
  });
}

test("one piece of work a step comes to the same as all at once", () => {
  compare({ kinds: EVERYTHING, detectDeadlock: false, seed: 4, work: 1 });
});

test("a deadlock is found exactly when the wait-for graph has a cycle", () => {
  compare({ kinds: WITHOUT_RECONNECT, detectDeadlock: true, seed: 5, work: 1000 });
});

/** When those that were told to leave are out at the latest, by token. */
const graces = (tickets: readonly TicketView[]): Map<number, number> =>
  new Map(tickets.flatMap(({ state, token = 0, freeAtMs = 0 }) => (state === "unlocking" ? [[token, freeAtMs] as const] : [])));

test("the drawn commands reach every answer and effect", () => {
  const said = new Map<string, number>();
  const count = (what: string) => said.set(what, (said.get(what) ?? 0) + 1);
  for (const detectDeadlock of [false, true]) {
    const kinds = detectDeadlock ? WITHOUT_RECONNECT : EVERYTHING;
    for (const drafts of fc.sample(fc.array(draftArbitrary(kinds, detectDeadlock), { minLength: 100, maxLength: 100 }), { numRuns: 20, seed: 6 })) {
      const run = new Run(1000);
      const { world } = run.comparison;
      const step = world.step.bind(world);
      world.step = (command) => {
        // what came of the time that passed is still there
        for (const effect of world.effects) count(effect.kind === "lockfailed" ? `lockfailed ${effect.code}` : effect.kind);
        const before = graces(world.tickets());
        const answer = step(command);
        for (const [token, freeAtMs] of graces(world.tickets())) {
          if (freeAtMs < (before.get(token) ?? 0)) count(`a grace cut short by ${command.kind === "renew" && "tokens" in command.held ? "a list" : command.kind}`);
        }
        count(answer.kind === "refused" ? `refused ${answer.code}` : answer.kind);
        for (const effect of world.effects) count(effect.kind === "lockfailed" ? `lockfailed ${effect.code}` : effect.kind);
        return answer;
      };
      for (const draft of drafts) run.apply(draft);
    }
  }
  const answers = ["opened", "locked", "waiting", "unlocked", "renewed", "renewedHandle", "releasing", "kicked", "done"];
  const codes = ["timedout", "duplicate", "invalid", "denied", "overflow", "deadlock", "unavailable", "lost", "notheld", "notfound"];
  const effects = ["unlocking", "lockfailed timedout", "lockfailed cancelled", "lockfailed lost"];
  const confirmations = ["renew", "a list", "release", "kick"].map((by) => `a grace cut short by ${by}`);
  for (const wanted of [...answers, ...codes.map((code) => `refused ${code}`), ...effects, ...confirmations]) {
    expect([wanted, said.get(wanted) ?? 0]).not.toEqual([wanted, 0]);
  }
});

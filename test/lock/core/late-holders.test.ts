import { expect, test } from "bun:test";
import fc from "fast-check";
import { DURATIONS_MS, LateWorld, UNLOCK_DURATIONS_MS } from "./late-world.ts";

const KINDS = [
  "lock", "lock", "lock", "release", "force", "force", "kick", "stop", "go on", "hold back", "swallow", "flow", "break", "restart", "wait", "wait", "wait", "wait",
] as const;

const draftArbitrary = fc.record({
  kind: fc.constantFrom(...KINDS),
  who: fc.nat(2),
  pick: fc.nat(20),
  object: fc.constantFrom("x", "y"),
  duration: fc.constantFrom(...DURATIONS_MS),
  unlockDuration: fc.constantFrom(...UNLOCK_DURATIONS_MS),
  ms: fc.constantFrom(10, 100, 400, 1_000, 2_500),
  dead: fc.integer({ min: 0, max: 5 }).map((drawn) => drawn === 0),
});
type Draft = typeof draftArbitrary extends fc.Arbitrary<infer T> ? T : never;

function apply(late: LateWorld, draft: Draft): void {
  const client = late.clients[draft.who];
  if (client === undefined) throw new Error("there are three clients");
  late.log.push(`${late.world.nowMs} ${draft.kind} ${client.name}`);
  switch (draft.kind) {
    case "lock":
      return late.lock(client, draft.object, draft.duration, draft.unlockDuration);
    case "release":
      return late.release(client);
    case "force":
    case "kick":
      return late.force(draft.pick, { kick: draft.kind === "kick", dead: draft.dead });
    case "stop":
      client.stopped = true;
      return;
    case "go on":
      client.stopped = false;
      return late.pump();
    case "hold back":
      client.wire = "held back";
      return;
    case "swallow":
      client.wire = "swallowed";
      return;
    case "flow":
      client.wire = "flowing";
      return late.pump();
    case "break":
      return late.break(client);
    case "restart":
      return late.restart();
    case "wait":
      return late.advance(draft.ms);
  }
}

/** Runs drawn histories; the judge of the world throws. Returns what they came across. */
function run(seed: number, runs: number): Map<string, number> {
  const seen = new Map<string, number>();
  const property = fc.property(fc.array(draftArbitrary, { minLength: 30, maxLength: 150, size: "max" }), (drafts) => {
    const late = new LateWorld();
    try {
      for (const draft of drafts) apply(late, draft);
    } catch (thrown) {
      throw new Error(`${late.log.slice(-60).join("\n")}\n${thrown instanceof Error ? thrown.message : String(thrown)}`, { cause: thrown });
    }
    for (const [what, times] of late.seen) seen.set(what, (seen.get(what) ?? 0) + times);
    seen.set("a section", (seen.get("a section") ?? 0) + late.sections.length);
  });
  fc.assert(property, { seed, numRuns: runs });
  return seen;
}

test.each([1, 2])("no two holders work at the same time, whoever is stopped, cut off or forced out (seed %d)", (seed) => {
  const seen = run(seed, 300);
  for (const what of ["a section", "a deaf holder is forced", "a holder that hears is forced"]) {
    expect([what, seen.get(what) ?? 0]).not.toEqual([what, 0]);
  }
});

/**
 * Drives the real table and the model with the same commands and checks after each that both said the
 * same, that the promises hold, and that the records restore to the same table.
 */
import { expect } from "bun:test";
import type { Grant, LockCommand, LockEffect, LockLimits, TicketView } from "../../../plugins/lock/core/types.ts";
import { LockTable } from "../../../plugins/lock/core/table.ts";
import { World, specOf } from "./kit.ts";
import { Model, goTogether, outcomeOf } from "./model.ts";

export class Comparison {
  readonly world: World;
  readonly model: Model;
  readonly grants: Grant[] = [];
  readonly #ended = new Set<string>();
  readonly #lastToken = new Map<string, number>();
  #lastEventId = 0;
  #checkedEvents = 0;

  constructor(readonly limits: LockLimits) {
    this.world = new World(limits);
    this.model = new Model(limits);
  }

  /** Applies a command to both, `laterMs` after the one before. */
  run(command: LockCommand, laterMs: number): void {
    const { world, model } = this;
    const effects = [...world.advance(laterMs)];
    model.passTo(world.nowMs);
    this.#adopt(effects);
    const answer = world.step(command);
    const outcome = model.apply(command);
    if (answer.kind === "locked" && !this.grants.some((grant) => grant.token === answer.grant.token)) {
      expect(model.adopt(answer.grant)).toBe(true);
      this.#note(answer.grant);
    }
    this.#adopt(world.effects);
    effects.push(...world.effects);
    expect(outcomeOf(answer)).toBe(outcome);
    expect(model.grantedNow).toEqual([]);
    this.#compareEffects(effects, command, answer.kind);
    this.#compareEvents();
    this.#compareState();
    this.#checkPromises();
    this.#checkRecords();
  }

  #adopt(effects: readonly LockEffect[]): void {
    for (const effect of effects) {
      if (effect.kind !== "locked") continue;
      if (this.grants.some((grant) => grant.token === effect.grant.token)) continue;
      expect(this.model.adopt(effect.grant)).toBe(true);
      this.#note(effect.grant);
    }
  }

  /** S2: tokens rise over all grants of an object. */
  #note(grant: Grant): void {
    this.grants.push(grant);
    for (const object of grant.objects) {
      expect(grant.token).toBeGreaterThan(this.#lastToken.get(object) ?? 0);
      this.#lastToken.set(object, grant.token);
    }
  }

  #compareEffects(effects: readonly LockEffect[], command: LockCommand, answer: string): void {
    const said = effects.filter((effect) => effect.kind !== "queue").map(effectText);
    expect(said.sort()).toEqual(this.model.effects.sort());
    this.model.effects = [];
    // S3: what was unlocked or failed is never heard of again under the same handle
    for (const effect of effects) {
      if (effect.kind === "locked") expect(this.#ended.has(effect.grant.handle)).toBe(false);
      if (effect.kind !== "unlocked" && effect.kind !== "unlocking") continue;
      const handle = this.grants.find((grant) => grant.token === effect.token)?.handle ?? "";
      expect(this.#ended.has(handle)).toBe(false);
      if (effect.kind === "unlocked") this.#ended.add(handle);
    }
    if (command.kind === "unlock" && answer === "unlocked") this.#ended.add(command.handle);
  }

  #compareEvents(): void {
    const { events } = this.world;
    for (const event of events.slice(this.#checkedEvents)) expect(event.id).toBe(++this.#lastEventId);
    const fresh = events.slice(this.#checkedEvents);
    this.#checkedEvents = events.length;
    const said = fresh.map((event) => `${event.event} ${event.object} ${Number.parseInt(event.ticket, 16)}`);
    expect(said.sort()).toEqual(this.model.events.sort());
    this.model.events = [];
  }

  #compareState(): void {
    const { world, model } = this;
    expect(world.tickets().map(rowText)).toEqual(model.listing());
    const sessions = world.table.sessions({ after: null, limit: 10_000 }).sessions;
    expect(
      sessions.map((s) => `${s.session} ${s.generation} ${s.connected} ${s.heardMs} ${s.held} ${s.waiting}`).sort(),
    ).toEqual(model.sessionList());
  }

  #checkPromises(): void {
    const { world } = this;
    const held = new Map<string, TicketView[]>();
    for (const ticket of world.tickets()) {
      if (ticket.state !== "waiting") {
        held.set(ticket.object, [...(held.get(ticket.object) ?? []), ticket]);
        continue;
      }
      // L1: every wait has ended by its deadline
      expect(ticket.waitDeadlineMs ?? Number.POSITIVE_INFINITY).toBeGreaterThan(world.nowMs);
    }
    // S1: who holds goes together, up to the end of the grace
    for (const tickets of held.values()) {
      const specs = tickets.map(({ mode, permits = 1, count = 1 }) => specOf({ mode, permits, count }));
      expect(goTogether(specs)).toBe(true);
    }
  }

  #checkRecords(): void {
    const { world } = this;
    const before = world.table.stateHash();
    for (const object of ["a", "b", "c"]) {
      world.table.why(object, { waitersMax: 10 });
      world.table.isFree(object, world.nowMs);
    }
    world.table.statistics();
    world.table.nextDeadlineMs();
    expect(world.table.stateHash()).toBe(before);
    expect(LockTable.restore(world.stored, this.limits).stateHash()).toBe(before);
  }
}

function effectText(effect: LockEffect): string {
  switch (effect.kind) {
    case "locked":
      return `locked ${effect.grant.session} ${effect.grant.request} ${effect.grant.message}`;
    case "lockfailed":
      return `lockfailed ${effect.session} ${effect.request} ${effect.code}`;
    case "unlocking":
      return `unlocking ${effect.session} ${effect.request} ${effect.token} ${effect.reason} ${effect.leftMs}`;
    case "unlocked":
      return `unlocked ${effect.session} ${effect.request} ${effect.token} ${effect.reason}`;
    case "queue":
      return `queue ${effect.session} ${effect.request} ${effect.position}`;
  }
}

function rowText(ticket: TicketView): string {
  const place =
    ticket.state === "waiting"
      ? `position ${ticket.position} until ${ticket.waitDeadlineMs ?? null}`
      : `token ${ticket.token} end ${ticket.expiresMs} free ${ticket.freeAtMs}`;
  return `${ticket.object} ${ticket.number} ${ticket.session} ${ticket.state} ${place} ${ticket.value ?? null}`;
}

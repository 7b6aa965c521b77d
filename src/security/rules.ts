/**
 * Who may do what: clients by name, each with rules of object prefixes and actions. Pure; knows no
 * connection, no request and no way to authenticate.
 */

export const ACTIONS = ["lock", "list", "release"] as const;
export type Action = (typeof ACTIONS)[number];

/** The actions are allowed on objects whose names start with the prefix; "" is every object. */
export interface Rule {
  prefix: string;
  actions: readonly Action[];
}

/** Who is at the other end, and how that is known. */
export interface Principal {
  name: string;
  by: "certificate" | "token" | "secret" | "nothing";
}

/** Everybody, where nothing asks who they are. */
export const NOBODY_ASKED: Principal = { name: "", by: "nothing" };

export interface Access {
  /** Whether the client may do that to this object. */
  allows(principal: Principal, action: Action, object: string): boolean;
  /** Whether it may do that to every object: what has no object needs that. */
  allowsAll(principal: Principal, action: Action): boolean;
  /**
   * The part of the objects with this prefix to which it may do that: prefixes of which none begins with
   * another, in the order of UTF-16 code units.
   */
  prefixes(principal: Principal, action: Action, within: string): readonly string[];
}

export class AccessRules implements Access {
  readonly #asks: boolean;
  readonly #byName: ReadonlyMap<string, readonly Rule[]>;

  /** `asks`: whether clients must authenticate at all */
  constructor(options: { asks: boolean; clients: readonly { name: string; allow: readonly Rule[] }[] }) {
    this.#asks = options.asks;
    this.#byName = new Map(options.clients.map(({ name, allow }) => [name, allow]));
  }

  allows(principal: Principal, action: Action, object: string): boolean {
    const rules = this.#rulesOf(principal);
    return rules === "all" || rules.some((rule) => object.startsWith(rule.prefix) && rule.actions.includes(action));
  }

  allowsAll(principal: Principal, action: Action): boolean {
    return this.allows(principal, action, "");
  }

  prefixes(principal: Principal, action: Action, within: string): readonly string[] {
    const rules = this.#rulesOf(principal);
    if (rules === "all") return [within];
    const parts = rules
      .filter(({ prefix, actions }) => actions.includes(action) && (prefix.startsWith(within) || within.startsWith(prefix)))
      .map(({ prefix }) => (prefix.startsWith(within) ? prefix : within));
    // a prefix sorts before all that begin with it
    const sorted = [...new Set(parts)].sort((a, b) => (a < b ? -1 : 1));
    return sorted.filter((part, index) => !sorted.slice(0, index).some((earlier) => part.startsWith(earlier)));
  }

  #rulesOf({ name, by }: Principal): readonly Rule[] | "all" {
    const own = this.#byName.get(name);
    switch (by) {
      case "nothing":
        // it came in before the rules changed
        return this.#asks ? [] : "all";
      case "token":
        return own ?? [];
      case "certificate":
        // without any rule, the CA decides who is let in and that is all
        return own ?? (this.#byName.size === 0 ? "all" : []);
      case "secret":
        return own ?? "all";
    }
  }
}

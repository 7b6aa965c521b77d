/**
 * Holds a conversation with a server, step by step: sends frames over named connections and takes the ones
 * that are expected next. Handles, which the server draws, are told apart by the names given to them.
 */
import { encodeFrame } from "../../src/wire/frame.ts";
import type { Frame } from "../../src/wire/types.ts";
import { RawConnection } from "./raw-connection.ts";

export type Step =
  | { connection: string; from: "client"; frame: Frame }
  /** `frame` is what the next frame of the connection should be like */
  | { connection: string; from: "server"; frame: Frame };

/** What the server sent at a step, null when it ended the connection instead. */
export interface Heard {
  step: Step;
  frame: Frame | null;
}

export async function converse(address: string, steps: readonly Step[]): Promise<Heard[]> {
  const connections = new Map<string, RawConnection>();
  const handles = new Map<string, string>();
  const heard: Heard[] = [];
  try {
    for (const step of steps) {
      const connection = connections.get(step.connection) ?? (await RawConnection.open(address));
      connections.set(step.connection, connection);
      const { type, id, body } = step.frame;
      if (step.from === "client") {
        const handle = body["handle"];
        const real = typeof handle === "string" ? { ...body, handle: handles.get(handle) ?? handle } : body;
        connection.send(encodeFrame(type, id, real));
        continue;
      }
      const frame = await connection.next();
      heard.push({ step, frame });
      if (frame === null) break;
      pair(body["handle"], frame.body["handle"], handles);
    }
  } finally {
    for (const connection of connections.values()) connection.close();
  }
  return heard;
}

function pair(name: unknown, real: unknown, handles: Map<string, string>): void {
  if (typeof name === "string" && typeof real === "string") handles.set(name, real);
}

/** Fields whose value depends on the machine, the moment or chance. */
const VARYING = new Set([
  "address", "cluster", "software", "version", "handle", "sinceAgo", "expiresIn", "waitLeft", "heardAgo", "time", "waited", "uptime", "commit",
  "applied", "freeIn",
]);

/** A body with all that varies replaced by its type, and durations within sentences, too. */
export function lasting(body: unknown, depth = 0): unknown {
  if (Array.isArray(body)) return body.map((item) => lasting(item, depth + 1));
  if (typeof body !== "object" || body === null || body instanceof Uint8Array) return body;
  const ofEvent = "event" in body;
  const entries = Object.entries(body).map(([key, value]: [string, unknown]): [string, unknown] => {
    if (key === "message" && typeof value === "string") return [key, value.replace(/\b[0-9.]+(?:ms|s)\b/g, "(duration)")];
    // what is left of something fresh is exact
    const ofCluster = key === "id" && typeof value === "string";
    const varies = VARYING.has(key) || ofCluster || (key === "held" && ofEvent) || (key === "left" && depth > 0);
    return [key, varies && typeof value !== "object" ? `(${typeof value})` : lasting(value, depth + 1)];
  });
  return Object.fromEntries(entries);
}

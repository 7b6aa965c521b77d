/**
 * The worker around the writer: takes messages, answers each, and fits maintenance between commits.
 * Catches everything: a throw in a worker would leave its batch unanswered.
 */
import { asLockdError } from "../errors.ts";
import type { WriterAnswer, WriterFailure, WriterRequest } from "./writer-protocol.ts";
import { type Effort, Writer } from "./writer.ts";

/** Quiet time after which maintenance does also what is merely useful. */
const IDLE_MS = 200;

declare const self: Worker;

let writer: Writer | null = null;
let failure: WriterFailure | null = null;
let maintenanceScheduled = false;
let idleTimer: ReturnType<typeof setTimeout> | null = null;

self.onmessage = (event: MessageEvent<WriterRequest>) => {
  try {
    handle(event.data);
  } catch (error) {
    fail(error);
  }
};

function handle(request: WriterRequest): void {
  switch (request.kind) {
    case "open":
      writer = new Writer(request.path);
      answer({ kind: "opened" });
      scheduleMaintenance();
      break;
    case "commit":
      commit(request.id, new Uint8Array(request.group));
      break;
    case "close":
      if (idleTimer !== null) clearTimeout(idleTimer);
      close();
      break;
  }
}

function commit(id: number, group: Uint8Array): void {
  if (failure !== null || writer === null) {
    answer({ kind: "failed", failure: failure ?? { code: "failed", message: "write to store: it is closed" } });
    return;
  }
  try {
    writer.commit(group);
  } catch (error) {
    const { code, message, hint } = asLockdError(error);
    if (code !== "overflow") throw error;
    answer({ kind: "rejected", id, failure: hint === undefined ? { code, message } : { code, message, hint } });
    scheduleMaintenance();
    return;
  }
  answer({ kind: "committed", id, walBytes: writer.walBytes });
  writer.committed(group);
  scheduleMaintenance();
}

/** Answers `closed` whatever happens: the other side waits for it. */
function close(): void {
  try {
    if (failure === null) writer?.close();
  } catch (error) {
    fail(error);
  }
  writer = null;
  answer({ kind: "closed" });
}

/** Maintenance goes in small pieces with a turn of the loop after each, so that a commit waits for one at most. */
function scheduleMaintenance(): void {
  if (idleTimer !== null) clearTimeout(idleTimer);
  idleTimer = setTimeout(() => maintain("idle"), IDLE_MS);
  if (maintenanceScheduled) return;
  maintenanceScheduled = true;
  setImmediate(() => {
    maintenanceScheduled = false;
    maintain("busy");
  });
}

function maintain(effort: Effort): void {
  if (writer === null || failure !== null) return;
  try {
    if (!writer.maintain(effort)) return;
  } catch (error) {
    fail(error);
    return;
  }
  if (effort === "idle") setImmediate(() => maintain("idle"));
  else scheduleMaintenance();
}

function fail(error: unknown): void {
  const { code, message, hint } = asLockdError(error);
  failure ??= hint === undefined ? { code, message } : { code, message, hint };
  answer({ kind: "failed", failure });
}

function answer(message: WriterAnswer): void {
  self.postMessage(message);
}

/**
 * The registry of messages: which plugin handles which type, and what becomes of what its handler
 * throws. Knows no socket and no message by name.
 */
import { asLockdError, LockdError } from "../errors.ts";
import type { Logger } from "../observe/types.ts";
import { isFrameType } from "./frame.ts";
import { errorBody } from "./error-body.ts";
import type { BodyParser, Connection, Frame, MessageHandler, MessageRegistry } from "./types.ts";

interface Registered {
  owner: string;
  run(connection: Connection, frame: Frame): void | Promise<void>;
}

/** Types that every connection understands by itself. */
const RESERVED: readonly string[] = ["HELLO", "CHALLENGE", "PROOF", "PING", "PONG", "ERROR", "UNKNOWN"];

export class Messages {
  readonly #registered = new Map<string, Registered>();
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** types that have a handler, sorted */
  get types(): readonly string[] {
    return [...this.#registered.keys()].sort();
  }

  /** The registry as the plugin `owner` sees it. */
  registryFor(owner: string): MessageRegistry {
    return {
      on: (type, parse, handle) => this.#register(owner, type, parse, handle),
    };
  }

  #register<T>(owner: string, type: string, parse: BodyParser<T>, handle: MessageHandler<T>): void {
    if (!isFrameType(type)) {
      throw new LockdError("config", `register message ${JSON.stringify(type)}: plugin ${owner} wants it, and it is not upper-case letters and digits, 32 at most`);
    }
    const taken = this.#registered.get(type)?.owner ?? (RESERVED.includes(type) ? "the core" : undefined);
    if (taken !== undefined) {
      throw new LockdError("config", `register message ${type}: plugin ${owner} and ${taken === "the core" ? taken : `plugin ${taken}`} both want it`);
    }
    this.#registered.set(type, {
      owner,
      run: (connection, frame) => handle(connection, frame.id, parse(frame.body)),
    });
  }

  /**
   * Hands a frame to its handler and answers what the handler throws; never throws itself. The promise,
   * if any, settles when the handler's did. An unknown type is answered with UNKNOWN.
   */
  dispatch(connection: Connection, frame: Frame): void | Promise<void> {
    const registered = this.#registered.get(frame.type);
    if (registered === undefined) return connection.send("UNKNOWN", frame.id, { type: frame.type });
    try {
      const running = registered.run(connection, frame);
      return running instanceof Promise ? running.catch((error: unknown) => this.#answer(connection, frame, error)) : undefined;
    } catch (error) {
      return this.#answer(connection, frame, error);
    }
  }

  #answer(connection: Connection, frame: Frame, thrown: unknown): void {
    const expected = thrown instanceof LockdError;
    if (!expected) {
      const stack = thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown);
      this.#logger.error("handler-failed", { type: frame.type, connection: connection.id, stack });
    }
    // what a defect says of itself is for the log, not for strangers
    const error = expected ? asLockdError(thrown) : new LockdError("failed", `handle ${frame.type}: internal error`);
    if (frame.id !== 0) return connection.send("ERROR", frame.id, errorBody(error));
    if (expected) this.#logger.debug("message-refused", { type: frame.type, connection: connection.id, error: error.message });
    return undefined;
  }
}

/**
 * A server that speaks frames and does what the test scripts: by default a small honest lock service
 * (exclusive locks, sessions with take-over), of which any part can be replaced, delayed or dropped.
 */
import { createServer, type Server, type Socket } from "node:net";
import { tokenDigest } from "../../src/client/protocol.ts";
import { encodeFrame, FRAME_BYTES_MAX, FrameDecoder } from "../../src/wire/frame.ts";
import type { Body, Frame } from "../../src/wire/types.ts";

export interface FakeConnection {
  readonly number: number;
  send(type: string, id: number, body: Body): void;
  destroy(): void;
  end(): void;
}

/** Whether the test has handled the frame; false lets the honest service answer it. */
export type Script = (frame: Frame, connection: FakeConnection) => boolean;

interface FakeTicket {
  session: string;
  request: string;
  objects: readonly string[];
  duration: number;
  unlockDuration: number;
  detached: boolean;
  /** of the newest message when it was granted */
  processed: number;
  state: "waiting" | "locked" | "unlocking";
  handle: string;
  token: number;
  grant: number;
}

interface FakeSession {
  secret: string;
  generation: number;
  connection: FakeConnection;
  newest: number;
  grants: number;
}

export class FakeServer {
  /** every frame that arrived, oldest first */
  readonly frames: (Frame & { connection: number })[] = [];
  readonly tickets: FakeTicket[] = [];
  readonly connections: FakeConnection[] = [];
  script: Script = () => false;
  /** accepts connections and never says a word */
  mute = false;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #sessions = new Map<string, FakeSession>();
  readonly #sessionOf = new Map<FakeConnection, string>();
  #waiters: { matches: () => boolean; resolve: () => void }[] = [];
  #token = 0;
  #port = 0;

  constructor() {
    this.#server = createServer((socket) => this.#accept(socket));
  }

  static async start(port = 0): Promise<FakeServer> {
    const server = new FakeServer();
    await server.listen(port);
    return server;
  }

  listen(port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, "127.0.0.1", () => {
        const address = this.#server.address();
        if (address !== null && typeof address === "object") this.#port = address.port;
        resolve();
      });
    });
  }

  get port(): number {
    return this.#port;
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** Ends the listener and every connection. */
  async stop(): Promise<void> {
    this.cut();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  /** Breaks all connections; the service keeps what it knows. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }

  /** Frames of a type that arrived so far. */
  of(type: string): (Frame & { connection: number })[] {
    return this.frames.filter((frame) => frame.type === type);
  }

  /** Resolves when so many frames of the type have arrived. */
  async arrived(type: string, count = 1): Promise<Frame> {
    await this.until(() => this.of(type).length >= count);
    const frame = this.of(type)[count - 1];
    if (frame === undefined) throw new Error("unreachable");
    return frame;
  }

  /** Resolves when the condition holds after some frame or connection. */
  until(matches: () => boolean): Promise<void> {
    if (matches()) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push({ matches, resolve }));
  }

  get last(): FakeConnection {
    const connection = this.connections.at(-1);
    if (connection === undefined) throw new Error("nobody is connected");
    return connection;
  }

  /** The server's side of a loss: the ticket's owner is told and the ticket is gone. */
  expire(object: string, reason: string, type: "UNLOCKING" | "UNLOCKED" = "UNLOCKED"): void {
    const ticket = this.tickets.find((one) => one.objects.includes(object) && one.state === "locked");
    if (ticket === undefined) throw new Error(`nobody holds ${object}`);
    if (type === "UNLOCKING") ticket.state = "unlocking";
    else this.#drop(ticket);
    const connection = this.#sessions.get(ticket.session)?.connection;
    const body = { request: ticket.request, token: ticket.token, reason };
    connection?.send(type, 0, type === "UNLOCKING" ? { ...body, left: ticket.unlockDuration } : body);
    this.#grantNext();
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    const decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
    const connection: FakeConnection = {
      number: this.connections.length,
      send: (type, id, body) => void (socket.writable && socket.write(encodeFrame(type, id, body))),
      destroy: () => void socket.destroy(),
      end: () => void socket.end(),
    };
    this.connections.push(connection);
    socket.on("error", () => undefined);
    socket.on("close", () => this.#sockets.delete(socket));
    socket.on("data", (chunk: Buffer) => {
      decoder.push(chunk, (frame) => {
        this.frames.push({ ...frame, connection: connection.number });
        if (!this.mute && !this.script(frame, connection)) this.honest(frame, connection);
      });
      this.#wake();
    });
    this.#wake();
  }

  #wake(): void {
    const ready = this.#waiters.filter((waiter) => waiter.matches());
    this.#waiters = this.#waiters.filter((waiter) => !ready.includes(waiter));
    for (const waiter of ready) waiter.resolve();
  }

  /** What a sound server does with the frame. */
  honest(frame: Frame, connection: FakeConnection): void {
    const { id, body } = frame;
    const sessionId = this.#sessionOf.get(connection);
    const session = sessionId === undefined ? undefined : this.#sessions.get(sessionId);
    if (session !== undefined && sessionId !== undefined && ["LOCK", "RENEW", "UNLOCK"].includes(frame.type)) {
      session.newest = Math.max(session.newest, id);
    }
    switch (frame.type) {
      case "HELLO":
        connection.send("HELLO", 0, {
          protocol: 1, role: "server", name: "fake", cluster: "c", software: "test", features: [], frameBytesMax: FRAME_BYTES_MAX,
        });
        break;
      case "PING":
        connection.send("PONG", id, {});
        break;
      case "SESSION":
        this.#openSession(id, body, connection);
        break;
      case "LOCK":
        if (session === undefined || sessionId === undefined) this.#refuse(connection, id, "denied", "no session");
        else this.#lock(sessionId, session, body);
        break;
      case "UNLOCK":
        this.#unlock(id, body, connection, sessionId);
        break;
      case "RENEW":
        if (session !== undefined && sessionId !== undefined) this.#renew(id, body, sessionId, session, connection);
        break;
      case "GOODBYE":
        connection.send("GOODBYE", id, {});
        break;
      default:
        connection.send("UNKNOWN", id, { type: frame.type });
    }
  }

  #refuse(connection: FakeConnection, id: number, code: string, message: string): void {
    connection.send("ERROR", id, { code, message, retryable: false });
  }

  #openSession(id: number, body: Body, connection: FakeConnection): void {
    const session = String(body["session"]);
    const secret = Buffer.from(body["secret"] instanceof Uint8Array ? body["secret"] : []).toString("hex");
    const generation = Number(body["generation"]);
    const known = this.#sessions.get(session);
    if (known !== undefined && (known.secret !== secret || known.generation >= generation)) {
      this.#refuse(connection, id, "denied", "stale session");
      return;
    }
    this.#sessions.set(session, { secret, generation, connection, newest: known?.newest ?? 0, grants: known?.grants ?? 0 });
    this.#sessionOf.set(connection, session);
    const tickets = this.tickets
      .filter((ticket) => ticket.session === session)
      .map((ticket) => ({
        request: ticket.request,
        objects: ticket.objects,
        state: ticket.state,
        ...(ticket.state === "waiting" ? {} : { grant: lockedBody(ticket) }),
      }));
    connection.send("SESSION", id, { session, generation, grace: body["grace"], resumed: known !== undefined, tickets });
  }

  #lock(sessionId: string, session: FakeSession, body: Body): void {
    const request = String(body["request"]);
    const known = this.tickets.find((ticket) => ticket.session === sessionId && ticket.request === request);
    if (known !== undefined) {
      if (known.state === "locked") session.connection.send("LOCKED", 0, lockedBody(known));
      return;
    }
    const { duration, unlockDuration, objects } = body;
    this.tickets.push({
      session: sessionId,
      request,
      objects: Array.isArray(objects) ? objects.map(String) : [],
      duration: typeof duration === "number" ? duration : 10_000,
      unlockDuration: typeof unlockDuration === "number" ? unlockDuration : 5_000,
      detached: body["detached"] === true,
      processed: session.newest,
      state: "waiting",
      handle: "",
      token: 0,
      grant: 0,
    });
    this.#grantNext();
  }

  #grantNext(): void {
    for (const ticket of this.tickets) {
      if (ticket.state !== "waiting") continue;
      const ahead = this.tickets.slice(0, this.tickets.indexOf(ticket));
      if (ahead.some((other) => other.objects.some((object) => ticket.objects.includes(object)))) continue;
      const session = this.#sessions.get(ticket.session);
      if (session === undefined) continue;
      this.#token += 1;
      session.grants += 1;
      ticket.state = "locked";
      ticket.token = this.#token;
      ticket.handle = `handle-${this.#token}`;
      ticket.grant = session.grants;
      ticket.processed = session.newest;
      session.connection.send("LOCKED", 0, lockedBody(ticket));
    }
  }

  #drop(ticket: FakeTicket): void {
    this.tickets.splice(this.tickets.indexOf(ticket), 1);
  }

  #unlock(id: number, body: Body, connection: FakeConnection, session: string | undefined): void {
    const ticket = this.tickets.find((one) =>
      body["handle"] === undefined
        ? one.session === session && one.request === body["request"]
        : one.state !== "waiting" && one.handle === body["handle"],
    );
    if (ticket === undefined) {
      this.#refuse(connection, id, "notheld", "it is not held");
      return;
    }
    this.#drop(ticket);
    if (ticket.state === "unlocking") this.#refuse(connection, id, "lost", "it was lost and is free now");
    else {
      const held = ticket.state === "locked";
      connection.send("UNLOCKED", id, { token: held ? ticket.token : null, held });
    }
    this.#grantNext();
  }

  #renew(id: number, body: Body, sessionId: string, session: FakeSession, connection: FakeConnection): void {
    const seen = Number(body["seen"]);
    const mine = this.tickets.filter(
      (ticket) => ticket.session === sessionId && ticket.state === "locked" && !ticket.detached && ticket.grant <= seen,
    );
    const { tokens, digest, count } = body;
    if (Array.isArray(tokens)) {
      for (const ticket of mine) if (!tokens.includes(ticket.token)) this.#drop(ticket);
      const lost = tokens.filter((token) => !mine.some((ticket) => ticket.token === token));
      connection.send("RENEWED", id, {
        processed: session.newest,
        lost: lost.map((token) => ({ token: Number(token), reason: "lost" })),
        mismatch: false,
      });
      this.#grantNext();
      return;
    }
    const [sum, xor] = tokenDigest(mine.map((ticket) => ticket.token));
    const equal = Array.isArray(digest) && digest[0] === sum && digest[1] === xor && count === mine.length;
    connection.send("RENEWED", id, { processed: session.newest, lost: [], mismatch: !equal });
  }
}

function lockedBody(ticket: FakeTicket): Body {
  return {
    request: ticket.request,
    objects: ticket.objects,
    handle: ticket.handle,
    token: ticket.token,
    left: ticket.duration,
    duration: ticket.duration,
    unlockDuration: ticket.unlockDuration,
    processed: ticket.processed,
    grant: ticket.grant,
  };
}

/**
 * A wire between clients and a server that does what networks do: delays, goes silent in one direction
 * or both, breaks connections, and, looking into the frames, loses or answers single ones. Silence
 * keeps what was sent, as TCP does, and delivers it when it ends.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import { encodeFrame, FRAME_BYTES_MAX, FrameDecoder } from "../../src/wire/frame.ts";
import type { Frame } from "../../src/wire/types.ts";
import { later } from "./cleanup.ts";

export type Direction = "toServer" | "toClient";

/** What becomes of a frame: goes on, is lost, or is answered by the proxy in the server's place. */
export type Verdict = "pass" | "drop" | Frame;

export type Inspect = (direction: Direction, frame: Frame) => Verdict;

class Half {
  readonly #proxy: Proxy;
  readonly #direction: Direction;
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
  readonly #waiting: { bytes: Uint8Array; dueMs: number }[] = [];
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(proxy: Proxy, direction: Direction, from: Socket, to: Socket) {
    this.#proxy = proxy;
    this.#direction = direction;
    this.#from = from;
    this.#to = to;
    from.on("data", (chunk: Buffer) => this.#take(Uint8Array.from(chunk)));
  }

  /** Sends on what may go now. */
  pump(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    for (let first = this.#waiting[0]; first !== undefined && !this.#proxy.silent(this.#direction); first = this.#waiting[0]) {
      const leftMs = first.dueMs - performance.now();
      if (leftMs > 0) {
        this.#timer = setTimeout(() => this.pump(), leftMs);
        return;
      }
      this.#waiting.shift();
      this.#to.write(first.bytes);
    }
  }

  #take(bytes: Uint8Array): void {
    const { inspect } = this.#proxy;
    if (inspect === null) {
      this.#send(bytes);
      return;
    }
    this.#decoder.push(bytes, (frame) => {
      const verdict = inspect(this.#direction, frame);
      if (verdict === "pass") this.#send(encodeFrame(frame.type, frame.id, frame.body));
      else if (verdict !== "drop") this.#from.write(encodeFrame(verdict.type, verdict.id, verdict.body));
    });
  }

  #send(bytes: Uint8Array): void {
    this.#waiting.push({ bytes, dueMs: performance.now() + this.#proxy.delayMs[this.#direction] });
    this.pump();
  }
}

export class Proxy {
  readonly #server: Server;
  readonly #links = new Map<Socket, { server: Socket; halves: readonly Half[] }>();
  readonly #silent = new Set<Direction>();
  /** how long a byte is under way, for those that set out from now on */
  readonly delayMs: Record<Direction, number> = { toServer: 0, toClient: 0 };
  readonly inspect: Inspect | null;
  /** connections accepted so far */
  accepted = 0;

  private constructor(target: { host: string; port: number }, inspect: Inspect | null) {
    this.inspect = inspect;
    this.#server = createServer((client) => this.#link(client, connect(target.port, target.host)));
  }

  /** A wire to `target` that ends with the test. */
  static async start(target: string, inspect: Inspect | null = null): Promise<Proxy> {
    const colon = target.lastIndexOf(":");
    const proxy = new Proxy({ host: target.slice(0, colon), port: Number(target.slice(colon + 1)) }, inspect);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    later(() => proxy.#close());
    return proxy;
  }

  get address(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the proxy listens on a port");
    return `127.0.0.1:${address.port}`;
  }

  silent(direction: Direction): boolean {
    return this.#silent.has(direction);
  }

  /** Nothing arrives any more, and nobody is told: a pulled cable. Without directions: both. */
  cut(...directions: readonly Direction[]): void {
    for (const direction of directions.length > 0 ? directions : (["toServer", "toClient"] as const)) this.#silent.add(direction);
  }

  /** Everything flows again, first what was kept. */
  heal(): void {
    this.#silent.clear();
    for (const { halves } of this.#links.values()) for (const half of halves) half.pump();
  }

  /** Breaks all connections; both ends see it. */
  reset(): void {
    for (const [client, { server }] of this.#links) {
      client.destroy();
      server.destroy();
    }
  }

  #link(client: Socket, server: Socket): void {
    this.accepted += 1;
    const halves = [new Half(this, "toServer", client, server), new Half(this, "toClient", server, client)];
    this.#links.set(client, { server, halves });
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const) {
      one.on("error", () => undefined);
      one.on("close", () => {
        this.#links.delete(client);
        // behind a pulled cable nobody hears that the other end is gone
        if (this.#silent.size === 0) other.destroy();
      });
    }
  }

  #close(): void {
    this.#silent.clear();
    this.reset();
    this.#server.close();
  }
}

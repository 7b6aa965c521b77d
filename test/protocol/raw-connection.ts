/** A client that speaks in bytes: sends what it is given and hands out the frames that come back. */
import { connect, type Socket } from "node:net";
import { FRAME_BYTES_MAX, FrameDecoder } from "../../src/wire/frame.ts";
import type { Frame } from "../../src/wire/types.ts";

export class RawConnection {
  readonly #socket: Socket;
  readonly #arrived: Frame[] = [];
  #wanted: ((frame: Frame | null) => void) | null = null;
  #ended = false;

  private constructor(socket: Socket) {
    const decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => decoder.push(chunk, (frame) => void this.#arrived.push(frame)));
    socket.on("data", () => this.#deliver());
    socket.on("error", () => this.#end());
    socket.on("end", () => this.#end());
    socket.on("close", () => this.#end());
  }

  /** `address` is `host:port`. */
  static async open(address: string): Promise<RawConnection> {
    const colon = address.lastIndexOf(":");
    const socket = connect({ host: address.slice(0, colon), port: Number(address.slice(colon + 1)), noDelay: true });
    const connection = new RawConnection(socket);
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("error", reject);
    });
    return connection;
  }

  send(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  /** The next frame; null when the server has ended the connection and nothing is left. */
  next(): Promise<Frame | null> {
    return new Promise((resolve) => {
      this.#wanted = resolve;
      this.#deliver();
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #end(): void {
    this.#ended = true;
    this.#deliver();
  }

  #deliver(): void {
    const wanted = this.#wanted;
    if (wanted === null) return;
    const frame = this.#arrived.shift() ?? null;
    if (frame === null && !this.#ended) return;
    this.#wanted = null;
    wanted(frame);
  }
}

/**
 * The output of one connection: frames that leave in as few writes as possible, through a socket that
 * takes less than it is given. Decides nothing: who is too slow is for the connection to say.
 */
import { FrameEncoder } from "../wire/frame.ts";
import type { Body } from "../wire/types.ts";
import type { ByteSocket } from "./socket.ts";

/** While the socket is full, output is kept in pieces of about this size, so that none is ever moved. */
const PIECE_BYTES = 64 * 1024;

export class Outbox {
  readonly #socket: ByteSocket;
  readonly #encoder: FrameEncoder;
  /** full pieces in order; of the first, `#written` bytes are gone already */
  #pieces: Uint8Array[] = [];
  #pieceBytes = 0;
  #written = 0;
  #blocked = false;
  #taken = 0;

  constructor(socket: ByteSocket, options: { frameBytesMax: number }) {
    this.#socket = socket;
    this.#encoder = new FrameEncoder(options);
  }

  /** bytes that the socket has not taken yet */
  get bytes(): number {
    return this.#pieceBytes - this.#written + this.#encoder.bytes;
  }

  /** whether the socket took less than it was given, and has not asked for more since */
  get blocked(): boolean {
    return this.#blocked;
  }

  /** bytes that the socket has taken since the start; grows as long as the other side reads */
  get bytesTaken(): number {
    return this.#taken;
  }

  /** Queues a frame. Errors as FrameEncoder.append. */
  append(type: string, id: number, body: Body): void {
    this.#encoder.append(type, id, body);
    if (this.#encoder.bytes >= PIECE_BYTES) this.#cut();
  }

  /** Gives the socket all that it takes. */
  flush(): void {
    while (!this.#blocked) {
      if (this.#pieces.length === 0) this.#cut();
      const piece = this.#pieces[0];
      if (piece === undefined) return;
      const wanted = piece.length - this.#written;
      const taken = Math.max(0, this.#socket.write(piece, this.#written, wanted));
      this.#taken += taken;
      this.#written += taken;
      if (taken < wanted) {
        this.#blocked = true;
        return;
      }
      this.#pieces.shift();
      this.#pieceBytes -= piece.length;
      this.#written = 0;
    }
  }

  /** The socket asks for more. */
  drained(): void {
    this.#blocked = false;
    this.flush();
  }

  /** Forgets all output; nothing can be delivered any more. */
  discard(): void {
    this.#pieces = [];
    this.#pieceBytes = 0;
    this.#written = 0;
    this.#encoder.take();
  }

  #cut(): void {
    const piece = this.#encoder.take();
    if (piece === null) return;
    this.#pieces.push(piece);
    this.#pieceBytes += piece.length;
  }
}

/** A client that sends exactly the bytes it is told, to see what the server makes of bad ones. */
import { connect, type Socket } from "node:net";
import { PROTOCOL_VERSION } from "../../src/client/protocol.ts";
import { encodeFrame, FrameDecoder } from "../../src/wire/frame.ts";
import type { Body, Frame } from "../../src/wire/types.ts";
import { eventually } from "./kit.ts";

export const HELLO: Body = {
  protocol: PROTOCOL_VERSION, role: "client", name: "raw", host: "here", pid: 1, program: "test", software: "test", features: [],
};

export class RawClient {
  readonly socket: Socket;
  readonly frames: Frame[] = [];
  /** bytes that came */
  received = 0;
  closed = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    const decoder = new FrameDecoder({ frameBytesMax: 2 ** 26 });
    socket.on("data", (chunk: Buffer) => {
      this.received += chunk.length;
      decoder.push(chunk, (frame) => this.frames.push(frame));
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.closed = true;
    });
  }

  /** Rejects with the error of the connect. */
  static connect(address: string): Promise<RawClient> {
    const port = Number(address.slice(address.lastIndexOf(":") + 1));
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: "127.0.0.1" });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.off("error", reject);
        resolve(new RawClient(socket));
      });
    });
  }

  static async greeted(address: string): Promise<RawClient> {
    const client = await RawClient.connect(address);
    client.send("HELLO", 0, HELLO);
    await client.frame((frame) => frame.type === "HELLO");
    return client;
  }

  send(type: string, id: number, body: Body): void {
    this.socket.write(encodeFrame(type, id, body));
  }

  /** Waits for a frame. */
  async frame(wanted: (frame: Frame) => boolean): Promise<Frame> {
    await eventually("a frame comes", () => this.closed || this.frames.some(wanted));
    const found = this.frames.find(wanted);
    if (found === undefined) throw new Error(`closed after ${JSON.stringify(this.frames)}`);
    return found;
  }

  /** The answer to a request. */
  async ask(type: string, id: number, body: Body): Promise<Frame> {
    this.send(type, id, body);
    return this.frame((frame) => frame.id === id);
  }

  whenClosed(): Promise<void> {
    return eventually("the server closes the connection", () => this.closed);
  }

  destroy(): void {
    this.socket.destroy();
  }
}

/** A payload, whatever it is, behind its length. */
export function framed(payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(4 + payload.length);
  new DataView(bytes.buffer).setUint32(0, payload.length);
  bytes.set(payload, 4);
  return bytes;
}

/**
 * A crowd that waits for one object: more sessions than one process can keep connections. Each opens a
 * session, asks for the object and leaves its connection; its ticket waits on for the session grace.
 * Speaks frames itself, because the client library would not leave a session behind.
 */
import { connect } from "node:net";
import { LIMITS } from "../../src/client/protocol.ts";
import { assert, LockdError } from "../../src/errors.ts";
import { FRAME_BYTES_MAX, FrameDecoder, FrameEncoder } from "../../src/wire/frame.ts";
import { clientHelloBody } from "../../src/wire/hello.ts";

/** connections at one time: enough to keep the server busy, few enough to leave room for a bystander */
const PARALLEL = 64;

/** Adds `count` waiters for `object`, in any order; resolves when the server has taken in the last. */
export async function addCrowd(server: string, object: string, count: number): Promise<void> {
  let left = count;
  const queueOne = async (): Promise<void> => {
    while (left-- > 0) await queueAbandoned(server, object);
  };
  await Promise.all(Array.from({ length: PARALLEL }, queueOne));
}

function queueAbandoned(server: string, object: string): Promise<void> {
  const colon = server.lastIndexOf(":");
  const socket = connect({ host: server.slice(0, colon), port: Number(server.slice(colon + 1)), noDelay: true });
  const decoder = new FrameDecoder({ frameBytesMax: FRAME_BYTES_MAX });
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.on("close", () => reject(new LockdError("unavailable", "join the crowd: the server closed the connection")));
    socket.on("connect", () => socket.write(greeting()));
    socket.on("data", (chunk: Buffer) => {
      decoder.push(chunk, ({ type, body }) => {
        if (type === "ERROR") reject(new LockdError("failed", `join the crowd: ${String(body["message"])}`));
        // a request before the session's answer would find no session
        if (type === "SESSION") socket.write(request(object));
        // requests are taken in order: whoever answers PING has seen LOCK
        if (type === "PONG") resolve(undefined);
        if (type === "ERROR" || type === "PONG") socket.destroy();
      });
    });
  });
}

function greeting(): Uint8Array {
  const encoder = new FrameEncoder();
  const identity = { name: "crowd", host: "bench", pid: process.pid, program: "bench", software: "bench", features: [] };
  encoder.append("HELLO", 0, clientHelloBody({ role: "client", ...identity }));
  const session = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("base64url");
  const secret = crypto.getRandomValues(new Uint8Array(16));
  encoder.append("SESSION", 1, { session, secret, generation: 1, grace: LIMITS.graceMsMax });
  return bytesOf(encoder);
}

function request(object: string): Uint8Array {
  const encoder = new FrameEncoder();
  encoder.append("LOCK", 2, { request: "1", objects: [object], wait: null });
  encoder.append("PING", 3, {});
  return bytesOf(encoder);
}

function bytesOf(encoder: FrameEncoder): Uint8Array {
  const bytes = encoder.take();
  assert(bytes !== null, "appended frames have bytes");
  return bytes;
}

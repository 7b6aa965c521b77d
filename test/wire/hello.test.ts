import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { LockdError } from "../../src/errors.ts";
import { encodeFrame, FrameDecoder } from "../../src/wire/frame.ts";
import { type Admission, checkAdmission, type ClientHello, clientHelloBody, identityOf, readClientHello, readServerHello, serverHelloBody } from "../../src/wire/hello.ts";
import { NOBODY_ASKED } from "../../src/security/rules.ts";
import type { Body, Frame } from "../../src/wire/types.ts";

const CLIENT = { role: "sync", name: "n", host: "h", pid: 1, program: "p", software: "1.2.3", features: ["a"], cluster: "c" } as const;
const SERVER = { name: "n", cluster: "c", software: "1.2.3", features: [], frameBytesMax: 1 << 24 };
const ADMISSION = { roles: ["client", "sync"], cluster: "c" } as const;

function admitClient(frame: Frame, admission: Admission): ClientHello {
  const hello = readClientHello(frame);
  checkAdmission(hello, admission);
  return hello;
}

function overTheWire(type: string, body: Body): Frame {
  const frames: Frame[] = [];
  new FrameDecoder({ frameBytesMax: 1 << 20 }).push(encodeFrame(type, 0, body), (frame) => frames.push(frame));
  const [frame] = frames;
  if (frame === undefined) throw new Error("no frame");
  return frame;
}

describe("HELLO", () => {
  test("of a client is read as it was written", () => {
    const hello = admitClient(overTheWire("HELLO", clientHelloBody(CLIENT)), ADMISSION);
    expect(hello).toEqual({ protocol: 1, ...CLIENT, features: ["a"] });
    expect(identityOf(hello, "1.2.3.4:5", NOBODY_ASKED)).toEqual({ principal: NOBODY_ASKED, role: "sync", name: "n", host: "h", pid: 1, program: "p", software: "1.2.3", features: ["a"], address: "1.2.3.4:5" });
  });

  test("of a server is read as it was written", () => {
    expect(readServerHello(overTheWire("HELLO", serverHelloBody(SERVER)))).toEqual({ protocol: 1, role: "server", ...SERVER });
  });

  test("without a cluster is at home everywhere", () => {
    const { cluster: _, ...anywhere } = CLIENT;
    expect(admitClient(overTheWire("HELLO", clientHelloBody(anywhere)), ADMISSION).cluster).toBeUndefined();
  });

  test("of another version is refused before its fields are looked at", () => {
    expect(() => admitClient(overTheWire("HELLO", { protocol: 7 }), ADMISSION)).toThrow("speaks protocol 7");
    expect(() => readServerHello(overTheWire("HELLO", { protocol: 7 }))).toThrow("speaks protocol 7");
  });

  test("with any field of a wrong type is refused with the field's name", () => {
    const body = { ...clientHelloBody(CLIENT) };
    for (const field of Object.keys(body)) {
      for (const value of [null, [], {}, -1, 0.5, new Uint8Array(1), [[]], "x".repeat(5000)]) {
        try {
          admitClient(overTheWire("HELLO", { ...body, [field]: value }), ADMISSION);
          // only a list is fine where a list is wanted
          expect([field, value]).toEqual(["features", []]);
        } catch (error) {
          expect(error instanceof LockdError && error.message).toContain(field);
        }
      }
    }
  });

  test("with random fields is refused by a LockdError or accepted, never more", () => {
    const wild = fc.oneof(fc.string().filter((text) => text.isWellFormed()), fc.integer(), fc.constant(null), fc.array(fc.integer(), { maxLength: 3 }));
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom("protocol", "role", "name", "host", "pid", "features", "__proto__"), wild), (fields) => {
        try {
          admitClient(overTheWire("HELLO", { ...clientHelloBody(CLIENT), ...fields }), ADMISSION);
        } catch (error) {
          return error instanceof LockdError;
        }
        return true;
      }),
      { numRuns: 1000 },
    );
  });
});

/**
 * HELLO, the first frame each way: its bodies, and the decision whether a client is let in. Pure
 * functions; knows no socket and no message but this one.
 */
import * as v from "valibot";
import { LIMITS, PROTOCOL_VERSION } from "../client/protocol.ts";
import { LockdError } from "../errors.ts";
import type { Principal } from "../security/rules.ts";
import { bodyParser, integerSchema, textSchema } from "./schema.ts";
import type { Body, Frame, PeerIdentity } from "./types.ts";

/** Until HELLO is through, a connection may send this much and take this long. */
export const HELLO_BYTES_MAX = 64 * 1024;
export const HELLO_TIMEOUT_MS = 5_000;

const FEATURES_MAX = 64;
const PID_MAX = 2 ** 31 - 1;
const ROLES: readonly PeerIdentity["role"][] = ["client", "peer", "sync"];

/** What the side that dials says of itself. */
export interface ClientHello {
  protocol: number;
  role: PeerIdentity["role"];
  /** name of the client program or the computer */
  name: string;
  host: string;
  pid: number;
  program: string;
  software: string;
  features: readonly string[];
  /** id of the cluster that it believes to talk to; absent: any */
  cluster?: string | undefined;
}

/** What the server answers. */
export interface ServerHello {
  protocol: number;
  role: "server";
  name: string;
  /** id of the cluster */
  cluster: string;
  software: string;
  features: readonly string[];
  /** largest frame payload that the server accepts, bytes */
  frameBytesMax: number;
}

const nameSchema = textSchema(LIMITS.nameBytesMax);
const featuresSchema = v.pipe(v.array(nameSchema), v.maxLength(FEATURES_MAX));

const parseProtocol = bodyParser(v.object({ protocol: integerSchema({ min: 0, max: Number.MAX_SAFE_INTEGER }) }));
const parseClient: (body: Body) => ClientHello = bodyParser(
  v.object({
    protocol: v.literal(PROTOCOL_VERSION),
    role: v.picklist(ROLES),
    name: nameSchema,
    host: nameSchema,
    pid: integerSchema({ min: 0, max: PID_MAX }),
    program: textSchema(LIMITS.programBytesMax),
    software: nameSchema,
    features: featuresSchema,
    cluster: v.optional(nameSchema),
  }),
);
const parseServer: (body: Body) => ServerHello = bodyParser(
  v.object({
    protocol: v.literal(PROTOCOL_VERSION),
    role: v.literal("server"),
    name: nameSchema,
    cluster: nameSchema,
    software: nameSchema,
    features: featuresSchema,
    frameBytesMax: integerSchema({ min: 1024, max: 2 ** 32 - 1 }),
  }),
);

/** Body of the client's HELLO. */
export const clientHelloBody = (hello: Omit<ClientHello, "protocol">): Body => ({ protocol: PROTOCOL_VERSION, ...hello });

/** Body of the server's HELLO. */
export const serverHelloBody = (hello: Omit<ServerHello, "protocol" | "role">): Body => ({
  protocol: PROTOCOL_VERSION,
  role: "server",
  ...hello,
});

export interface Admission {
  /** roles that this server has a use for */
  roles: readonly PeerIdentity["role"][];
  cluster: string;
}

/**
 * The client's HELLO from the first frame of a connection. Throws LockdError `protocol` for another
 * first frame or version, `invalid` for a bad field. Says nothing of this server.
 */
export function readClientHello(frame: Frame): ClientHello {
  checkFirst(frame);
  return parseClient(frame.body);
}

/**
 * Whether a client that has said who it is belongs here. Throws LockdError `denied` for a role without
 * use here, `config` for another cluster.
 */
export function checkAdmission(hello: ClientHello, admission: Admission): void {
  if (!admission.roles.includes(hello.role)) {
    throw new LockdError("denied", `greet ${hello.role}: this server serves ${admission.roles.join(", ")}`);
  }
  if (hello.cluster !== undefined && hello.cluster !== admission.cluster) {
    throw new LockdError("config", `greet ${hello.role}: it belongs to cluster ${hello.cluster}, this server to ${admission.cluster}`, {
      hint: "check the address: another lockd cluster answers there",
    });
  }
}

/**
 * The server's HELLO from the first frame that came back. Throws LockdError `protocol` for another
 * first frame or version, `invalid` for a bad field.
 */
export function readServerHello(frame: Frame): ServerHello {
  checkFirst(frame);
  return parseServer(frame.body);
}

function checkFirst(frame: Frame): void {
  if (frame.type !== "HELLO") {
    throw new LockdError("protocol", `greet: the first frame is ${frame.type}, not HELLO`);
  }
  const { protocol } = parseProtocol(frame.body);
  if (protocol !== PROTOCOL_VERSION) {
    throw new LockdError("protocol", `greet: the other side speaks protocol ${protocol}, this one speaks ${PROTOCOL_VERSION}`, {
      hint: "run versions of lockd that belong together",
    });
  }
}

/**
 * Who is connected, as handlers see it. `address` is `ip:port` as seen from here. A name that a
 * certificate or a token proves beats the one that the client gives itself.
 */
export const identityOf = (hello: ClientHello, address: string, principal: Principal): PeerIdentity => ({
  role: hello.role,
  name: principal.by === "certificate" || principal.by === "token" ? principal.name : hello.name,
  principal,
  host: hello.host,
  pid: hello.pid,
  program: hello.program,
  software: hello.software,
  features: hello.features,
  address,
});

/** The client library's public face: what `import … from "lockd"` gives. Everything else may change. */
export { type ErrorCode, LockdError } from "../errors.ts";
export type { ClientSecurity } from "../security/client-security.ts";
export type { ServerIdentity } from "./channel.ts";
export { connect, type ConnectOptions, type ForceOptions, LockdClient, type PluginAnswer } from "./client.ts";
export { type CampaignOptions, type Leader, Leadership } from "./election.ts";
export { type LockFailedDetails, LockFailedError, LockLostError, type LostReason } from "./errors.ts";
export type { EventOptions } from "./event-stream.ts";
export { Lock } from "./lock.ts";
export type { LockOptions } from "./lock-options.ts";
export type {
  BlockerBody,
  CycleEdge,
  EventBody,
  HolderBody,
  KickedBody,
  LockMode,
  ReleasingBody,
  RenewedHandleBody,
  SessionBody,
  StatusBody,
  TicketBody,
  UnlockedBody,
  WhyBody,
} from "./protocol.ts";

/** The client library against a server under test, as a program would use it. */
import { connect, type LockdClient } from "../../src/client/client.ts";

/** A connected client; whoever calls closes it. */
export function connectTo(address: string): Promise<LockdClient> {
  return connect({ servers: [address], name: "library", program: "test", software: "test" });
}

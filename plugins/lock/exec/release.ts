/**
 * Lets go of a lock whose wrapper was killed, so that the next need not wait for the end of the lease.
 * Runs in the supervisor, after the command's group is gone; loads the client library only then.
 */
import { connect } from "../../../src/client/client.ts";
import { readClientSecurity } from "../../../src/security/client-files.ts";
import type { ReleaseOrder } from "./orders.ts";

const RELEASE_MS_MAX = 2_000;

/** One attempt within two seconds. Never rejects: nobody could be told, and the lease ends by itself. */
export async function releaseOrphanedLock(order: ReleaseOrder): Promise<void> {
  const release = async (): Promise<void> => {
    await using client = await connect({
      servers: order.servers,
      security: readClientSecurity(order.files),
      wait: RELEASE_MS_MAX,
      program: "lockd exec (supervisor)",
    });
    await client.unlockHandle(order.handle);
  };
  await Promise.race([release().catch(() => undefined), Bun.sleep(RELEASE_MS_MAX)]);
}

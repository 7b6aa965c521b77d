/** `lockd tls init`: a new private CA in a folder of its own. */
import { join } from "node:path";
import type { CommandContext } from "../../cli/types.ts";
import { LockdError } from "../../errors.ts";
import { writeNewFiles } from "../new-files.ts";
import { createAuthority } from "../x509.ts";

export async function run({ values, out }: CommandContext): Promise<number> {
  const directory = values.stringOrNull("dir");
  if (directory === null) throw new LockdError("usage", "tls init: --dir is missing", { hint: "lockd tls init --dir DIR" });
  const { certificatePem, keyPem } = createAuthority({ name: "lockd CA", nowMs: Date.now(), days: values.number("days") });
  writeNewFiles(directory, [
    { name: "ca-key.pem", text: keyPem, secret: true },
    { name: "ca.pem", text: certificatePem, secret: false },
  ]);
  const certificate = join(directory, "ca.pem");
  const key = join(directory, "ca-key.pem");
  await out.result({ certificate, key }, `${certificate}\n${key}\n`);
  return 0;
}

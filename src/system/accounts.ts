/** Users as /etc/passwd names them. Asks no directory service. */
import { readFileSync } from "node:fs";

export interface Account {
  name: string;
  home: string;
}

/** The account of this process; undefined when the system has no such file, or nobody of this id in it. */
export function currentAccount(): Account | undefined {
  const uid = process.getuid?.();
  try {
    for (const line of readFileSync("/etc/passwd", "utf8").split("\n")) {
      const [name, , id, , , home] = line.split(":");
      if (name !== undefined && id === String(uid)) return { name, home: home ?? "" };
    }
  } catch {
    // a system without that file: the environment has to do
  }
  return undefined;
}

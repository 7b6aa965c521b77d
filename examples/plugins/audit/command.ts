/** `lockd audit`: asks the server by the plugin's own message, and shows the answer as text or JSON. */
import { type CommandContext, readText } from "lockd:api";
import { readEntries, type Totals } from "./totals.ts";

export async function run(context: CommandContext): Promise<number> {
  const [prefix = ""] = context.positionals;
  // --connect and credentials as every command of lockd has them
  const client = await context.connect();
  try {
    let after: string | null = "";
    while (after !== null) {
      // rejects with what the server threw, and tells when it has no such plugin
      const { body } = await client.request("AUDIT", { prefix, after });
      for (const { object, totals } of readEntries(body)) {
        if (context.values.boolean("lost") && totals.lost === 0) continue;
        await context.out.result({ object, ...totals }, line(object, totals));
      }
      after = readText(body, "next", { bytesMax: 1_024, absent: null });
    }
  } finally {
    await client.close();
  }
  return 0;
}

const line = (object: string, { granted, lost, heldMs }: Totals): string =>
  `${JSON.stringify(object)} locked ${granted} times, ${(heldMs / 1000).toFixed(1)} s in all, lost ${lost} times\n`;

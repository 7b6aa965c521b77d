/**
 * redis as a peer: one server that syncs every write before it answers, as the others here do.
 * Needs the Debian package redis-server.
 */
import { freePort, untilReady, type Stage, type StartedProcess } from "../lib/stage.ts";
import { firstLineOf, requireTool } from "../lib/tools.ts";

export interface Redis {
  readonly port: number;
  readonly process: StartedProcess;
}

export async function startRedis(stage: Stage): Promise<Redis> {
  const port = await freePort();
  const server = stage.start([
    requireTool("redis-server", "redis-server"),
    ...["--port", String(port), "--bind", "127.0.0.1", "--dir", stage.folder("redis"), "--daemonize", "no"],
    ...["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxclients", "20000"],
  ]);
  await untilReady(server, "redis", () => answersPing(port));
  return { port, process: server };
}

export function redisVersion(): string {
  return firstLineOf([requireTool("redis-server", "redis-server"), "--version"]);
}

async function answersPing(port: number): Promise<true | null> {
  const client = new Bun.RedisClient(`redis://127.0.0.1:${port}`, { autoReconnect: false });
  try {
    await client.connect();
    return (await client.send("PING", [])) === "PONG" ? true : null;
  } catch {
    return null; // not listening yet
  } finally {
    client.close();
  }
}

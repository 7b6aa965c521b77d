/** A server in a process of its own, for tests that need limits of their own. Tells its state over stdio. */
import { startWorld } from "./kit.ts";

const { server } = startWorld();
console.log(JSON.stringify({ port: server.port, connectionsMax: server.connectionsMax }));

/** Each line on stdin is a question for the state. */
for await (const _ of console) {
  const { user, system } = process.cpuUsage();
  console.log(
    JSON.stringify({
      connections: server.connections,
      listening: server.listening,
      cpuMs: (user + system) / 1000,
      rssBytes: process.memoryUsage.rss(),
    }),
  );
}
await server.stop({ drainMs: 1000 });

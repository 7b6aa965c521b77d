/**
 * The entry of the executable: picks the way to go before anything is loaded, because helpers and
 * `--version` must start in milliseconds. Assembles core and bundled plugins, and nothing else.
 */
import { stdoutWasClosed } from "../src/cli/closed-stdout.ts";
import { softwareVersion } from "../src/version.ts";

const [first = "", ...rest] = process.argv.slice(2);

if (first === "--version" && rest.length === 0 && !stdoutWasClosed()) {
  console.log(`lockd ${await softwareVersion()}`);
} else if (first === "__shim") {
  const { main } = await import("../plugins/lock/exec/shim.ts");
  main(rest);
} else if (first === "__supervise") {
  const { main } = await import("../plugins/lock/exec/supervisor.ts");
  await main();
} else if (first === "__smoke") {
  const [{ smokeRun }, { bundledPlugins, workers }] = await Promise.all([import("../src/cli/smoke.ts"), import("./registry.ts")]);
  console.log(await smokeRun({ software: await softwareVersion(), plugins: bundledPlugins, workers }));
  process.exit(0);
} else {
  const [{ runProgram }, { bundledPlugins }] = await Promise.all([import("../src/cli/run.ts"), import("./registry.ts")]);
  const code = await runProgram({
    args: process.argv.slice(2),
    environment: process.env,
    software: await softwareVersion(),
    plugins: bundledPlugins,
    startServer: async (options) => (await import("../src/server/run.ts")).runServer(options),
  });
  // a connection that a command left open must not keep the process alive
  process.exit(code);
}

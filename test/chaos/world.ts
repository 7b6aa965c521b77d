/** Servers, directories and clients that end with the test. */
import { connect, type ConnectOptions, type LockdClient } from "../../src/client/client.ts";
import { temporaryDirectory, TestServer } from "../e2e/kit.ts";
import { later } from "./cleanup.ts";
import { Load, type LoadOptions } from "./load.ts";

export function directory(name = "chaos"): string {
  const { path, remove } = temporaryDirectory(name);
  later(remove);
  return path;
}

export async function server(options: Partial<Parameters<typeof TestServer.start>[0]> = {}): Promise<TestServer> {
  const started = await TestServer.start({ directory: options.directory ?? directory(), ...options });
  later(() => {
    started.signal("SIGCONT");
    return started.kill();
  });
  return started;
}

/** Another process on the same directory and port, after the first has ended. */
export const restarted = (earlier: TestServer, options: Partial<Parameters<typeof TestServer.start>[0]> = {}): Promise<TestServer> =>
  server({ directory: earlier.directory, listen: earlier.address, ...options });

export async function client(address: string, options: Partial<ConnectOptions> = {}): Promise<LockdClient> {
  const connected = await connect({ servers: [address], wait: 10_000, ...options });
  later(() => connected.close());
  return connected;
}

export function load(options: LoadOptions, env: Readonly<Record<string, string>> = {}): Load {
  const started = new Load(options, env);
  later(() => started.kill());
  return started;
}

/** For `prefix`: a fault, in the words of strace, in the named system calls; all other calls run untouched (--seccomp-bpf). */
export const withFault = (calls: string, fault: string): string[] =>
  ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", `trace=${calls}`, "-e", `inject=${calls}:${fault}`];

/** Runs a tool of the system to its end; throws with its output when it fails. */
export function run(...words: string[]): string {
  const ended = Bun.spawnSync(words, { stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  if (ended.exitCode !== 0) throw new Error(`${words.join(" ")}: exit code ${ended.exitCode}: ${ended.stderr.toString()}`);
  return ended.stdout.toString();
}

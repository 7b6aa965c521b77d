/**
 * etcd as a peer: one durable server of its own, and the load generator that drives it by etcd's own
 * client. Needs the Debian packages etcd-server, etcd-client, golang-go and golang-etcd-server-dev.
 */
import { fileURLToPath } from "node:url";
import { freePort, untilReady, type Stage, type StartedProcess } from "../lib/stage.ts";
import { firstLineOf, requireTool } from "../lib/tools.ts";

export interface Etcd {
  /** `127.0.0.1:PORT` of the client interface */
  readonly address: string;
  readonly process: StartedProcess;
}

/** Starts a server with its default, durable settings: an entry is synced before it is acknowledged. */
export async function startEtcd(stage: Stage): Promise<Etcd> {
  const [clientPort, peerPort] = [await freePort(), await freePort()];
  const client = `http://127.0.0.1:${clientPort}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  const server = stage.start(
    [
      requireTool("etcd", "etcd-server"),
      ...["--data-dir", stage.folder("etcd"), "--logger", "zap", "--log-level", "error", "--log-outputs", "stderr"],
      ...["--listen-client-urls", client, "--advertise-client-urls", client],
      ...["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", `default=${peer}`],
    ],
    // without it etcd refuses to start on arm64; elsewhere it is ignored
    { environment: process.arch === "arm64" ? { ETCD_UNSUPPORTED_ARCH: "arm64" } : {} },
  );
  await untilReady(server, "etcd", () => isHealthy(client));
  return { address: `127.0.0.1:${clientPort}`, process: server };
}

/** Builds the load generator into the stage; the path of the program. About ten seconds the first time. */
export async function buildEtcdLoad(stage: Stage): Promise<string> {
  const program = `${stage.folder("etcd-lock")}/etcd-lock`;
  const build = Bun.spawn([requireTool("go", "golang-go and golang-etcd-server-dev"), "build", "-o", program, "."], {
    cwd: fileURLToPath(new URL("etcd-lock/", import.meta.url)),
    env: { ...process.env, GO111MODULE: "off", GOPATH: "/usr/share/gocode" },
    stdout: "inherit",
    stderr: "inherit",
  });
  if ((await build.exited) !== 0) throw new Error("build etcd-lock: see above; is golang-etcd-server-dev installed?");
  return program;
}

export function etcdVersion(): string {
  return firstLineOf([requireTool("etcd", "etcd-server"), "--version"]);
}

async function isHealthy(url: string): Promise<true | null> {
  try {
    const answer = await fetch(`${url}/health`);
    return (await answer.text()).includes("true") ? true : null;
  } catch {
    return null; // not listening yet
  }
}

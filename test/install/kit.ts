/**
 * The kit of the installer's tests: releases that take no build, servers that hand them out well or
 * badly, and runs of install.sh with a PATH of chosen tools. Commands may run in a mount namespace of
 * their own, so that root's default directory and full disks can be had without touching the machine.
 */
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const INSTALLER = resolve(import.meta.dir, "../../install.sh");

export type Shell = "dash" | "bash" | "busybox";
export const shells: readonly Shell[] = ["dash", "bash"];

/** All that install.sh needs besides a shell, and each may be left out. */
export type Tool = (typeof TOOLS)[number];
const TOOLS = [
  "cat", "chmod", "cp", "curl", "getconf", "grep", "gzip", "head", "id", "ldd", "ls", "mkdir", "mktemp", "mv", "node", "npm",
  "openssl", "rm", "rmdir", "sha256sum", "shasum", "sync", "tr", "uname", "wget",
] as const;

const NOBODY = 65534;

export interface Finished {
  code: number;
  stdout: string;
  stderr: string;
}

/** Something that a test works in, and removes with `using`. */
export class Place {
  readonly path = mkdtempSync(join(tmpdir(), "lockd-install-"));
  readonly home = join(this.path, "home");
  readonly bin = join(this.path, "bin");
  #tools = 0;

  constructor() {
    // nobody must be able to reach what is inside
    chmodSync(this.path, 0o755);
    mkdirSync(this.home);
    chownSync(this.home, NOBODY, NOBODY);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }

  file(name: string, content: string | Uint8Array, mode = 0o644): string {
    const path = join(this.path, name);
    writeFileSync(path, content);
    chmodSync(path, mode);
    return path;
  }

  folder(name: string): string {
    const path = join(this.path, name);
    mkdirSync(path, { recursive: true });
    return path;
  }

  /** A PATH of these tools alone; `stubs` are scripts that take the place of some. */
  tools(options: { without?: readonly Tool[]; stubs?: Readonly<Record<string, string>> } = {}): string {
    const folder = this.folder(`tools-${(this.#tools += 1)}`);
    const stubs = options.stubs ?? {};
    for (const tool of TOOLS) {
      if (options.without?.includes(tool) === true || stubs[tool] !== undefined) continue;
      const real = Bun.which(tool);
      if (real === null) throw new Error(`the tests need ${tool}, which is not installed`);
      symlinkSync(real, join(folder, tool));
    }
    for (const [name, body] of Object.entries(stubs)) {
      writeFileSync(join(folder, name), `#!/bin/sh\n${body}\n`);
      chmodSync(join(folder, name), 0o755);
    }
    return folder;
  }

  /** The names in the directory for executables, hidden ones too; null when it is not there. */
  installed(bin: string = this.bin): string[] | null {
    try {
      return readdirSync(bin).sort();
    } catch {
      return null;
    }
  }
}

export interface RunOptions {
  shell?: Shell;
  args?: readonly string[];
  path?: string;
  env?: Readonly<Record<string, string>>;
  cwd?: string;
  /** default: the one of the repository */
  installer?: string;
  user?: "nobody";
  /** commands of root that prepare a mount namespace, before install.sh runs there */
  mounts?: string;
  /** a command to run there afterwards; its output comes last */
  after?: string;
}

/** Runs install.sh from its file. */
export function install(place: Place, options: RunOptions): Promise<Finished> {
  return finish(startInstall(place, options));
}

export function startInstall(place: Place, options: RunOptions): Bun.Subprocess<"ignore", "pipe", "pipe"> {
  const shell = shellPath(options.shell ?? "dash");
  return start(place, [shell, options.installer ?? INSTALLER, ...(options.args ?? [])], options);
}

/** Runs `curl -fsSL URL/install.sh | sh -s -- ARGS`, or the same with wget. */
export function installByPipe(place: Place, url: string, options: RunOptions & { fetch?: string }): Promise<Finished> {
  const line = `${options.fetch ?? "curl -fsSL"} "$0/install.sh" | "$1" -s -- "\${@:2}"`;
  const outer = ["/bin/bash", "-c", line, url, shellPath(options.shell ?? "dash"), ...(options.args ?? [])];
  return finish(start(place, outer, options));
}

/** What a shell makes of a script on its standard input. */
export function feed(shell: Shell, script: Uint8Array, env: Readonly<Record<string, string>>, cwd: string): { code: number | null; stdout: string } {
  const result = Bun.spawnSync([shellPath(shell), "-s", "--"], { stdin: script, env: { ...env }, cwd, stdout: "pipe", stderr: "ignore" });
  return { code: result.exitCode, stdout: result.stdout.toString() };
}

export async function finish(child: Bun.Subprocess<"ignore", "pipe", "pipe">): Promise<Finished> {
  const [code, stdout, stderr] = await Promise.all([child.exited, new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code, stdout, stderr };
}

function start(place: Place, command: readonly string[], options: RunOptions): Bun.Subprocess<"ignore", "pipe", "pipe"> {
  const env = {
    PATH: options.path ?? place.tools(),
    HOME: place.home,
    TMPDIR: place.folder("tmp"),
    // what would change a bun executable must not reach the one that is tried
    BUN_OPTIONS: "--preload=/nowhere.ts",
    BUN_BE_BUN: "1",
    ...options.env,
  };
  chmodSync(env.TMPDIR, 0o1777);
  const drop = options.user === "nobody" ? ["/usr/bin/setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"] : [];
  const after = options.after === undefined ? "" : `; code=$?; PATH=$PATH:/usr/bin:/bin; { ${options.after}; } 2>&1; exit $code`;
  const inside = options.mounts === undefined ? [] : ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", `OLD=$PATH PATH=/usr/sbin:/usr/bin:/sbin:/bin; ${options.mounts}; PATH=$OLD; "$@"${after}`, "sh"];
  return Bun.spawn([...inside, ...drop, ...command], { env, cwd: options.cwd ?? place.home, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
}

function shellPath(shell: Shell): string {
  const path = Bun.which(shell);
  // that applet of it which PATH has
  if (path !== null && shell === "busybox") return "sh";
  if (path === null) throw new Error(`the tests need ${shell}, which is not installed`);
  return path;
}

/** A program that answers as lockd does when it is tried; refuses to be run with the variables of bun. */
export function standIn(version: string, options: { smokeCode?: number; padding?: Uint8Array } = {}): Uint8Array {
  const script = `#!/bin/sh
[ -z "\${BUN_OPTIONS-}\${BUN_BE_BUN-}" ] || { echo "run with variables of bun" >&2; exit 9; }
case $1 in
  --version) echo "lockd ${version}" ;;
  __smoke) [ ${options.smokeCode ?? 0} = 0 ] || { echo "cannot start a worker" >&2; exit ${options.smokeCode ?? 0}; }; echo ok ;;
esac
exit 0
`;
  return Buffer.concat([new TextEncoder().encode(script), options.padding ?? new Uint8Array()]);
}

/** Writes a release: artifacts by name (packed when the name ends in .gz), their sums, install.sh. */
export function writeRelease(folder: string, artifacts: Readonly<Record<string, Uint8Array>>): string {
  mkdirSync(folder, { recursive: true });
  const sums: string[] = [];
  for (const [name, content] of Object.entries(artifacts)) {
    const bytes = name.endsWith(".gz") ? Bun.gzipSync(new Uint8Array(content), { level: 1 }) : content;
    writeFileSync(join(folder, name), bytes);
    sums.push(`${sha256(bytes)}  ${name}\n`);
  }
  writeFileSync(join(folder, "SHA256SUMS"), sums.join(""));
  copyFileSync(INSTALLER, join(folder, "install.sh"));
  return folder;
}

export function sha256(bytes: Uint8Array): string {
  return new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
}

/** This machine's artifact, as install.sh names it. */
export const platform = `linux-${process.arch === "arm64" ? "arm64" : "x64"}`;
export const artifact = (version: string): string => `lockd-${version}-${platform}.gz`;

export interface ReleaseServer extends Disposable {
  url: string;
  /** paths that were asked for */
  requests: string[];
}

/** Serves a folder over HTTP; `respond` may answer some paths itself. */
export function serveFolder(folder: string, respond?: (path: string) => Response | null): ReleaseServer {
  const requests: string[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const path = new URL(request.url).pathname;
      requests.push(path);
      const own = respond?.(path);
      if (own !== undefined && own !== null) return own;
      const file = Bun.file(join(folder, path));
      return (await file.exists()) ? new Response(file) : new Response("no such file", { status: 404 });
    },
  });
  return { url: `http://127.0.0.1:${server.port}`, requests, [Symbol.dispose]: () => void server.stop(true) };
}

/**
 * Serves a folder, but of the artifact only the first half: then the connection is closed, or stays open
 * in silence. `halfSent` resolves when it has come to that, `closed` when the client has gone.
 */
export function serveHalf(folder: string, then: "close" | "silence"): ReleaseServer & { halfSent: Promise<void>; closed: Promise<void> } {
  const requests: string[] = [];
  const halfSent = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<void>();
  const server = Bun.listen<{ text: string; half: boolean }>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.data = { text: "", half: false };
      },
      data(socket, bytes) {
        socket.data.text += new TextDecoder().decode(bytes);
        const path = /^GET (\S+) [^]*\r\n\r\n/.exec(socket.data.text)?.[1];
        if (path === undefined) return;
        socket.data.text = "";
        requests.push(path);
        const body = readFileSync(join(folder, path));
        const half = path.endsWith(".gz");
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\nConnection: ${half ? "keep-alive" : "close"}\r\n\r\n`);
        socket.write(half ? body.subarray(0, body.length >> 1) : body);
        socket.data.half = half;
        if (!half || then === "close") socket.end();
        if (half) halfSent.resolve();
      },
      close(socket) {
        if (socket.data.half) closed.resolve();
      },
    },
  });
  const url = `http://127.0.0.1:${server.port}`;
  return { url, requests, halfSent: halfSent.promise, closed: closed.promise, [Symbol.dispose]: () => server.stop(true) };
}

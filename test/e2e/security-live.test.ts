/** What does not disturb a server that runs: crowds that say nothing, and new certificates, secrets and rules. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { connect as connectClient, type LockdClient } from "../../src/client/client.ts";
import { environment, eventually, LOCKD, temporaryDirectory, TestServer } from "./kit.ts";
import { HELLO, type Identity, identityFlags, issue, makeAuthority, RawClient, secretFile } from "./security-kit.ts";

const home = temporaryDirectory("security-live");
const at = (name: string): string => join(home.path, name);
const servers: TestServer[] = [];
const clients: LockdClient[] = [];
const secret = secretFile(at("secret"));
let authority: string;
let first: Identity;
let second: Identity;

beforeAll(async () => {
  authority = await makeAuthority(at("ca"));
  first = await issue(authority, "first", at("first"), "--host", "127.0.0.1");
  second = await issue(authority, "second", at("second"), "--host", "127.0.0.1");
});
afterAll(async () => {
  for (const client of clients) await client.close();
  for (const server of servers) await server.kill();
  home.remove();
});

async function start(name: string, flags: readonly string[], prefix: readonly string[] = []): Promise<TestServer> {
  const server = await TestServer.start({ directory: at(name), flags, prefix });
  servers.push(server);
  return server;
}

async function client(server: TestServer, security: Parameters<typeof connectClient>[0]["security"]): Promise<LockdClient> {
  const made = await connectClient({ servers: [server.address], security, wait: 20_000 });
  clients.push(made);
  return made;
}

const text = (path: string): string => readFileSync(path, "utf8");
const secretBytes = new TextEncoder().encode(secret.text);

describe("a thousand connections that do not say who they are", () => {
  test.each<[string, readonly string[], boolean]>([
    ["without TLS", [], false],
    ["with TLS", ["tls"], true],
  ])("do not disturb one that did, and others that do still get in, %s", async (_name, flags, tls) => {
    // descriptors for fewer connections than come
    const server = await start(tls ? "crowd-tls" : "crowd", ["--secret-file", secret.path, ...(flags.length > 0 ? identityFlags(first) : [])], ["prlimit", "--nofile=800:800"]);
    const security = tls ? { tls: { ca: text(first.ca) }, secret: secretBytes } : { secret: secretBytes };
    const mine = await client(server, security);
    const lock = await mine.lock("held", { duration: 1000 });
    const [host = "", port = ""] = server.address.split(":");
    const crowd: Socket[] = [];
    let refusals = 0;
    const join = (): void => {
      const socket = connect(Number(port), host);
      crowd.push(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        refusals += 1;
      });
      // some say nothing, some something that is none of lockd's, some are challenged and wait
      if (crowd.length % 3 === 1) socket.write(Buffer.from([0, 0, 1]));
      if (crowd.length % 3 === 2 && !tls) RawClient.open(server.address).then((raw) => raw.send("HELLO", { ...HELLO, auth: { nonce: new Uint8Array(32) } }), () => undefined);
    };
    try {
      for (let wave = 0; wave < 10; wave += 1) {
        for (let index = 0; index < 100; index += 1) join();
        const status = await mine.status();
        expect(status.ready).toBe(true);
      }
      await eventually("some are turned away", () => refusals > 0);
      // renewed over and over meanwhile
      expect(lock.signal.aborted).toBe(false);
      const another = await mine.lock("another", { wait: 5000 });
      await another.release();
      const late = await client(server, security);
      expect((await late.status()).tickets).toBe(1);
      await lock.release();
    } finally {
      for (const socket of crowd) socket.destroy();
    }
  });

  test("are let go after five seconds each", async () => {
    const server = await start("silent", ["--secret-file", secret.path]);
    const silent = await RawClient.open(server.address);
    const waiting = await RawClient.open(server.address);
    waiting.send("HELLO", { ...HELLO, auth: { nonce: new Uint8Array(32) } });
    await eventually("both are gone", () => silent.closed && waiting.closed);
    expect([silent, waiting].map(({ frames }) => frames.at(-1)?.body["message"])).toEqual(Array(2).fill("greet: no HELLO within 5000 ms"));
  });
});

/** The certificate that new connections are shown. */
function shown(address: string): Promise<string> {
  const [host = "", port = ""] = address.split(":");
  return new Promise((resolve) => {
    const socket = connectTls({ host, port: Number(port), rejectUnauthorized: false }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
    socket.on("error", () => resolve("nobody listens"));
  });
}

const reloads = (server: TestServer): number => server.log.filter((line) => line.includes('"reloaded"') || line.includes('"reload-failed"')).length;

async function reload(server: TestServer): Promise<string> {
  const before = reloads(server);
  server.signal("SIGHUP");
  await eventually("the reload", () => reloads(server) > before);
  return server.log.filter((line) => line.includes('"reloaded"') || line.includes('"reload-failed"')).at(-1) ?? "";
}

describe("a reload", () => {
  test("takes up a new certificate while sessions live: their connection, locks and tokens stay", async () => {
    const files = { cert: at("cert.pem"), key: at("key.pem"), ca: first.ca };
    const install = ({ cert, key }: Identity): void => {
      copyFileSync(cert, files.cert);
      copyFileSync(key, files.key);
    };
    install(first);
    const server = await start("renewed", [...identityFlags(files), "--secret-file", secret.path]);
    const security = { tls: { ca: text(first.ca) }, secret: secretBytes };
    const mine = await client(server, security);
    const lock = await mine.lock("kept", { duration: 2000 });
    expect(await shown(server.address)).toBe("first");

    install(second);
    expect(await reload(server)).toContain('"changed":"certificate"');
    await eventually("the new certificate is shown", async () => (await shown(server.address)) === "second");
    // over the connection that was there before
    expect((await mine.status()).tickets).toBe(1);
    expect(lock.signal.aborted).toBe(false);
    expect(server.log.some((line) => line.includes('"connection-closed"'))).toBe(false);
    const [line = ""] = (await server.run(["list", "kept", "--json", "--tls-ca", first.ca, "--secret-file", secret.path])).stdout.split("\n");
    expect(JSON.parse(line)).toMatchObject({ state: "locked", token: lock.token });

    for (let turn = 0; turn < 5; turn += 1) {
      install(turn % 2 === 0 ? first : second);
      await reload(server);
    }
    expect(lock.signal.aborted).toBe(false);
    await lock.release();
  });

  test("that cannot be, changes nothing and says why", async () => {
    const files = { cert: at("b-cert.pem"), key: at("b-key.pem"), ca: first.ca };
    copyFileSync(first.cert, files.cert);
    copyFileSync(first.key, files.key);
    const server = await start("broken", [...identityFlags(files), "--secret-file", secret.path]);
    copyFileSync(second.key, files.key);
    expect(await reload(server)).toContain("does not belong to the certificate");
    expect(await shown(server.address)).toBe("first");
    expect((await server.run(["list", "--tls-ca", first.ca, "--secret-file", secret.path])).code).toBe(0);
  });

  test("takes up new rules for clients that are connected, and a new secret for those that come", async () => {
    const own = secretFile(at("own-secret"));
    const token = secretFile(at("own-token"));
    const rules = (allow: string): void =>
      writeFileSync(at("rules.toml"), `[[auth.client]]\nname = "ci"\ntoken-file = "own-token"\nallow = [${allow}]\n`);
    rules('{ prefix = "a", actions = ["lock"] }');
    const server = await start("ruled", ["--config", at("rules.toml"), "--secret-file", own.path]);
    const ci = await client(server, { token: token.text });
    const lock = await ci.lock("a1");
    await expect(ci.lock("b1")).rejects.toMatchObject({ code: "denied" });
    rules('{ prefix = "b", actions = ["lock"] }');
    expect(await reload(server)).toContain("auth.client");
    await (await ci.lock("b1")).release();
    await expect(ci.lock("a2")).rejects.toMatchObject({ code: "denied" });
    // what it holds it keeps, and may give back
    expect(lock.signal.aborted).toBe(false);
    await lock.release();

    writeFileSync(own.path, `${"n".repeat(32)}\n`);
    expect(await reload(server)).toContain('"changed":"secret"');
    expect((await server.run(["list", "--secret-file", own.path])).code).toBe(0);
    expect((await server.run(["list", "--secret-file", secret.path])).code).toBe(77);
  });

  test("that would leave a reachable address open is refused", async () => {
    writeFileSync(at("guarded.toml"), `secret-file = "secret"\n`);
    const server = await TestServer.start({ directory: at("guarded"), listen: "0.0.0.0:0", flags: ["--config", at("guarded.toml")] });
    servers.push(server);
    writeFileSync(at("guarded.toml"), "");
    expect(await reload(server)).toContain("nothing asks them who they are");
    const port = server.address.split(":")[1];
    const ended = Bun.spawnSync([LOCKD, "list", "--connect", `127.0.0.1:${port}`], { env: environment() });
    expect(ended.exitCode).toBe(77);
  });
});

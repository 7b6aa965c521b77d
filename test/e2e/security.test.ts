/** Who gets in and who does not, what each may do, and what never leaves the server: against the compiled executable. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { proofOf } from "../../src/security/challenge.ts";
import { encodeFrame } from "../../src/wire/frame.ts";
import { environment, eventually, type Finished, LOCKD, lockd, temporaryDirectory, TestServer } from "./kit.ts";
import { HELLO, type Identity, identityFlags, issue, makeAuthority, RawClient, secretFile } from "./security-kit.ts";

const home = temporaryDirectory("security");
const at = (name: string): string => join(home.path, name);
const servers: TestServer[] = [];
const secret = secretFile(at("secret"));
const otherSecret = secretFile(at("other-secret"));
const ciToken = secretFile(at("ci-token"));
const otherToken = secretFile(at("other-token"));
let authority: string;
let server: Identity;
let alice: Identity;
let stranger: Identity;

async function start(name: string, flags: readonly string[], config = ""): Promise<TestServer> {
  writeFileSync(at(`${name}.toml`), config);
  const started = await TestServer.start({ directory: at(name), flags: ["--config", at(`${name}.toml`), ...flags] });
  servers.push(started);
  return started;
}

const RULES = `
[[auth.client]]
name = "ci"
token-sha256 = "${ciToken.sha256}"
allow = [{ prefix = "ci/", actions = ["lock", "list", "release"] }, { prefix = "common/", actions = ["list"] }]

[[auth.client]]
name = "alice"
allow = [{ prefix = "", actions = ["list"] }]
`;

beforeAll(async () => {
  authority = await makeAuthority(at("ca"));
  server = await issue(authority, "server", at("server"), "--host", "127.0.0.1,localhost");
  alice = await issue(authority, "alice", at("alice"));
  stranger = await issue(await makeAuthority(at("ca2")), "alice", at("stranger"), "--host", "127.0.0.1,localhost");
});
afterAll(async () => {
  for (const each of servers) await each.kill();
  home.remove();
});

/** 77, one sentence and a hint on stderr, nothing on stdout. */
function expectDenied({ code, stdout, stderr }: Finished, sentence: string): void {
  expect([code, stdout, stderr.trimEnd().split("\n").length]).toEqual([77, "", 2]);
  expect(stderr).toContain(sentence);
}

describe("a server with a secret, without TLS", () => {
  let secured: TestServer;
  beforeAll(async () => {
    secured = await start("plain-secret", ["--secret-file", secret.path, "--trace-messages", "--log-level", "trace"]);
  });

  test("serves who knows the secret, with every command", async () => {
    const env = { LOCKD_SECRET_FILE: secret.path };
    expect(await secured.run(["list"], { env })).toMatchObject({ code: 0, stdout: "no locks\n" });
    const taken = await secured.run(["lock", "a"], { env });
    expect(taken.code).toBe(0);
    expect((await secured.run(["why", "a"], { env })).stdout).toContain("a");
    expect((await secured.run(["unlock", taken.stdout.split(" ")[0] ?? ""], { env })).code).toBe(0);
    expect(await secured.run(["exec", "b", "--", "sh", "-c", "echo in"], { env })).toMatchObject({ code: 0, stdout: "in\n" });
    expect((await secured.run(["status"], { env })).code).toBe(0);
  });

  test.each<[string, () => readonly string[], string]>([
    ["shows nothing", () => [], "this server asks who its clients are"],
    ["knows another secret", () => ["--secret-file", otherSecret.path], "the credentials are not accepted"],
    ["has a token that nobody knows", () => ["--token-file", otherToken.path], "the credentials are not accepted"],
  ])("refuses a client that %s: 77 and a sentence, with every command at once", async (_name, flags, sentence) => {
    for (const argv of [["list"], ["lock", "a"], ["status"], ["kick", "A".repeat(22)], ["events"]]) {
      expectDenied(await secured.run([...argv, ...flags()]), sentence);
    }
    expectDenied(await secured.run(["exec", "a", ...flags(), "--", "echo", "never"]), sentence);
  });

  test("and its client say of a secret or token that was given that it is not the right one", async () => {
    const hinted = async (...flags: string[]) => (await secured.run(["list", ...flags])).stderr.split("\n")[1];
    expect(await hinted("--secret-file", otherSecret.path)).toContain("the secret that was given is not the server's");
    expect(await hinted("--token-file", otherToken.path)).toContain("the token that was given is not one of this server's clients");
    expect(await hinted()).toContain("give --secret-file");
  });

  test("tells nothing to who has not said who it is", async () => {
    const client = await RawClient.open(secured.address);
    client.send("HELLO", { ...HELLO, cluster: "guessed", auth: { nonce: new Uint8Array(32) } });
    await eventually("the challenge", () => client.frames.length > 0);
    expect(client.frames).toEqual([{ type: "CHALLENGE", id: 0, body: { nonce: expect.any(Uint8Array) } }]);
    client.send("LISTTICKETS", {}, 7);
    await eventually("the end", () => client.closed);
    expect(client.frames.slice(1)).toEqual([{ type: "ERROR", id: 0, body: { code: "protocol", message: "greet: LISTTICKETS came instead of PROOF", retryable: false } }]);

    for (const first of ["LISTTICKETS", "PING", "PROOF"]) {
      const hasty = await RawClient.open(secured.address);
      hasty.send(first, {}, 1);
      await eventually("the end", () => hasty.closed);
      expect(hasty.frames.map(({ type, body }) => [type, body["code"]])).toEqual([["ERROR", "protocol"]]);
    }
  });

  test("refuses a handshake that is played again", async () => {
    const known = new TextEncoder().encode(secret.text);
    const clientNonce = new Uint8Array(32).fill(7);
    const first = await RawClient.open(secured.address);
    first.send("HELLO", { ...HELLO, auth: { nonce: clientNonce } });
    await eventually("the challenge", () => first.frames.length > 0);
    const serverNonce = first.frames[0]?.body["nonce"];
    if (!(serverNonce instanceof Uint8Array)) throw new Error("no nonce");
    first.send("PROOF", { proof: proofOf({ secret: known, role: "client", clientNonce, serverNonce, certificateHash: new Uint8Array(0) }) });
    await eventually("HELLO", () => first.frames.length > 1);
    expect(first.frames[1]?.type).toBe("HELLO");
    first.socket.destroy();

    const again = await RawClient.open(secured.address);
    for (const bytes of first.sent) again.write(bytes);
    await eventually("the end", () => again.closed);
    expect(again.frames.map(({ type, body }) => [type, body["code"]])).toEqual([["CHALLENGE", undefined], ["ERROR", "denied"]]);
  });

  test("takes at most 64 KiB before HELLO is through", async () => {
    const client = await RawClient.open(secured.address);
    client.send("HELLO", { ...HELLO, auth: { nonce: new Uint8Array(32) }, padding: "x".repeat(40_000) });
    // a frame of an allowed size, whose end never comes
    client.write(encodeFrame("PROOF", 0, { padding: "x".repeat(40_000) }).subarray(0, 30_000));
    await eventually("the end", () => client.closed);
    expect(client.frames.map(({ type, body }) => [type, body["message"]])).toEqual([["CHALLENGE", undefined], ["ERROR", "greet: more than 65536 bytes before HELLO was through"]]);
    const large = await RawClient.open(secured.address);
    large.send("HELLO", { ...HELLO, padding: "x".repeat(70_000) });
    await eventually("the end", () => large.closed);
    expect(large.frames.map(({ type, body }) => [type, body["code"]])).toEqual([["ERROR", "protocol"]]);
  });

  test("has neither secret nor handle in its log, with every frame in it", async () => {
    const [handle = ""] = (await secured.run(["lock", "z"], { env: { LOCKD_SECRET_FILE: secret.path } })).stdout.split(" ");
    await eventually("the frame in the log", () => secured.log.some((line) => line.includes('"PROOF"')));
    const log = secured.log.join("\n");
    expect(log).toContain('"HELLO"');
    for (const hidden of [secret.text, otherSecret.text, otherToken.text, handle]) expect(log.includes(hidden)).toBe(false);
  });
});

describe("a server without a secret", () => {
  test("is refused by a client that has one", async () => {
    const open = await start("open", []);
    expectDenied(await open.run(["list", "--secret-file", secret.path]), "the server did not prove that it knows the secret");
    expect((await open.run(["list"])).code).toBe(0);
  });
});

describe("a server with TLS, certificates, a secret and tokens", () => {
  let secured: TestServer;
  const run = (argv: readonly string[], flags: readonly string[]): Promise<Finished> => {
    const end = argv.indexOf("--");
    return secured.run(end < 0 ? [...argv, ...flags] : [...argv.slice(0, end), ...flags, ...argv.slice(end)]);
  };
  let ci: string[];
  let administrator: string[];
  beforeAll(async () => {
    secured = await start("secured", [...identityFlags(server), "--secret-file", secret.path, "--trace-messages"], RULES);
    ci = ["--tls-ca", server.ca, "--token-file", ciToken.path];
    administrator = ["--tls-ca", server.ca, "--secret-file", secret.path];
  });

  test("serves by name and by address", async () => {
    const port = secured.address.split(":")[1];
    for (const host of ["127.0.0.1", "localhost"]) {
      expect(await lockd(["list", "--connect", `${host}:${port}`, ...administrator])).toMatchObject({ code: 0, stdout: "no locks\n" });
    }
  });

  test.each<[string, () => readonly string[], string]>([
    ["does not speak TLS", () => ["--secret-file", secret.path], "it speaks TLS, and this client was not told to"],
    ["shows nothing", () => ["--tls-ca", server.ca], "this server asks who its clients are"],
    ["knows another secret", () => ["--tls-ca", server.ca, "--secret-file", otherSecret.path], "the credentials are not accepted"],
    ["has an unknown token", () => ["--tls-ca", server.ca, "--token-file", otherToken.path], "the credentials are not accepted"],
    ["has a certificate of another CA", () => ["--tls-cert", stranger.cert, "--tls-key", stranger.key, "--tls-ca", server.ca], "not of a CA that is trusted here"],
    ["trusts another CA", () => ["--tls-ca", stranger.ca, "--secret-file", secret.path], "its certificate is not accepted: it is not of a CA"],
  ])("and a client that %s come apart with 77 and a sentence", async (_name, flags, sentence) => {
    for (const argv of [["list"], ["exec", "ci/a", "--", "echo", "never"]]) expectDenied(await run(argv, flags()), sentence);
  });

  test("is not even asked by a client whose key belongs to another certificate: 78, as a server would say it", async () => {
    const { code, stderr } = await run(["list"], ["--tls-cert", alice.cert, "--tls-key", stranger.key, "--tls-ca", server.ca]);
    expect([code, stderr]).toEqual([78, `lockd: read tls-key ${stranger.key}: it does not belong to the certificate ${alice.cert}\n`]);
  });

  test("is refused when its certificate names another host, or has expired", async () => {
    const elsewhere = await issue(authority, "elsewhere", at("elsewhere"), "--host", "elsewhere.example.org");
    const wrong = await start("wrong-name", [...identityFlags(elsewhere), "--secret-file", secret.path]);
    expectDenied(await wrong.run(["list", ...administrator]), "its certificate does not name 127.0.0.1");
    const expired = await issue(authority, "short", at("short"), "--host", "127.0.0.1", "--days", "1");
    const old = await start("expired", [...identityFlags(expired), "--secret-file", secret.path]);
    const tomorrow = Bun.spawnSync(["faketime", "-f", "+2d", LOCKD, "list", "--connect", old.address, ...administrator], { env: environment(), stderr: "pipe", stdout: "pipe" });
    expect([tomorrow.exitCode, tomorrow.stderr.toString()]).toEqual([77, expect.stringContaining("it has expired")]);
  });

  test("lets a token do what its rule says, and nothing else", async () => {
    expect((await run(["lock", "ci/a"], ci)).code).toBe(0);
    expect((await run(["exec", "ci/b", "--", "true"], ci)).code).toBe(0);
    const outside = (await run(["lock", "other", "--json"], administrator)).stdout;
    const { token: outsideToken }: { token: number } = JSON.parse(outside);
    for (const [argv, what] of [
      [["lock", "other"], 'lock "other"'],
      [["lock", "ci/x", "other"], 'lock "other"'],
      [["lock", "common/x"], 'lock "common/x"'],
      [["exec", "other", "--", "echo", "never"], 'lock "other"'],
      [["why", "other"], 'list "other"'],
      [["wait", "other", "--wait", "0"], 'list "other"'],
      [["release", "other", "--force", "--token", String(outsideToken)], 'release "other" by force'],
      [["sessions"], "list sessions"],
      [["kick", "A".repeat(22)], "kick a session"],
    ] as const) {
      const { code, stdout, stderr } = await run(argv, ci);
      expect([argv, code, stdout]).toEqual([argv, 77, ""]);
      expect(stderr).toContain(`${what}: client ci may not`);
    }
    expect((await run(["status"], ci)).code).toBe(0);
    expect((await run(["why", "ci/a"], ci)).code).toBe(0);
    const held = await run(["list", "ci/a", "--json"], ci);
    const { token }: { token: number } = JSON.parse(held.stdout);
    expect((await run(["release", "ci/a", "--force", "--token", String(token)], ci)).code).toBe(0);
  });

  test("shows each client only what it may see, in listings, events and streams", async () => {
    for (const object of ["a-secret-plan", "ci/1", "ci/2", "common/1", "z-secret-plan"]) expect((await run(["lock", object, "--duration", "5m"], administrator)).code).toBe(0);
    const listed = async (flags: readonly string[], ...words: readonly string[]): Promise<string[]> =>
      (await run(["list", "--json", ...words], flags)).stdout.trim().split("\n").filter((line) => line !== "").map((line) => String(JSON.parse(line).object));
    const all = await listed(administrator);
    expect(all).toContain("a-secret-plan");
    expect(await listed(ci)).toEqual(all.filter((object) => /^(ci|common)\//.test(object)));
    expect(await listed(ci, "ci/1")).toEqual(["ci/1"]);
    expect(await listed(ci, "a-")).toEqual([]);
    expect(await listed(identityFlags(alice))).toEqual(all);
    const events = await run(["events", "--json"], ci);
    expect(events.stdout).toContain('"ci/1"');
    expect(events.stdout).not.toContain("secret-plan");

    const watch = Bun.spawn([LOCKD, "list", "--watch", "--json", "--connect", secured.address, ...ci], { env: environment(), stdout: "pipe", stderr: "pipe", stdin: "ignore" });
    try {
      const lines: string[] = [];
      void (async () => {
        for await (const chunk of watch.stdout) lines.push(new TextDecoder().decode(chunk));
      })();
      let turn = 0;
      await eventually("an event of ci/", async () => {
        turn += 1;
        await run(["exec", `a-secret-plan-${turn}`, "--", "true"], administrator);
        await run(["exec", `ci/watched-${turn}`, "--", "true"], administrator);
        return lines.join("").includes("ci/watched");
      });
      expect(lines.join("")).not.toContain("secret-plan");
    } finally {
      watch.kill("SIGKILL");
      await watch.exited;
    }
  });

  test("gives no cursor that names what may not be seen", async () => {
    const client = await RawClient.open(secured.address, { ca: readFileSync(server.ca, "utf8") });
    client.send("HELLO", { ...HELLO, auth: { token: ciToken.text } });
    await eventually("HELLO", () => client.frames.length > 0);
    const seen: unknown[] = [];
    let after: unknown = null;
    do {
      const count = client.frames.length;
      client.send("LISTTICKETS", { limit: 1, after }, count);
      await eventually("a page", () => client.frames.length > count);
      const body = client.frames.at(-1)?.body ?? {};
      after = body["next"];
      seen.push(body);
    } while (after !== null && seen.length < 100);
    expect(seen.length).toBeGreaterThan(2);
    expect(JSON.stringify(seen)).not.toContain("secret-plan");
    client.socket.destroy();
  });

  test("knows a client by its certificate's name, which listings show", async () => {
    const denied = await run(["lock", "ci/a"], identityFlags(alice));
    expect([denied.code, denied.stderr]).toEqual([77, expect.stringContaining("client alice may not")]);
    const nobody = await issue(authority, "nobody", at("nobody"));
    expect((await run(["lock", "ci/a"], identityFlags(nobody))).code).toBe(77);
    await run(["lock", "ci/named", "--duration", "1m"], ci);
    const [line = ""] = (await run(["list", "ci/named", "--json"], administrator)).stdout.split("\n");
    expect(JSON.parse(line)).toMatchObject({ holder: { name: "ci" } });
  });

  test("lets the supervisor of a killed exec release its lock with the same credentials", async () => {
    const holding = Bun.spawn([LOCKD, "exec", "ci/orphan", "--duration", "1h", "--connect", secured.address, ...ci, "--", "sleep", "1000"], { env: environment(), stdin: "ignore", stdout: "ignore", stderr: "ignore" });
    const isHeld = async (): Promise<boolean> => (await run(["list", "ci/orphan", "--json"], ci)).stdout.includes('"locked"');
    await eventually("it is held", isHeld);
    holding.kill("SIGKILL");
    await holding.exited;
    await eventually("it is released", async () => !(await isHeld()));
  });

  test("shows a secret neither in its log nor in the list of processes", async () => {
    const holding = Bun.spawn([LOCKD, "exec", "ci/ps", "--connect", secured.address, ...ci, "--", "sleep", "1000"], { env: environment(), stdin: "ignore", stdout: "ignore", stderr: "ignore" });
    try {
      await eventually("it is held", async () => (await run(["list", "ci/ps"], ci)).stdout.includes("locked"));
      const listing = Bun.spawnSync(["ps", "-eww", "-o", "args="]).stdout.toString();
      expect(listing).toContain(ciToken.path);
      const log = secured.log.join("\n");
      expect(log).toContain('"HELLO"');
      for (const hidden of [ciToken.text, secret.text, ciToken.sha256]) {
        expect(listing.includes(hidden)).toBe(false);
        expect(log.includes(hidden)).toBe(false);
      }
    } finally {
      holding.kill("SIGTERM");
      await holding.exited;
    }
  });
});

describe("addresses that other machines can reach", () => {
  const refuse = (flags: readonly string[], config = ""): Promise<Finished> => {
    writeFileSync(at("exposed.toml"), config);
    return lockd(["serve", "--listen", "0.0.0.0:0", "--http", "off", "--data", at("exposed"), "--config", at("exposed.toml"), ...flags]);
  };

  test("are refused without authentication, encrypted or not, and for tokens in the clear", async () => {
    const { cert, key } = server;
    for (const [ended, why] of [
      [await refuse([]), "nothing asks them who they are"],
      [await refuse(["--tls-cert", cert, "--tls-key", key]), "nothing asks them who they are"],
      [await refuse([], RULES), "tokens would cross the network in the clear"],
    ] as const) {
      expect([ended.code, ended.stderr]).toEqual([78, expect.stringContaining(why)]);
    }
  });

  test("are served with a secret, with certificates, and with tokens inside TLS", async () => {
    const { cert, key, ca } = server;
    for (const [name, security, config, client] of [
      ["secret", ["--secret-file", secret.path], "", ["--secret-file", secret.path]],
      ["certificate", identityFlags(server), "", identityFlags(alice)],
      ["token", ["--tls-cert", cert, "--tls-key", key], `[[auth.client]]\nname = "ci"\ntoken-sha256 = "${ciToken.sha256}"\nallow = []`, ["--tls-ca", ca, "--token-file", ciToken.path]],
    ] as const) {
      writeFileSync(at("reachable.toml"), config);
      const exposed = await TestServer.start({ directory: at(`reachable-${name}`), listen: "0.0.0.0:0", flags: ["--config", at("reachable.toml"), ...security] });
      servers.push(exposed);
      const port = exposed.address.split(":")[1];
      expect([name, (await lockd(["list", "--connect", `127.0.0.1:${port}`, ...client])).code]).toEqual([name, 0]);
      expect([name, (await lockd(["list", "--connect", `127.0.0.1:${port}`])).code]).toEqual([name, 77]);
    }
  });
});

describe("configuration errors of security", () => {
  test.each<[string, () => readonly string[], string, string]>([
    ["a certificate without key", () => ["--tls-cert", server.cert], "", "needs both tls-cert and tls-key"],
    ["a CA alone", () => ["--tls-ca", server.ca], "", "needs both tls-cert and tls-key"],
    ["another's key", () => ["--tls-cert", server.cert, "--tls-key", alice.key], "", "does not belong to the certificate"],
    ["a key that is none", () => ["--tls-cert", server.cert, "--tls-key", server.cert], "", "not a private key"],
    ["a missing file", () => ["--secret-file", at("nowhere")], "", "no such file"],
    ["a short secret", () => ["--secret-file", at("short-secret")], "", "a secret has 16 to 4096 bytes, this one 5"],
    ["a rule with a mistake", () => [], '[[auth.client]]\nname = "ci"\nallow = [{ prefix = "x", actions = ["steal"] }]', "number 1: allow.0.actions.0 is not accepted"],
    ["rules that nobody can meet", () => [], '[[auth.client]]\nname = "ci"\nallow = []', "nothing by which a client could show who it is"],
    ["two clients with one token", () => [], `${RULES}[[auth.client]]\nname = "again"\ntoken-sha256 = "${ciToken.sha256}"\nallow = []`, "is that of another client"],
  ])("%s: 78 and a sentence that names it", async (_name, flags, config, sentence) => {
    writeFileSync(at("short-secret"), "hello\n");
    writeFileSync(at("bad.toml"), config);
    const ended = await lockd(["serve", "--listen", "127.0.0.1:0", "--http", "off", "--data", at("bad"), "--config", at("bad.toml"), ...flags()]);
    expect([ended.code, ended.stderr]).toEqual([78, expect.stringContaining(sentence)]);
  });

  test("a secret that every user may read is warned of, by its path", async () => {
    const loose = secretFile(at("loose-secret"));
    const guarded = await start("tight", ["--secret-file", secret.path]);
    expect(guarded.log.some((line) => line.includes("secret-readable-by-all"))).toBe(false);
    chmodSync(loose.path, 0o644);
    const warned = await start("loose", ["--secret-file", loose.path]);
    expect(warned.log.find((line) => line.includes("secret-readable-by-all"))).toContain(loose.path);
  });

  test("`--secret-file none` takes back what the configuration file says", async () => {
    const open = await start("taken-back", []);
    writeFileSync(at("client.toml"), 'secret-file = "secret"\n');
    expect((await open.run(["list", "--config", at("client.toml")])).code).toBe(77);
    expect((await open.run(["list", "--config", at("client.toml"), "--secret-file", "none"])).code).toBe(0);
  });

  test("`config show` masks who the clients are, and shows only paths of secrets", async () => {
    writeFileSync(at("show.toml"), `secret-file = "secret"\n${RULES}`);
    for (const flags of [[], ["--json"]]) {
      const shown = await lockd(["config", "show", "--config", at("show.toml"), ...flags]);
      expect(shown.code).toBe(0);
      expect(shown.stdout).toContain(secret.path);
      for (const hidden of [secret.text, ciToken.sha256]) expect(shown.stdout).not.toContain(hidden);
    }
  });
});

describe("lockd tls", () => {
  test("keeps keys to their owner, and overwrites nothing", async () => {
    expect(statSync(join(authority, "ca-key.pem")).mode & 0o777).toBe(0o600);
    expect(statSync(alice.key).mode & 0o777).toBe(0o600);
    const before = readFileSync(join(authority, "ca-key.pem"), "utf8");
    expect(await lockd(["tls", "init", "--dir", authority])).toMatchObject({ code: 78, stderr: expect.stringContaining("it exists") });
    expect(readFileSync(join(authority, "ca-key.pem"), "utf8")).toBe(before);
    const cert = readFileSync(alice.cert, "utf8");
    expect((await lockd(["tls", "issue", "alice", "--dir", authority, "--out", at("alice")])).code).toBe(78);
    expect(readFileSync(alice.cert, "utf8")).toBe(cert);
  });

  test.each<[readonly string[], number, string]>([
    [["tls", "init"], 64, "--dir is missing"],
    [["tls", "issue", "x", "--dir", "ca"], 64, "--out is missing"],
    [["tls", "issue", "a b", "--dir", "ca", "--out", "o"], 64, "is not a name"],
    [["tls", "issue", "x", "--dir", "ca", "--out", "o", "--host", "a b"], 64, "neither a host name nor an IP address"],
    [["tls", "issue", "x", "--dir", "nowhere", "--out", "o"], 78, "no such file"],
    [["tls", "issue", "x", "--dir", "ca", "--out", "o", "--days", "0"], 64, "out of range"],
  ])("%j: %d, and says why", async (argv, code, sentence) => {
    expect(await lockd(argv, { cwd: home.path })).toMatchObject({ code, stderr: expect.stringContaining(sentence), stdout: "" });
  });
});

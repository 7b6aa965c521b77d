/** The client library's security in Node and in Bun, from the same program, against the compiled server. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { environment, temporaryDirectory, TestServer } from "./kit.ts";
import { type Identity, identityFlags, issue, makeAuthority, secretFile } from "./security-kit.ts";
import type { Attempt } from "./security-node-program.ts";

const home = temporaryDirectory("security-node");
const at = (name: string): string => join(home.path, name);
const servers: TestServer[] = [];
const secret = secretFile(at("secret"));
const web: Server = createServer((socket) => socket.on("error", () => undefined).resume().end("HTTP/1.1 400 Bad Request\r\n\r\n"));
let attempts: (Attempt & { outcome: RegExp })[];

beforeAll(async () => {
  const authority = await makeAuthority(at("ca"));
  const identity = (name: string, from = authority, ...flags: string[]): Promise<Identity> => issue(from, name, at(`${name}-${from === authority ? "own" : "other"}`), ...flags);
  const one = await identity("one", authority, "--host", "127.0.0.1,localhost");
  const elsewhere = await identity("elsewhere", authority, "--host", "elsewhere.example.org");
  const ann = await identity("ann");
  const stranger = await identity("ann", await makeAuthority(at("ca2")));
  const start = async (name: string, ...flags: string[]): Promise<string> => {
    const server = await TestServer.start({ directory: at(name), flags });
    servers.push(server);
    return server.address;
  };
  const tls = await start("tls", ...identityFlags(one), "--secret-file", secret.path);
  const named = await start("named", ...identityFlags(elsewhere));
  const plain = await start("plain", "--secret-file", secret.path);
  const open = await start("open");
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
  const address = web.address();
  const other = typeof address === "object" && address !== null ? `127.0.0.1:${address.port}` : "";
  const { ca } = one;
  attempts = [
    { server: tls, ca, secret: secret.text, outcome: /^locked$/ },
    { server: tls.replace("127.0.0.1", "localhost"), ca, secret: secret.text, outcome: /^locked$/ },
    { server: tls, ca, certificate: ann.cert, key: ann.key, outcome: /^locked$/ },
    { server: plain, secret: secret.text, outcome: /^locked$/ },
    { server: tls, ca, outcome: /^denied authenticate client: .* shows nothing$/ },
    { server: tls, ca, secret: `${secret.text}x`, outcome: /^denied authenticate client: the credentials are not accepted$/ },
    { server: tls, ca, certificate: stranger.cert, key: stranger.key, outcome: /^denied .*not of a CA that is trusted here$/ },
    { server: tls, ca: stranger.ca, secret: secret.text, outcome: /^denied connect to .*: its certificate is not accepted: it is not of a CA/ },
    { server: named, ca, outcome: /^denied connect to .*: its certificate does not name 127\.0\.0\.1$/ },
    { server: plain, ca, secret: secret.text, outcome: /^denied connect to .*: it does not speak TLS$/ },
    { server: tls, secret: secret.text, outcome: /^denied greet .*: it speaks TLS, and this client was not told to$/ },
    { server: open, secret: secret.text, outcome: /^denied authenticate .*: the server did not prove that it knows the secret$/ },
    { server: other, outcome: /^unavailable greet .*: it does not speak the protocol of lockd$/ },
    { server: other, ca, outcome: /^denied connect to .*: it does not speak TLS$/ },
  ];
});
afterAll(async () => {
  for (const server of servers) await server.kill();
  web.close();
  home.remove();
});

test.each(["node", "bun"] as const)("in %s each way in works, and each refusal has its own sentence", async (runtime) => {
  const program = join(import.meta.dir, "security-node-program.ts");
  const built = await Bun.build({ entrypoints: [program], target: "node", format: "esm", outdir: home.path, naming: "program.mjs" });
  expect(built.success).toBe(true);
  const child = Bun.spawn([runtime === "node" ? "node" : process.execPath, at("program.mjs"), JSON.stringify(attempts)], { env: environment(), stdout: "pipe", stderr: "pipe" });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text(), child.exited]);
  expect(errors).toBe("");
  const { outcomes }: { outcomes: string[] } = JSON.parse(output);
  expect(outcomes).toEqual(attempts.map(({ outcome }) => expect.stringMatching(outcome)));
});

/**
 * Candidates of all kinds (two `lockd elect`, a program in Node and one in Bun) whose connections are broken
 * a hundred times at random moments, some long enough to lose the leadership. Their common append-only
 * file is the judge: leaderships never overlap, and tokens rise.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { LOCKD, temporaryDirectory, TestServer } from "./kit.ts";
import { Program, type Runtime, Workshop } from "./library-kit.ts";
import { CuttableProxy } from "./proxy.ts";
import { sectionsOf } from "./sections.ts";

setDefaultTimeout(120_000);

const BOUNCES = 100;
const DURATION_MS = 500;
/** Of the leader's wire, every tenth time: long enough for the next one to lead before it is over. */
const STALL_MS = 1_500;
const LEADING_MS = 1_200;
const NAME = "bounced";

const directory = temporaryDirectory("elect-bounces");
let server: TestServer;
let workshop: Workshop;

beforeAll(async () => {
  [server, workshop] = await Promise.all([TestServer.start({ directory: join(directory.path, "data") }), Workshop.open("elect-bounces-programs")]);
  copyFileSync(join(import.meta.dir, "library-program.js"), join(workshop.path, "program.js"));
});
afterAll(async () => {
  await workshop.close();
  await server.kill();
  directory.remove();
});

const LEADING = 'echo "enter $LOCKD_TOKEN" >>"$0"; for i in $(seq 40); do sleep 0.03; echo "beat $LOCKD_TOKEN" >>"$0"; done; echo "leave $LOCKD_TOKEN" >>"$0"';

test("leaderships never overlap while the connections of the candidates are broken a hundred times", async () => {
  const path = join(workshop.path, "sections.log");
  const proxies = await Promise.all([0, 1, 2, 3].map(() => CuttableProxy.start(server.address)));
  let over = false;
  const elect = (address: string): Program =>
    new Program([LOCKD, "elect", NAME, "--connect", address, "--duration", "500ms", "--unlock-duration", "500ms", "--", "sh", "-c", LEADING, path], workshop.path);
  const campaign = (runtime: Runtime) => (address: string): Program => {
    const started = workshop.start(runtime, "program.js", address, NAME, path, String(DURATION_MS), "500", "campaign");
    void started.line("held").then(() => setTimeout(() => started.process.exitCode ?? started.process.stdin.write("end\n"), LEADING_MS));
    return started;
  };
  const codes: number[] = [];
  const running = new Map<CuttableProxy, number>();
  const candidate = async (start: (address: string) => Program, proxy: CuttableProxy): Promise<void> => {
    while (!over) {
      const { process, finished } = start(proxy.address);
      running.set(proxy, process.pid);
      codes.push((await finished).code);
    }
  };
  const kinds = [elect, elect, campaign("bun"), campaign("node")];
  const all = Promise.all(proxies.map((proxy, index) => candidate(kinds[index] ?? elect, proxy)));

  for (let bounce = 1; bounce <= BOUNCES; bounce += 1) {
    if (bounce % 10 === 0) {
      const leader = (await server.list(NAME)).find(({ state }) => state === "locked");
      const proxy = proxies.find((one) => running.get(one) === holderOf(leader));
      proxy?.stall();
      setTimeout(() => proxy?.flow(), STALL_MS);
    } else proxies[Math.floor(Math.random() * proxies.length)]?.reset();
    await Bun.sleep(Math.random() * 160);
  }
  over = true;
  await all;
  for (const proxy of proxies) proxy.close();

  const tokens = sectionsOf(path);
  expect(tokens.length).toBeGreaterThan(5);
  // done, or lost: nothing else may come of a broken connection
  expect(codes.filter((code) => code !== 0 && code !== 76)).toEqual([]);
  expect(await server.list()).toEqual([]);
});

/** Process id of the holder in a line of `list --json`. */
function holderOf(ticket: Record<string, unknown> | undefined): unknown {
  const holder = ticket?.["holder"];
  return typeof holder === "object" && holder !== null && "pid" in holder ? holder.pid : undefined;
}

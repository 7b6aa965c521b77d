import { afterAll, beforeAll, expect, test } from "bun:test";
import { LockWorld, shell } from "./locks-kit.ts";

let world: LockWorld;
beforeAll(async () => {
  world = await LockWorld.start("closed-output");
  await world.lock("job", "--duration", "10m");
});
afterAll(() => world.clear());

for (const words of ["events --follow", "events --follow --json", "list --watch", "leader job --watch"]) {
  test(`${words} ends as SIGPIPE would when its reader leaves, though nothing more happens`, async () => {
    const waits = words.startsWith("list") ? "true" : "head -n 1 > /dev/null";
    const begun = performance.now();
    const ended = await shell(`{ "$BIN" ${words}; echo $? >&2; } | ${waits}`, { LOCKD_CONNECT: world.server.address });
    expect(ended.stderr).toBe("141\n");
    expect(performance.now() - begun).toBeLessThan(20_000);
  });
}

test("events --follow into a file, a device or a pipe that is read goes on", async () => {
  const follow = 'timeout 3 "$BIN" events --follow';
  const script = `f=$(mktemp); ${follow} >"$f"; echo $? >&2; rm "$f"; ${follow} >/dev/null; echo $? >&2; { ${follow}; echo $? >&2; } | cat`;
  expect((await shell(script, { LOCKD_CONNECT: world.server.address })).stderr).toBe("124\n124\n124\n");
});

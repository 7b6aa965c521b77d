import { afterEach, describe, expect, test } from "bun:test";
import { LockdError } from "../../src/errors.ts";
import { HealthChecks } from "../../src/observe/health.ts";
import { addCoreRoutes, type HttpServer, type HttpServerOptions, startHttp } from "../../src/observe/http.ts";
import { isLoopbackHost } from "../../src/loopback.ts";
import { HttpRouter } from "../../src/observe/http-router.ts";
import type { LogLine } from "../../src/observe/log-format.ts";
import { loggerInto } from "../../src/observe/logging.ts";
import { MetricsRegistry } from "../../src/observe/metrics.ts";

const started: HttpServer[] = [];
afterEach(async () => {
  for (const server of started.splice(0)) await server.stop(0);
});

function makeRouter(): { router: HttpRouter; lines: LogLine[] } {
  const lines: LogLine[] = [];
  return { router: new HttpRouter(loggerInto((line) => lines.push(line), "info").logger), lines };
}

async function serve(router: HttpRouter, more: Partial<HttpServerOptions> = {}): Promise<string> {
  const server = await startHttp({ address: { host: "127.0.0.1", port: 0 }, router, ...more });
  started.push(server);
  return `http://${server.address}`;
}

/** The whole answer to a request as typed, until the server closes or a second has passed. */
async function raw(url: string, text: string): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  let answer = "";
  const socket = await Bun.connect({
    hostname: new URL(url).hostname,
    port: Number(new URL(url).port),
    socket: { data: (_, chunk) => void (answer += chunk.toString()), close: () => resolve(answer) },
  });
  socket.write(text);
  const timer = setTimeout(() => resolve(answer), 1000);
  const whole = await promise;
  clearTimeout(timer);
  socket.end();
  return whole;
}

const rejection = async (work: Promise<unknown>): Promise<unknown> => {
  try {
    await work;
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
};

describe("routes of the core", () => {
  async function serveCore(): Promise<{ url: string; ready: (reason: string | null) => void }> {
    const { router } = makeRouter();
    const health = new HealthChecks();
    const metrics = new MetricsRegistry();
    metrics.counter("lockd_x_total", "X.").add(3);
    let reason: string | null = null;
    health.scope("a").add("live", "process", () => ({ ok: true }));
    health.scope("a").add("ready", "engine", () => (reason === null ? { ok: true } : { ok: false, reason }));
    addCoreRoutes(router, health, metrics);
    return { url: await serve(router), ready: (next) => void (reason = next) };
  }

  test("/readyz is 200 or 503 with the checks, and /healthz goes its own way", async () => {
    const { url, ready } = await serveCore();
    const fine = await fetch(`${url}/readyz`);
    expect(fine.status).toBe(200);
    expect(fine.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(await fine.json()).toEqual({ ok: true, checks: [{ name: "engine", ok: true, reason: null }] });
    ready("no quorum");
    const bad = await fetch(`${url}/readyz`);
    expect(bad.status).toBe(503);
    expect(await bad.json()).toEqual({ ok: false, checks: [{ name: "engine", ok: false, reason: "no quorum" }] });
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });

  test("/metrics is Prometheus text", async () => {
    const { url } = await serveCore();
    const response = await fetch(`${url}/metrics`);
    expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(await response.text()).toContain("\nlockd_x_total 3\n");
  });

  test("HEAD gives status and headers and no body", async () => {
    const { url, ready } = await serveCore();
    ready("no quorum");
    const answer = await raw(url, "HEAD /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    expect(answer).toMatch(/^HTTP\/1\.1 503 /);
    expect(answer.toLowerCase()).toContain("content-type: application/json");
    expect(answer).toEndWith("\r\n\r\n");
  });

  test("what is not there is 404 and what is not accepted 405, as JSON", async () => {
    const { url } = await serveCore();
    for (const path of ["/", "/nothing", "/metrics/x", "/healthz/"]) {
      const response = await fetch(url + path);
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({ error: { code: "notfound", message: expect.stringContaining(path) } });
    }
    const refused = await fetch(`${url}/metrics`, { method: "DELETE" });
    expect(refused.status).toBe(405);
    expect(refused.headers.get("allow")).toBe("GET, HEAD");
    expect(await refused.json()).toMatchObject({ error: { code: "invalid" } });
    expect((await fetch(`${url}/metrics`, { method: "OPTIONS" })).status).toBe(405);
  });
});

describe("routes of plugins", () => {
  test("an exact path wins over a prefix, and the longer prefix over the shorter", async () => {
    const { router } = makeRouter();
    const routes = router.scope("dashboard");
    for (const path of ["/ui/*", "/ui/exact", "/ui/deep/*"]) routes.route("GET", path, () => new Response(path));
    const url = await serve(router);
    const at = async (path: string) => (await fetch(url + path)).text();
    expect(await at("/ui/exact")).toBe("/ui/exact");
    expect(await at("/ui/exact/more")).toBe("/ui/*");
    expect(await at("/ui/")).toBe("/ui/*");
    expect(await at("/ui/deep/x")).toBe("/ui/deep/*");
    expect((await fetch(`${url}/ui`)).status).toBe(404);
  });

  test("methods of one path may belong to different plugins", async () => {
    const { router } = makeRouter();
    router.scope("a").route("GET", "/x", () => new Response("got"));
    router.scope("b").route("POST", "/x", async (request) => new Response(`posted ${await request.text()}`));
    const url = await serve(router);
    expect(await (await fetch(`${url}/x`)).text()).toBe("got");
    expect(await (await fetch(`${url}/x`, { method: "POST", body: "body" })).text()).toBe("posted body");
  });

  test("a path taken twice is a configuration error that names both plugins", () => {
    const { router } = makeRouter();
    router.scope("dashboard").route("GET", "/x", () => new Response());
    expect(() => router.scope("raft").route("GET", "/x", () => new Response())).toThrow(/GET \/x: raft and dashboard both/);
  });

  test.each(["x", "/a b", "/a/*/b", "/a*", "/a//b", ""])("the path %p is refused", (path) => {
    const { router } = makeRouter();
    expect(() => router.scope("a").route("GET", path, () => new Response())).toThrow("add HTTP route");
  });

  test("a LockdError of a handler is answered with its status; the log stays quiet", async () => {
    const { router, lines } = makeRouter();
    const codes = { "/invalid": "invalid", "/denied": "denied", "/overflow": "overflow", "/failed": "failed" } as const;
    for (const [path, code] of Object.entries(codes)) {
      router.scope("a").route("GET", path, () => {
        throw new LockdError(code, `do ${code}`);
      });
    }
    const url = await serve(router);
    const statuses = await Promise.all(Object.keys(codes).map(async (path) => (await fetch(url + path)).status));
    expect(statuses).toEqual([400, 403, 503, 500]);
    expect(lines).toEqual([]);
  });

  test("another error is answered without its text, which goes to the log with its stack", async () => {
    const { router, lines } = makeRouter();
    router.scope("dashboard").route("GET", "/x", () => Promise.reject(new Error("the secret of the house")));
    const response = await fetch(`${await serve(router)}/x`);
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain("house");
    expect(lines).toMatchObject([
      { level: "error", msg: "http-handler-failed", fields: { owner: "dashboard", path: "/x", error: "the secret of the house", stack: expect.stringContaining("http.test.ts") } },
    ]);
  });
});

describe("limits", () => {
  test("an event stream outlives the idle time, and a silent answer of another type does not", async () => {
    const { router } = makeRouter();
    const slow = (type: string) => () => {
      const body = new ReadableStream({
        async start(stream) {
          stream.enqueue("data: 1\n\n");
          // idle times are looked at every four seconds
          await Bun.sleep(6000);
          stream.enqueue("data: 2\n\n");
          stream.close();
        },
      });
      return new Response(body, { headers: { "content-type": type } });
    };
    router.scope("a").route("GET", "/events", slow("text/event-stream"));
    router.scope("a").route("GET", "/slow", slow("text/plain"));
    const url = await serve(router, { idleSeconds: 1 });
    const [events, plain] = await Promise.allSettled([
      fetch(`${url}/events`).then((response) => response.text()),
      fetch(`${url}/slow`).then((response) => response.text()),
    ]);
    expect(events).toEqual({ status: "fulfilled", value: "data: 1\n\ndata: 2\n\n" });
    expect(plain.status).toBe("rejected");
  }, 20_000);

  test("HEAD of an event stream ends at once", async () => {
    const { router } = makeRouter();
    const cancelled = Promise.withResolvers<void>();
    router.scope("a").route("GET", "/events", () => {
      return new Response(new ReadableStream({ cancel: () => cancelled.resolve() }), { headers: { "content-type": "text/event-stream" } });
    });
    const response = await fetch(`${await serve(router)}/events`, { method: "HEAD" });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    await cancelled.promise;
  });

  test("a body over the limit is refused before a handler sees it", async () => {
    const { router } = makeRouter();
    let seen = 0;
    router.scope("a").route("POST", "/x", async (request) => new Response(String((seen = (await request.bytes()).length))));
    const url = await serve(router);
    expect((await fetch(`${url}/x`, { method: "POST", body: new Uint8Array(1024 * 1024 + 1) })).status).toBe(413);
    expect(seen).toBe(0);
    expect((await fetch(`${url}/x`, { method: "POST", body: new Uint8Array(1024 * 1024) })).status).toBe(200);
  });

  test("more requests at once than the limit are answered 503, and served again afterwards", async () => {
    const { router } = makeRouter();
    const go = Promise.withResolvers<void>();
    const entered = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let count = 0;
    router.scope("a").route("GET", "/x", async () => {
      entered[count++]?.resolve();
      await go.promise;
      return new Response("done");
    });
    const url = await serve(router, { requestsMax: 2 });
    const first = [fetch(`${url}/x`), fetch(`${url}/x`)];
    await Promise.all(entered.map(({ promise }) => promise));
    const refused = await fetch(`${url}/x`);
    expect(refused.status).toBe(503);
    expect(await refused.json()).toMatchObject({ error: { code: "overflow", retryable: true } });
    go.resolve();
    expect(await Promise.all(first.map(async (response) => (await response).text()))).toEqual(["done", "done"]);
    expect((await fetch(`${url}/x`)).status).toBe(200);
  });

  test("stop waits for an answer under way, and cuts a stream after its limit", async () => {
    const { router } = makeRouter();
    const entered = Promise.withResolvers<void>();
    router.scope("a").route("GET", "/slow", async () => {
      entered.resolve();
      await Bun.sleep(100);
      return new Response("done");
    });
    router.scope("a").route("GET", "/events", () => {
      return new Response(new ReadableStream({ start: (stream) => stream.enqueue("data: 1\n\n") }), { headers: { "content-type": "text/event-stream" } });
    });
    const first = await startHttp({ address: { host: "127.0.0.1", port: 0 }, router });
    const answer = fetch(`http://${first.address}/slow`).then((response) => response.text());
    await entered.promise;
    await first.stop(5000);
    expect(await answer).toBe("done");
    expect(await rejection(fetch(`http://${first.address}/slow`))).toBeInstanceOf(Error);

    const second = await startHttp({ address: { host: "127.0.0.1", port: 0 }, router });
    const events = await fetch(`http://${second.address}/events`);
    await second.stop(50);
    expect(await rejection(events.text())).toBeInstanceOf(Error);
  });
});

describe("requests that a page elsewhere makes a browser send", () => {
  async function serveGuarded(): Promise<string> {
    const { router } = makeRouter();
    router.scope("a").route("GET", "/x", () => new Response("got"));
    router.scope("a").route("POST", "/x", () => new Response("done"));
    return serve(router);
  }
  const head = (method: string, headers: string): string => `${method} /x HTTP/1.1\r\n${headers}Connection: close\r\nContent-Length: 0\r\n\r\n`;

  test.each(["127.0.0.1", "localhost:80", "LOCALHOST", "[::1]:9", "127.9.9.9", "x.localhost"])("Host %s is answered on loopback", async (host) => {
    expect(await raw(await serveGuarded(), head("GET", `Host: ${host}\r\n`))).toStartWith("HTTP/1.1 200");
  });

  test.each(["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil", "[::2]", "2130706434.evil"])("Host %s is refused on loopback", async (host) => {
    const answer = await raw(await serveGuarded(), head("GET", `Host: ${host}\r\n`));
    expect(answer).toStartWith("HTTP/1.1 403");
    expect(answer).toContain('"code":"denied"');
  });

  test.each(["", "Host: \r\n", "Host: a b\r\n"])("a malformed head (%p) is a bad request", async (headers) => {
    expect(await raw(await serveGuarded(), head("GET", headers))).toStartWith("HTTP/1.1 400");
  });

  test("HTTP/1.0 without Host is a bad request", async () => {
    expect(await raw(await serveGuarded(), "GET /x HTTP/1.0\r\n\r\n")).toStartWith("HTTP/1.1 400");
  });

  test("what changes something is refused from another origin, and reading is not", async () => {
    const url = await serveGuarded();
    const host = new URL(url).host;
    const origin = (name: string) => `Host: ${host}\r\nOrigin: ${name}\r\n`;
    expect(await raw(url, head("POST", origin("https://evil.example")))).toStartWith("HTTP/1.1 403");
    expect(await raw(url, head("POST", origin("null")))).toStartWith("HTTP/1.1 403");
    expect(await raw(url, head("POST", origin("http://127.0.0.1:1")))).toStartWith("HTTP/1.1 403");
    expect(await raw(url, head("POST", origin(`http://${host}`)))).toStartWith("HTTP/1.1 200");
    expect(await raw(url, head("POST", `Host: ${host}\r\n`))).toStartWith("HTTP/1.1 200");
    expect(await raw(url, head("GET", origin("https://evil.example")))).toStartWith("HTTP/1.1 200");
  });

  test("a server on the network answers to any name", async () => {
    const { router } = makeRouter();
    router.scope("a").route("GET", "/x", () => new Response("got"));
    const url = await serve(router, { address: { host: "0.0.0.0", port: 0 } });
    expect(await raw(url, head("GET", "Host: lockd.example\r\n"))).toStartWith("HTTP/1.1 200");
  });
});

describe("isLoopbackHost", () => {
  test.each(["localhost", "localhost.", "127.0.0.1", "127.255.0.1", "::1", "::1%lo", "::ffff:127.0.0.1", "::ffff:7f00:1"])("%s is", (host) => {
    expect(isLoopbackHost(host)).toBe(true);
  });
  test.each(["0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "127.0.0.1.example", "127.example", "example", "", "::ffff:10.0.0.1", "::ffff:8f00:1", "fe80::1"])("%s is not", (host) => {
    expect(isLoopbackHost(host)).toBe(false);
  });
});

describe("an address that cannot be bound is a configuration error that names it", () => {
  test("in use", async () => {
    const { router } = makeRouter();
    const port = Number(new URL(await serve(router)).port);
    const error = await rejection(startHttp({ address: { host: "127.0.0.1", port }, router }));
    expect(error).toMatchObject({ code: "config", hint: expect.stringContaining("--http") });
    expect(String(error)).toContain(`listen on 127.0.0.1:${port}: the address is in use`);
  });

  test("of another machine, or a name that does not resolve", async () => {
    const { router } = makeRouter();
    expect(String(await rejection(startHttp({ address: { host: "203.0.113.7", port: 0 }, router })))).toContain("203.0.113.7:0: it is not an address of this machine");
    const unknown = await rejection(startHttp({ address: { host: "nowhere.invalid", port: 0 }, router }));
    expect(unknown).toMatchObject({ code: "config" });
    expect(String(unknown)).toContain("nowhere.invalid does not resolve");
  });
});

/**
 * The HTTP server: the port, its limits, and the routes of the core (/healthz, /readyz, /metrics).
 * Knows no plugin; their routes come through the router.
 */
import { lookup } from "node:dns/promises";
import { type Address, formatAddress } from "../config/address.ts";
import { LockdError } from "../errors.ts";
import type { HealthChecks } from "./health.ts";
import { isLoopbackHost } from "../loopback.ts";
import { refusalOf } from "./http-guard.ts";
import { errorAnswer, type HttpRouter, jsonAnswer } from "./http-router.ts";
import { METRICS_CONTENT_TYPE, type MetricsRegistry } from "./metrics.ts";

const BODY_BYTES_MAX = 1024 * 1024;
/** Requests under way, event streams included. */
const REQUESTS_MAX = 256;

export interface HttpServer {
  /** `host:port` with the real port */
  readonly address: string;
  /** Takes no new connection, waits for answers under way up to `limitMs`, then cuts what is left. */
  stop(limitMs: number): Promise<void>;
}

export interface HttpServerOptions {
  address: Address;
  router: HttpRouter;
  /** seconds without traffic after which a connection is closed; event streams are exempt */
  idleSeconds?: number;
  requestsMax?: number;
}

/** Throws LockdError `config` when the address cannot be bound, naming it. */
export async function startHttp(options: HttpServerOptions): Promise<HttpServer> {
  const { address, router } = options;
  const hostname = await resolveHost(address);
  const boundTo = isLoopbackHost(hostname) ? "loopback" : "network";
  const requestsMax = options.requestsMax ?? REQUESTS_MAX;
  let server: Bun.Server<undefined>;
  try {
    server = Bun.serve({
      hostname,
      port: address.port,
      maxRequestBodySize: BODY_BYTES_MAX,
      idleTimeout: options.idleSeconds ?? 10,
      development: false,
      // without this line `development: false` shares the port with any other process that does the same
      reusePort: false,
      fetch: async (request, self) => {
        if (self.pendingRequests > requestsMax) {
          return errorAnswer(new LockdError("overflow", `serve request: ${requestsMax} others are under way`));
        }
        const refusal = refusalOf(request, boundTo);
        return finish(request, self, refusal === null ? await router.handle(request) : errorAnswer(refusal));
      },
    });
  } catch (error) {
    throw new LockdError("config", `listen on ${formatAddress(address)}: ${bindReason(error)}`, {
      hint: "choose another address with --http, or --http off",
      cause: error,
    });
  }
  return {
    address: formatAddress({ host: address.host, port: server.port ?? address.port }),
    stop: (limitMs) => stopServer(server, limitMs),
  };
}

/** Adds what every answer gets, and what streams need. */
function finish(request: Request, server: Bun.Server<undefined>, response: Response): Response {
  response.headers.set("x-content-type-options", "nosniff");
  if (response.headers.get("content-type")?.startsWith("text/event-stream") !== true) return response;
  if (request.method === "HEAD") {
    void response.body?.cancel();
    return new Response(null, { status: response.status, headers: response.headers });
  }
  // a stream may be silent for long: without this it is cut after the idle time
  server.timeout(request, 0);
  return response;
}

async function stopServer(server: Bun.Server<undefined>, limitMs: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  await Promise.race([server.stop(false), new Promise<void>((resolve) => (timer = setTimeout(resolve, limitMs)))]);
  clearTimeout(timer);
  await server.stop(true);
}

/** Bun reports a name that does not resolve as a port in use, so names are resolved before. */
async function resolveHost(address: Address): Promise<string> {
  try {
    return (await lookup(address.host)).address;
  } catch (error) {
    throw new LockdError("config", `listen on ${formatAddress(address)}: the name ${address.host} does not resolve`, {
      hint: "give an address of this machine with --http",
      cause: error,
    });
  }
}

function bindReason(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "EADDRINUSE") return "the address is in use by another process";
  if (code === "EADDRNOTAVAIL") return "it is not an address of this machine";
  if (code === "EACCES") return "this user may not listen on it";
  return error instanceof Error ? error.message : String(error);
}

/** The routes that every server has. */
export function addCoreRoutes(router: HttpRouter, health: HealthChecks, metrics: MetricsRegistry): void {
  const routes = router.scope("lockd");
  for (const [path, kind] of [["/healthz", "live"], ["/readyz", "ready"]] as const) {
    routes.route("GET", path, () => {
      const report = health.report(kind);
      return jsonAnswer(report, report.ok ? 200 : 503);
    });
  }
  routes.route("GET", "/metrics", () => {
    return new Response(metrics.render(), { headers: { "content-type": METRICS_CONTENT_TYPE, "cache-control": "no-store" } });
  });
}

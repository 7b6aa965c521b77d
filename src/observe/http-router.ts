/**
 * Which handler answers a request: routes by method and path, the refusals, and answers as JSON. Knows
 * no socket; http.ts serves it.
 */
import { type ErrorCode, LockdError } from "../errors.ts";
import type { HttpHandler, HttpRoutes, Logger } from "./types.ts";

type Method = Parameters<HttpRoutes["route"]>[0];

interface Route {
  /** without the `*`, with the slash before it, when it is a prefix */
  path: string;
  kind: "exact" | "prefix";
  handlers: Map<Method, { owner: string; handler: HttpHandler }>;
}

const PATH = /^\/(?:[A-Za-z0-9._~-]+\/)*(?:[A-Za-z0-9._~-]+|\*)?$/;

const STATUS: Readonly<Partial<Record<ErrorCode, number>>> = {
  usage: 400,
  invalid: 400,
  denied: 403,
  notfound: 404,
  notheld: 404,
  duplicate: 409,
  precondition: 409,
  unavailable: 503,
  overflow: 503,
};

export class HttpRouter {
  readonly #logger: Logger;
  readonly #routes = new Map<string, Route>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** The interface for one owner, whose name errors carry. */
  scope(owner: string): HttpRoutes {
    return { route: (method, path, handler) => this.#add(owner, method, path, handler) };
  }

  #add(owner: string, method: Method, path: string, handler: HttpHandler): void {
    if (!PATH.test(path)) {
      throw new LockdError("config", `add HTTP route ${path}: not an absolute path of plain characters, with at most a * as its last part`);
    }
    const kind = path.endsWith("/*") ? "prefix" : "exact";
    const route = this.#routes.get(path) ?? { path: kind === "prefix" ? path.slice(0, -1) : path, kind, handlers: new Map() };
    const taken = route.handlers.get(method);
    if (taken !== undefined) {
      throw new LockdError("config", `add HTTP route ${method} ${path}: ${owner} and ${taken.owner} both serve it`);
    }
    route.handlers.set(method, { owner, handler });
    this.#routes.set(path, route);
  }

  /** Always answers: refusals and failures of handlers as JSON errors. */
  async handle(request: Request): Promise<Response> {
    if (!URL.canParse(request.url)) return errorAnswer(new LockdError("invalid", "read request: it has no Host header"));
    const path = new URL(request.url).pathname;
    const route = this.#find(path);
    if (route === undefined) return errorAnswer(new LockdError("notfound", `serve ${path}: there is nothing at this path`));
    // RFC 9110 9.3.2: HEAD is GET without the body, which the server leaves away
    const method = request.method === "HEAD" ? "GET" : request.method;
    const found = [...route.handlers].find(([name]) => name === method)?.[1];
    if (found === undefined) return methodRefused(request.method, path, route);
    try {
      return await found.handler(request);
    } catch (error) {
      return this.#failed(error, request.method, path, found.owner);
    }
  }

  /** The exact path, else the longest prefix. */
  #find(path: string): Route | undefined {
    const exact = this.#routes.get(path);
    if (exact?.kind === "exact") return exact;
    let longest: Route | undefined;
    for (const route of this.#routes.values()) {
      if (route.kind === "prefix" && path.startsWith(route.path) && route.path.length > (longest?.path.length ?? 0)) longest = route;
    }
    return longest;
  }

  #failed(error: unknown, method: string, path: string, owner: string): Response {
    if (error instanceof LockdError) return errorAnswer(error);
    // what an unexpected error says may not be for everybody who can send a request: it goes to the log
    this.#logger.error("http-handler-failed", {
      method,
      path,
      owner,
      error: error instanceof Error ? error.message : String(error),
      stack: error instanceof Error ? error.stack : undefined,
    });
    return errorAnswer(new LockdError("failed", `serve ${path}: internal error, see the server's log`));
  }
}

function methodRefused(method: string, path: string, route: Route): Response {
  const allowed = [...route.handlers.keys()].flatMap((name) => (name === "GET" ? ["GET", "HEAD"] : [name])).join(", ");
  const response = errorAnswer(new LockdError("invalid", `serve ${path}: ${method} is not accepted, only ${allowed}`), 405);
  response.headers.set("allow", allowed);
  return response;
}

/** The error as JSON, with a status that fits its code unless one is given. */
export function errorAnswer(error: LockdError, status: number = STATUS[error.code] ?? 500): Response {
  return jsonAnswer({ error: error.toJSON() }, status);
}

/** A JSON answer that no cache keeps. */
export function jsonAnswer(body: unknown, status: number): Response {
  return new Response(`${JSON.stringify(body)}\n`, {
    status,
    headers: { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" },
  });
}

/**
 * Which HTTP requests are refused before any route sees them: those that a web page elsewhere makes a
 * browser send to a server that trusts its own machine. Pure functions of the request's head.
 */
import { LockdError } from "../errors.ts";
import { isLoopbackHost } from "../loopback.ts";

/**
 * A reason to refuse the request, or null.
 * A server on loopback answers to loopback names only: a page whose own name was pointed at 127.0.0.1
 * (DNS rebinding) keeps sending that name. Any server refuses what changes something when it was sent
 * by a page of another origin.
 */
export function refusalOf(request: Request, boundTo: "loopback" | "network"): LockdError | null {
  const host = request.headers.get("host");
  if (host === null || !URL.canParse(`http://${host}/`)) return new LockdError("invalid", "read request: its Host header is missing or malformed");
  const hostname = new URL(`http://${host}/`).hostname.replace(/^\[|\]$/g, "");
  if (boundTo === "loopback" && !isLoopbackHost(hostname)) {
    return new LockdError("denied", `serve request: Host ${hostname} is not a name of this machine's loopback`, {
      hint: "ask for 127.0.0.1 or localhost",
    });
  }
  const origin = request.headers.get("origin");
  const reading = request.method === "GET" || request.method === "HEAD";
  if (!reading && origin !== null && !isSameHost(origin, host)) {
    return new LockdError("denied", "serve request: it was sent by a page of another origin");
  }
  return null;
}

const isSameHost = (origin: string, host: string): boolean =>
  URL.canParse(origin) && new URL(origin).host === new URL(`http://${host}/`).host;

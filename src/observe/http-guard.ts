/**
 * Which HTTP requests are refused before any route sees them: those that a web page elsewhere makes a
 * browser send to a server that trusts its own machine. Pure functions of the request's head.
 */
import { LockdError } from "../errors.ts";

/** Whether an address as text, without brackets, names this machine only. `localhost` does. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, "").replace(/%.*$/, "");
  if (name === "localhost" || name.endsWith(".localhost") || name === "::1") return true;
  // IPv4 in IPv6, as text and as URL parsers write it: 7fxx is 127.x
  const mapped = /^::ffff:(?:(\d+\.\d+\.\d+\.\d+)|7f[0-9a-f]{2}:[0-9a-f]{1,4})$/.exec(name);
  if (mapped !== null) return mapped[1] === undefined || mapped[1].startsWith("127.");
  return /^127(\.\d{1,3}){3}$/.test(name);
}

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

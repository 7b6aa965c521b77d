/** Which addresses are this machine's own. Pure; resolves no name. */

/** Whether an address as text, without brackets, names this machine only. `localhost` does. */
export function isLoopbackHost(host: string): boolean {
  const name = host.toLowerCase().replace(/\.$/, "").replace(/%.*$/, "");
  if (name === "localhost" || name.endsWith(".localhost") || name === "::1") return true;
  // IPv4 in IPv6, as text and as URL parsers write it: 7fxx is 127.x
  const mapped = /^::ffff:(?:(\d+\.\d+\.\d+\.\d+)|7f[0-9a-f]{2}:[0-9a-f]{1,4})$/.exec(name);
  if (mapped !== null) return mapped[1] === undefined || mapped[1].startsWith("127.");
  return /^127(\.\d{1,3}){3}$/.test(name);
}

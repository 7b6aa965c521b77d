/** Network addresses as text: `host:port` or `[v6]:port`. Resolves no name and opens nothing. */

export interface Address {
  /** name, IPv4 or IPv6 without brackets; lower case */
  host: string;
  port: number;
}

/** The parts of an address, or null when the text is none. Port 0 (any free one) is an address too. */
export function parseAddress(text: string): Address | null {
  const match = /^(?:\[([0-9a-f:.]{2,45})(%[\w.-]{1,15})?\]|([a-z0-9_](?:[a-z0-9._-]{0,252}))):(\d{1,5})$/i.exec(text);
  if (match === null) return null;
  const [, v6, zone = "", name, portText = ""] = match;
  const port = Number(portText);
  if (port > 65_535) return null;
  if (v6 !== undefined) {
    const host = canonicalV6(v6);
    return host === null ? null : { host: host + zone, port };
  }
  const host = (name ?? "").toLowerCase();
  return validName(host) ? { host, port } : null;
}

/** The normal form that parseAddress turns back into the same parts. */
export function formatAddress({ host, port }: Address): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** IPv6 in its shortest form (RFC 5952), as URL parsing does it. */
function canonicalV6(text: string): string | null {
  return URL.canParse(`http://[${text}]/`) ? new URL(`http://[${text}]/`).hostname.slice(1, -1) : null;
}

/** Labels of letters, digits, dashes and underscores; what ends in a number must be a whole IPv4 address. */
function validName(host: string): boolean {
  const labels = host.split(".");
  if (/^\d+$/.test(labels.at(-1) ?? "")) {
    return labels.length === 4 && labels.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255);
  }
  // a name may end in a dot: it is then complete for the resolver
  if (labels.length > 1 && labels.at(-1) === "") labels.pop();
  return labels.every((label) => label.length <= 63 && /^[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?$/.test(label));
}

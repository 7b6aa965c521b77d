/** The options of the core, and its one section. A plugin's options stand in its own section; see src/plugin/types.ts. */
import { hostname } from "node:os";
import { isTerminal } from "../terminal.ts";
import { checkClientTable } from "../security/clients.ts";
import { defaultDataDirectory } from "./data-directory.ts";
import type { OptionSpec, SectionSpec } from "./types.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Read when it exists, unless --config names another. */
export const DEFAULT_CONFIG_FILE = "/etc/lockd/lockd.toml";

/** The options of every lockd process; defaults that depend on it are computed when they are needed. */
export function coreOptions(environment: Environment): readonly OptionSpec[] {
  return [
    {
      name: "config",
      type: "path",
      help: "configuration file",
      valueName: "FILE",
      default: null,
      defaultText: `${DEFAULT_CONFIG_FILE} if it exists`,
      noFile: true,
    },
    { name: "name", type: "string", help: "name of this node", default: hostname, defaultText: "host name", ...NODE_NAME },
    {
      name: "listen",
      type: "address",
      help: "address that clients connect to; port 0 takes any free one",
      default: "127.0.0.1:4050",
    },
    {
      name: "http",
      type: "address",
      word: "off",
      help: "address of /healthz, /readyz and /metrics",
      default: "127.0.0.1:4080",
    },
    {
      name: "data",
      type: "path",
      help: "directory of everything that must survive a restart",
      valueName: "DIR",
      default: () => defaultDataDirectory(environment),
      defaultText: "/var/lib/lockd as root, else $XDG_STATE_HOME/lockd or ~/.local/state/lockd",
    },
    {
      name: "insecure",
      type: "boolean",
      help: "allow an address that other machines can reach without any authentication, and tokens outside TLS",
      default: false,
    },
    file("tls-cert", "certificate of this server or client (PEM); a server that has one speaks TLS"),
    file("tls-key", "private key of the certificate (PEM)"),
    file("tls-ca", "CA whose certificates are trusted (PEM): a server asks clients for one, a client speaks TLS and checks the server's"),
    file("secret-file", "file with the secret that servers and their clients share; both sides prove that they know it"),
    file("token-file", "file with the token by which a server knows this client"),
    {
      name: "connect",
      type: "list",
      of: "address",
      help: "servers that a client command talks to, tried in turn",
      default: ["127.0.0.1:4050"],
    },
    {
      name: "plugin",
      type: "list",
      of: "path",
      help: "external plugins, each a file or folder, loaded when they are needed; PATH#sha256=HEX pins the content",
      default: [],
      defaultText: "none",
    },
    {
      name: "log-level",
      type: "choice",
      choices: ["trace", "debug", "info", "warn", "error", "silent"],
      help: "least important lines that are logged; with debug, unexpected errors show where they came from",
      valueName: "LEVEL",
      default: "info",
    },
    {
      name: "log-format",
      type: "choice",
      choices: ["text", "json"],
      help: "form of log lines",
      default: () => (isTerminal(2) ? "text" : "json"),
      defaultText: "text on a terminal, else json",
    },
    {
      name: "log-file",
      type: "path",
      word: "-",
      help: "file that log lines are added to, opened again on SIGHUP; - is standard error",
      valueName: "FILE",
      default: null,
    },
    { name: "trace-messages", type: "boolean", help: "log every frame that is sent or received", default: false },
    {
      name: "ready-fd",
      type: "integer",
      min: 1,
      max: 1_048_575,
      help: "descriptor that gets a newline when the server is ready",
      default: null,
      defaultText: "none",
      noEnvironment: true,
      noFile: true,
    },
    {
      name: "json",
      type: "boolean",
      help: "answer in JSON: one object, or one a line for lists and streams",
      default: false,
      noEnvironment: true,
      noFile: true,
    },
  ];
}

/** Sections of the file that belong to no plugin. */
export const coreSections: readonly SectionSpec[] = [
  {
    name: "auth",
    options: [
      {
        name: "client",
        type: "tables",
        check: checkClientTable,
        help: "who clients are, and what they may do: one [[auth.client]] for each, see docs/security.md",
        accepted: "tables with name, token-sha256 or token-file, and allow",
        default: [],
        noFlag: true,
        noEnvironment: true,
      },
    ],
  },
];

function file(name: string, help: string): OptionSpec {
  // the word takes back what the configuration file says
  return { name, type: "path", word: "none", help, valueName: "FILE", default: null };
}

const NODE_NAME = {
  pattern: /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/,
  accepted: "1 to 64 letters, digits, dots, dashes and underscores, the first a letter or digit",
};

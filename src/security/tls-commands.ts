/** `lockd tls …`: declarations only, their code is loaded when they run. */
import type { CommandSpec, FlagSpec } from "../cli/types.ts";

const directory = (help: string): FlagSpec => ({ name: "dir", type: "path", help, valueName: "DIR", default: null, defaultText: "none, must be given" });
const days = (value: number): FlagSpec => ({ name: "days", type: "integer", min: 1, max: 36_500, default: value, help: "how long the certificate is valid" });

export const tlsCommands: CommandSpec = {
  name: "tls",
  group: "Configuration and data",
  summary: "make certificates of a private CA",
  description:
    "For machines of one owner that are to trust each other and nobody else. Needs nothing but lockd.\n" +
    "Whoever has ca-key.pem can make certificates for any name: keep it where no server runs.",
  subcommands: [
    {
      name: "init",
      summary: "make a new CA: ca.pem for everybody, ca-key.pem for its owner alone",
      flags: [directory("folder of the CA, made if it is not there; a CA in it is left as it is"), days(3650)],
      options: ["json"],
      examples: [["lockd tls init --dir ./ca", ""]],
      load: () => import("./commands/tls-init.ts"),
    },
    {
      name: "issue",
      summary: "issue a certificate for a server or a client",
      description:
        "Writes cert.pem, key.pem and ca.pem. A server's certificate names the hosts by which it is reached;\n" +
        "a client is known by NAME in the rules of servers.",
      positionals: [{ name: "NAME", help: "name of the server or client: letters, digits, dots, dashes, underscores, @", arity: "one" }],
      flags: [
        directory("folder of the CA, as `lockd tls init` made it"),
        { name: "out", type: "path", help: "folder to write to, made if it is not there; files in it are left as they are", valueName: "DIR", default: null, defaultText: "none, must be given" },
        { name: "host", type: "list", of: "string", help: "names and addresses by which a server is reached", default: [], defaultText: "NAME", valueName: "HOST,…" },
        days(825),
      ],
      options: ["json"],
      examples: [
        ["lockd tls issue db1 --dir ./ca --out ./db1 --host db1.example.org --host 192.0.2.7", "for a server"],
        ["lockd tls issue ci --dir ./ca --out ./ci", "for a client"],
      ],
      load: () => import("./commands/tls-issue.ts"),
    },
  ],
};
